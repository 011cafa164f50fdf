"""The runner of all checks: stages side by side, the first failure ends the run, everything said is shown."""

from __future__ import annotations

import pytest

from tools import run_tests

WAITS = ["-c", "import time; time.sleep(3600)"]
LAST = ["-c", "print('the last stage')"]


def says(text: str) -> list[str]:
    return ["-c", f"print({text!r})"]


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
        said.index("one") < said.index("two") < said.index("== beside") < said.index("three") < said.index("the last")
    )
    assert "total 10" in said
    assert said.rstrip().endswith("all passed")


@pytest.mark.parametrize("place", ["shown", "beside"])
def test_a_failure_ends_what_runs_with_it_and_all_that_follows(run, place: str) -> None:
    fails = [says("before it"), ["-c", "raise SystemExit(7)"], says("after it")]
    code, said = run(fails, [WAITS]) if place == "shown" else run([WAITS], fails)
    assert code == 7
    assert "before it" in said
    assert "after it" not in said
    assert "the last stage" not in said
    assert said.rstrip().endswith(f"FAILED in {place}")


def test_one_stage_alone(run) -> None:
    assert run([says("one")], [["-c", "raise SystemExit(7)"]], "--only", "shown")[0] == 0


def test_every_stage_runs_once() -> None:
    assert sorted(name for names in run_tests.TOGETHER for name in names) == sorted(run_tests.STAGES)
