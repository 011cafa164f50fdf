"""The runner of all checks: stages side by side, all of them run, one table of what failed,
everything is shown.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders.places import ROOT
from tools import run_tests

LAST = ["-c", "print('the last stage')"]
FAILS = ["-c", "print('what went wrong'); raise SystemExit(7)"]
NOT_FOUND = "print('before'); import no_such_module"


def says(text: str) -> list[str]:
    return ["-c", f"print({text!r})"]


def pytest_on(file: Path, *options: str) -> list[str]:
    return [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(file.parent),
        *options,
        str(file),
    ]


def table_of(said: str) -> str:
    """What is printed between the stages and the seconds."""
    return said.partition("== what failed\n")[2].partition("\nseconds: ")[0]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    def call(shown: list[list[str]], beside: list[list[str]], *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(run_tests, "STAGES", {"shown": shown, "beside": beside, "last": [LAST]})
        monkeypatch.setattr(run_tests, "TOGETHER", (("shown", "beside"), ("last",)))
        monkeypatch.setattr("sys.argv", ["run_tests", *arguments])
        return run_tests.main(), capfd.readouterr().out

    return call


def test_commands_of_a_stage_follow_each_other_and_what_runs_beside_is_shown_after(run) -> None:
    code, said = run([says("one"), says("two")], [says("three")], "--setup-seconds", "100")
    assert code == 0
    assert (
        said.index("one")
        < said.index("two")
        < said.index("== beside")
        < said.index("three")
        < said.index("the last")
    )
    seconds = re.search(
        r"^seconds: set-up 100, shown \d+, beside \d+, last \d+\ntotal (\d+) s: all passed\n\Z",
        said,
        re.M,
    )
    assert seconds is not None
    assert int(seconds[1]) >= 100
    assert "what failed" not in said


@pytest.mark.parametrize("place", ["shown", "beside"])
def test_a_failure_ends_neither_its_stage_nor_another(run, place: str) -> None:
    fails = [says("before it"), FAILS, says("after it")]
    passes = [says("its neighbour")]
    code, said = run(fails, passes) if place == "shown" else run(passes, fails)
    assert code == 1
    for shown in ("before it", "what went wrong", "after it", "its neighbour", "the last stage"):
        assert shown in said.partition("== what failed")[0]
    (row,) = re.findall(rf"^{place} +exit 7 +python -c .*", table_of(said), re.MULTILINE)
    assert "SystemExit(7)" in row
    assert said.rstrip().endswith(f"FAILED in {place}")


def test_the_table_names_every_failure_once(run) -> None:
    code, said = run([FAILS, ["-c", "raise SystemExit(3)"]], [["-c", NOT_FOUND], says("fine")])
    assert code == 1
    rows = re.findall(r"^(\w+) +(exit \d+) ", table_of(said), re.MULTILINE)
    assert rows == [("shown", "exit 7"), ("shown", "exit 3"), ("beside", "exit 1")]
    # what is shown as it runs is not kept; of the rest the table repeats the last line
    assert "its output is shown above" in table_of(said)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in table_of(said)
    assert said.rstrip().endswith("FAILED in shown, beside")


def test_a_command_that_is_killed_or_prints_nothing_is_in_the_table(run) -> None:
    dies = ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    code, said = run([says("one")], [dies])
    assert code == 1
    assert re.search(r"^beside +signal 9 .*\n +it printed nothing$", table_of(said), re.MULTILINE)


TESTS = """\
import os
import pytest

def test_passes():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_number(number):
    assert number == 1, "the second is wrong"

@pytest.fixture
def broken():
    raise ValueError("no such thing")

def test_with_fixture(broken):
    pass

def test_that_ends_its_process():
    if os.environ.get("PYTEST_XDIST_WORKER"):
        os._exit(3)
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_failing_tests_are_named(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # where this test itself runs in one
    (tmp_path / "test_it.py").write_text(TESTS)
    code, said = run([pytest_on(tmp_path / "test_it.py", "-n", workers)], [says("fine")])
    assert code == 1
    assert re.search(r"^shown +exit 1 +python -m pytest ", table_of(said), re.MULTILINE)
    lines = [line.strip() for line in table_of(said).splitlines() if "::" in line]
    assert lines[:2] == [
        "test_it.py::test_number[2]: line 9: AssertionError: the second is wrong",
        "test_it.py::test_with_fixture: line 13: ValueError: no such thing",
    ]
    crashed = [
        line for line in lines[2:] if "test_that_ends_its_process" in line and "crashed" in line
    ]
    assert len(lines) == 2 + len(crashed) == 2 + int(workers)


def test_a_file_that_cannot_be_collected_and_a_wrong_option_are_failures(
    run, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text("import no_such_module\n")
    wrong_option = pytest_on(tmp_path / "test_it.py", "--no-such-option")
    code, said = run([says("fine")], [pytest_on(tmp_path / "test_it.py", "-n", "0"), wrong_option])
    assert code == 1
    assert "test_it.py: " in table_of(said)
    assert "No module named 'no_such_module'" in table_of(said)
    assert re.search(r"^beside +exit 4 ", table_of(said), re.MULTILINE)


def test_a_stage_whose_input_failed_is_reported_as_not_run(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "NEEDS", {"last": "beside"})
    code, said = run([says("one")], [FAILS])
    assert code == 1
    assert "the last stage" not in said
    assert re.search(
        r"^last +not run\n +it needs the result of stage beside, which failed$",
        table_of(said),
        re.M,
    )
    assert said.rstrip().endswith("FAILED in beside; not run: last")
    assert (
        run([FAILS], [says("one")])[1].count("the last stage") == 1
    )  # nothing that it needs has failed


def test_one_stage_alone(run) -> None:
    assert run([says("one")], [FAILS], "--only", "shown")[0] == 0


INTERRUPTED = """\
import signal
import sys
from pathlib import Path
from tools import run_tests

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background programs ignore
begun, tests = sys.argv.pop(), sys.argv.pop()
waits = ["-c", "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(3600)", begun]
failing = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", tests]
run_tests.STAGES = {"shown": [failing], "beside": [waits], "last": [["-c", "print('the last stage')"]]}
run_tests.TOGETHER = (("shown", "beside"), ("last",))
raise SystemExit(run_tests.main())
"""
SLOW_TESTS = """\
import pathlib, time

def test_fails():
    assert False, "known before the end"

def test_waits():
    pathlib.Path(__file__).with_name("waiting").touch()
    time.sleep(3600)
"""


def test_ctrl_c_ends_all_and_the_table_has_what_was_known(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SLOW_TESTS)
    (tmp_path / "program.py").write_text(INTERRUPTED)
    command = [
        sys.executable,
        "-u",
        str(tmp_path / "program.py"),
        str(tmp_path / "test_it.py"),
        str(tmp_path / "begun"),
    ]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, text=True
    ) as runner:
        while not ((tmp_path / "begun").exists() and (tmp_path / "waiting").exists()):
            assert runner.poll() is None
            time.sleep(0.1)
        runner.send_signal(signal.SIGINT)
        said = runner.communicate()[0]
    assert runner.returncode == 130
    assert "the last stage" not in said
    assert re.search(r"^shown +stopped +python -m pytest ", table_of(said), re.MULTILINE)
    assert "test_it.py::test_fails: line 4: AssertionError: known before the end" in table_of(said)
    assert said.rstrip().endswith("INTERRUPTED")


def test_every_stage_runs_once() -> None:
    assert sorted(name for names in run_tests.TOGETHER for name in names) == sorted(
        run_tests.STAGES
    )


def test_what_a_stage_needs_runs_before_it() -> None:
    order = {name: number for number, names in enumerate(run_tests.TOGETHER) for name in names}
    assert all(order[needed] < order[name] for name, needed in run_tests.NEEDS.items())
