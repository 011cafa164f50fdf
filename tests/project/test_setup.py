"""tools/setup_env.sh on machines it must refuse, after an interruption, and when there is nothing
to do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import ROOT

INPUTS = ("requirements.lock", "pyproject.toml", "book/pyproject.toml", "tools/setup_env.sh")
FAKE_VENV_PYTHON = """\
#!/bin/bash
case "$*" in
  *" install "*) echo "pip called: $*" >>pip.log; [ -e network ] || { echo "no network here"; exit 1; } ;;
  *"config get global.index-url") [ -e mirror ] && cat mirror || exit 1 ;;
  *urlopen*) exit 1 ;;
esac
case "$*" in *" uv=="*) cp bin/fake-uv .venv/bin/uv ;; esac
"""
FAKE_UV = """\
#!/bin/bash
echo "uv called: $* from $UV_DEFAULT_INDEX" >>pip.log
[ -e uv-fails ] && { echo "no wheel that fits"; exit 1; }
exit 0
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the script reads, in a folder of its own, with room for fake commands."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "bin").mkdir()
    for name in INPUTS:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def fake(project: Path, name: str, body: str) -> Path:
    command = project / "bin" / name
    command.write_text(body)
    command.chmod(0o755)
    return command


def run(project: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHON", "DDMIP_TORCH_INDEX")
    }
    environment = {**inherited, "PATH": f"{project / 'bin'}:{os.environ['PATH']}", **variables}
    command = ["bash", "tools/setup_env.sh"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("system", "machine"), [("Darwin", "x86_64"), ("Linux", "riscv64"), ("MINGW64_NT", "x86_64")]
)
def test_unsupported_platform_is_refused_by_name(project: Path, system: str, machine: str) -> None:
    fake(project, "uname", f'#!/bin/bash\n[ "$1" = -s ] && echo {system} || echo {machine}\n')
    result = run(project)
    assert result.returncode == 1
    assert f"{system} on {machine} is not supported" in result.stderr
    assert "To fix this: use Linux" in result.stderr


def test_wrong_python_is_refused_by_version(project: Path) -> None:
    old = fake(
        project, "python3.10", '#!/bin/bash\n[[ "$*" == *platform* ]] && echo 3.10.13 || exit 1\n'
    )
    result = run(project, PYTHON=str(old))
    assert result.returncode == 1
    assert "is 3.10.13; the book needs Python 3.11, 3.12 or 3.13" in result.stderr


def test_missing_venv_module_is_named_with_its_package(project: Path) -> None:
    bare = fake(
        project,
        "bare",
        f'#!/bin/bash\n[[ "$*" == *ensurepip* ]] && exit 1\nexec {sys.executable} "$@"\n',
    )
    result = run(project, PYTHON=str(bare))
    assert result.returncode == 1
    assert "sudo apt-get install python3-venv" in result.stderr


def test_finished_environment_costs_nothing_until_the_lock_changes(project: Path) -> None:
    broken = project / ".venv" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/bash\nexit 1\n")
    broken.chmod(0o755)
    content = b"".join((project / name).read_bytes() for name in INPUTS) + f"{project}\n".encode()
    (project / ".venv" / ".ddmip-stamp").write_text(hashlib.sha256(content).hexdigest())
    silent = run(project)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    with (project / "requirements.lock").open("a") as lock:
        lock.write("one-more==1.0\n")
    fake(project, "uname", "#!/bin/bash\necho elsewhere\n")
    assert run(project).returncode == 1


def python_that_makes_fakes(project: Path) -> str:
    """An interpreter whose virtual environments hold a fake Python that writes down each call of
    pip.
    """
    fake(project, "venv-python", FAKE_VENV_PYTHON)
    fake(project, "fake-uv", FAKE_UV)
    body = f"""#!/bin/bash
case "$*" in
  *"venv --clear"*) mkdir -p .venv/bin; cp bin/venv-python .venv/bin/python; echo created >>created.log ;;
  *) exec {sys.executable} "$@" ;;
esac
"""
    return str(fake(project, "python-that-makes-fakes", body))


def test_interrupted_install_is_shown_and_repaired(project: Path) -> None:
    python = python_that_makes_fakes(project)
    failed = run(project, PYTHON=python)
    assert failed.returncode == 1
    assert "no network here" in failed.stderr
    assert not (project / ".venv" / ".ddmip-stamp").exists()
    (project / "network").touch()
    repaired = run(project, PYTHON=python)
    assert repaired.returncode == 0, repaired.stderr
    assert (project / "created.log").read_text().splitlines() == ["created", "created"]
    calls = (project / "pip.log").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["pip", "pip", "uv", "pip", "pip"]
    assert (
        calls[1].split()[-1].startswith("uv==")
    )  # the first one failed; then uv, packages, torch, library and book
    assert calls[2].endswith("-r .venv/requirements-without-torch.txt from ")
    assert calls[3].endswith("torch==2.13.0")
    assert "--index-url" not in calls[3]
    assert run(project, PYTHON=python).stdout == ""


def test_uv_asks_where_pip_would_and_where_it_cannot_pip_takes_its_place(project: Path) -> None:
    for name in ("network", "uv-fails"):
        (project / name).touch()
    (project / "mirror").write_text("https://example.org/simple")
    result = run(project, PYTHON=python_that_makes_fakes(project), PIP_INDEX_URL="")
    assert result.returncode == 0, result.stderr
    assert "uv could not (no wheel that fits); pip does it" in result.stdout
    calls = (project / "pip.log").read_text().splitlines()
    assert calls[1].endswith("from https://example.org/simple")
    assert calls[2].endswith("--no-deps -r .venv/requirements-without-torch.txt")


def test_torch_index_can_be_named(project: Path) -> None:
    (project / "network").touch()
    result = run(
        project,
        PYTHON=python_that_makes_fakes(project),
        DDMIP_TORCH_INDEX="https://example.org/whl",
    )
    assert result.returncode == 0, result.stderr
    assert "--index-url https://example.org/whl torch==2.13.0" in (project / "pip.log").read_text()
