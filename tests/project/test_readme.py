"""The library example of README.md runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_example_runs_and_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert len([line for line in example.splitlines() if line]) <= 10
    assert names["problem"].verify(names["solution"]).feasible  # type: ignore[attr-defined]
    assert "objective" in capsys.readouterr().out
