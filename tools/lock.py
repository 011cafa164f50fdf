"""Rewrite requirements.lock from both pyproject.toml: one pin per package for all supported Pythons
and platforms.

Versions already pinned stay; `python -m tools.lock --upgrade` moves them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Written by `make lock` from pyproject.toml and book/pyproject.toml; do not edit by hand.
# One file for Python 3.11-3.13 on Linux x86-64 and aarch64 and on macOS arm64.
# torch's CUDA packages are left out on purpose: the book runs on the CPU build (see tools/setup_env.sh).
"""
NOT_OURS = re.compile(r"^(nvidia|cuda)-|^triton==|; (sys_platform == 'win32'|os_name == 'nt')$")


def for_supported(lines: list[str]) -> list[str]:
    """Drop what only a CUDA build of torch or only Windows asks for.

    >>> for_supported(
    ...     ["numpy==2.4.6", "triton==3.7.1 ; sys_platform == 'linux'", "nvidia-nvtx==13.0.85"]
    ... )
    ['numpy==2.4.6']
    """
    return [
        line for line in lines if line and not line.startswith("#") and not NOT_OURS.search(line)
    ]


def main() -> int:
    uv = Path(sys.executable).parent / "uv"
    if not uv.exists():
        print(f"make lock needs {uv.name}. To fix this: make setup", file=sys.stderr)
        return 1
    command = [str(uv), "pip", "compile", "--universal", "--python-version", "3.11"]
    command += [
        "--extra",
        "test",
        "--no-emit-package",
        "ddmip-lib",
        "--no-header",
        "--no-annotate",
        "--quiet",
    ]
    command += [
        *sys.argv[1:],
        "book/pyproject.toml",
    ]  # which asks for the library with all its extras
    # With an output file uv keeps the versions already in it, unless --upgrade is given.
    code = subprocess.run([*command, "--output-file", LOCK.name], cwd=ROOT).returncode
    if code:
        return code
    LOCK.write_text(HEADER + "\n".join(for_supported(LOCK.read_text().splitlines())) + "\n")
    print(f"wrote {LOCK.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
