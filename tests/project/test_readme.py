"""The library example of README.md runs as printed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.builders.clocks import LONG
from tests.builders.places import ROOT


def test_example_runs_and_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "n=50" in first
    first = first.replace("n=50", "n=12").replace(
        "time_limit=60", f"time_limit={LONG}"
    )  # fewer samples, less time
    names: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), names)
    assert len([line for line in first.splitlines() if line]) <= 10
    assert names["problem"].verify(names["solution"]).feasible
    assert "time_limit=30" in second
    second = second.replace("time_limit=10", f"time_limit={LONG}").replace(
        "time_limit=30", "time_limit=3"
    )
    exec(compile(second, "README.md", "exec"), names)  # a bound holds at any limit
    assert names["problem"].verify(names["better"]).feasible
    assert names["solution"].objective <= names["better"].objective <= names["better"].bound
    assert "objective" in capsys.readouterr().out
