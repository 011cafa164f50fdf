"""The example of README.md runs as printed and prints what stands below it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.builders.clocks import LONG
from tests.builders.places import ROOT


def value_of(output: str, label: str) -> float:
    found = re.search(rf"^  {label} +(\S+)", output, re.MULTILINE)
    assert found, f"no line {label!r}"
    return float(found[1])


def test_example_runs_and_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    shown = readme.split(code)[1].split("```")[2].strip()
    assert "time_limit=30" in code
    names: dict[str, Any] = {}
    exec(compile(code.replace("time_limit=30", f"time_limit={LONG}"), "README.md", "exec"), names)
    printed = capsys.readouterr().out.strip()
    without_values = [re.sub(r"\d+\.\d+", "0.0", text) for text in (printed, shown)]
    assert without_values[0] == without_values[1]
    # the network is trained where the example runs, so its predictions differ by rounding
    assert value_of(printed, "objective") == pytest.approx(value_of(shown, "objective"), rel=0.05)
    assert value_of(printed, "objective") == pytest.approx(value_of(printed, "bound"), rel=1e-5)
    assert names["problem"].verify(names["solution"]).feasible
    lamps, heaters = names["solution"][names["x"]].sum(axis=0)
    assert lamps + 2 * heaters <= 12


def test_the_example_is_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert sum(1 for line in code.splitlines() if line.strip()) <= 32
