#!/usr/bin/env bash
# Create or repair .venv with exactly what requirements.lock pins, and both packages in editable mode.
#
#   PYTHON             the interpreter to use (3.11 to 3.13); found by itself otherwise
#   DDMIP_TORCH_INDEX  where torch comes from: auto (default), default, or the URL of a wheel index
#
# Once finished it leaves a stamp; while the stamp fits, a run ends at once and calls no pip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cpu_index=https://download.pytorch.org/whl/cpu
venv=.venv
stamp=$venv/.ddmip-stamp
unfinished=$venv/.ddmip-unfinished

say() { printf 'set-up: %s\n' "$1"; }
fail() { printf 'set-up failed: %s\nTo fix this: %s\n' "$1" "$2" >&2; exit 1; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-64; }

# The folder is part of the key: an environment that was moved or copied gets repaired.
wanted=$( { cat requirements.lock pyproject.toml book/pyproject.toml tools/setup_env.sh; pwd; } | sha256)
if [ -x $venv/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then exit 0; fi

case "$(uname -s) $(uname -m)" in
  "Linux x86_64" | "Linux aarch64" | "Darwin arm64") ;;
  *) fail "$(uname -s) on $(uname -m) is not supported." \
      "use Linux (x86_64 or aarch64) or macOS on Apple silicon; on Windows, the Linux subsystem WSL 2." ;;
esac

fits() { "$1" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
version_of() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "no Python"; }

python=""
if [ -n "${PYTHON:-}" ]; then
  fits "$PYTHON" || fail "PYTHON=$PYTHON is $(version_of "$PYTHON"); the book needs Python 3.11, 3.12 or 3.13." \
    "name such an interpreter, for example: make setup PYTHON=python3.12"
  python=$PYTHON
else
  for candidate in python3 python3.11 python3.12 python3.13; do
    if command -v $candidate >/dev/null && fits $candidate; then python=$candidate; break; fi
  done
  [ -n "$python" ] || fail "no Python 3.11, 3.12 or 3.13 was found (python3 is $(version_of python3))." \
    "install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python@3.12)."
fi

if [ "$(uname -s)" = Linux ] && ! "$python" -c 'import platform; raise SystemExit(platform.libc_ver()[0] != "glibc")'; then
  fail "this Linux does not use glibc, and SCIP and PyTorch publish no wheels for it." "use a glibc distribution such as Debian."
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  series=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  fail "$python cannot create virtual environments: its venv or ensurepip module is missing." \
    "install it (Debian, Ubuntu: sudo apt-get install python3-venv or python$series-venv)."
fi

# An install that was interrupted may hold half-written packages, so such an environment starts over.
if [ -e $unfinished ] || ! $venv/bin/python -c 'import pip' 2>/dev/null || ! fits $venv/bin/python; then
  say "creating $venv with $("$python" --version)"
  "$python" -m venv --clear $venv
fi
rm -f $stamp
touch $unfinished

log=$venv/setup.log
pip_install() {
  if ! $venv/bin/python -m pip --disable-pip-version-check install --no-compile --progress-bar off "$@" >$log 2>&1; then
    cat $log >&2
    fail "pip could not install the environment (its whole output is above)." "check the network, then run the command again."
  fi
}

# The index and the certificates that pip was told to use, if any; uv does not read pip's settings.
told() { $venv/bin/python -m pip config get "global.$1" 2>/dev/null || true; }
uv_install() {
  local index=${PIP_INDEX_URL:-$(told index-url)} certificates=${PIP_CERT:-$(told cert)}
  ${index:+env UV_DEFAULT_INDEX="$index"} ${certificates:+env SSL_CERT_FILE="$certificates"} \
    $venv/bin/uv pip install --quiet --python $venv/bin/python "$@" >$log 2>&1
}

torch=$(grep '^torch==' requirements.lock)
packages=$venv/requirements-without-torch.txt
grep -v '^torch==' requirements.lock >$packages
say "installing $(grep -c == $packages) pinned packages"
pip_install --no-deps "$(grep '^uv==' requirements.lock)"
if ! uv_install --no-deps -r $packages; then
  say "uv could not ($(tail -n 1 $log)); pip does it (about a minute)"
  pip_install --no-deps -r $packages
fi

# torch comes after its dependencies, so that its own index need not carry them in the pinned versions.
index=${DDMIP_TORCH_INDEX:-auto}
if [ "$index" = auto ]; then
  index=default
  if [ "$(uname -s)" = Linux ] &&
    $venv/bin/python -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5)' $cpu_index/ 2>/dev/null; then
    index=$cpu_index
  fi
fi
say "installing $torch from the $index index"
if [ "$index" = default ]; then
  pip_install -c requirements.lock "$torch"
else
  pip_install -c requirements.lock --index-url "$index" "$torch"
fi

say "installing the library and the book's package in editable mode"
pip_install --no-deps --no-build-isolation -e . -e ./book

# pip would compile on one core alone; what is seldom imported is compiled then, what does not compile never is.
say "compiling them"
seldom='/(tests?|pip|setuptools|mypyc?|coverage|debugpy|jedi|networkx|dask/(array|bag|dataframe)|fontTools/(\w+Lib|pens|subset)'
seldom+='|scipy/(cluster|datasets|fftpack|io|odr|signal)|sympy/(physics|stats)|torch/(_dynamo|_inductor|ao|onnx|testing))/'
$venv/bin/python -W ignore -m compileall -qq -j 0 -x "$seldom" $venv/lib ddmip_lib book/ddmip_book experiments tools || true

rm $unfinished
printf '%s\n' "$wanted" >$stamp
say "done"
