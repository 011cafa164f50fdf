"""The table of versions that were tried agrees with what the library asks for, and the tool reads
what it is given.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from tests.builders.places import ROOT
from tools import test_versions as versions

ROWS = versions.load()
TRIED = {name: row for name, row in ROWS.items() if row.outcome}


def test_the_page_is_written_from_the_rows() -> None:
    assert versions.PAGE.read_text() == versions.page(list(ROWS.values())), (
        "python -m tools.test_versions --page"
    )


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_has_a_version_of_every_package_in_the_range_that_is_asked_for(
    row: versions.Row,
) -> None:
    asked = versions.requirements()
    assert set(row.versions) == set(asked)
    assert all(row.versions[name] in wish.specifier for name, wish in asked.items())


@pytest.mark.parametrize("row", TRIED.values(), ids=lambda row: row.name)
def test_nothing_failed_with_these_versions(row: versions.Row) -> None:
    assert row.failed == []
    assert row.outcome["passed"] > 10 * row.outcome["skipped"]


def test_every_range_begins_with_a_version_that_was_tried() -> None:
    for name, wish in versions.requirements().items():
        (lowest,) = (part.version for part in wish.specifier)
        tried = min(Version(row.versions[name]) for row in TRIED.values())
        assert tried.release[: len(Version(lowest).release)] == Version(lowest).release, name


def test_the_digest_changes_with_code_tests_and_requirements_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        "ddmip_lib/a.py",
        "tests/unit/test_a.py",
        "tests/unit/ddmip_book/test_b.py",
        "tests/unit/experiments/test_c.py",
        "book/page.md",
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    table = (
        '[project]\nname = "a"\ndescription = "{}"\ndependencies ='
        ' ["numpy>={}"]\n[project.optional-dependencies]\n'
    )
    (tmp_path / "pyproject.toml").write_text(table.format("one", "2.0"))
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    before = versions.made_with()
    for name in files[2:]:
        (tmp_path / name).write_text("2\n")
    (tmp_path / "pyproject.toml").write_text(table.format("two", "2.0"))
    assert versions.made_with() == before
    (tmp_path / "pyproject.toml").write_text(table.format("two", "2.1"))
    changed = {before, versions.made_with()}
    for name in files[:2]:
        (tmp_path / name).write_text("2\n")
        changed.add(versions.made_with())
    assert len(changed) == 4


def test_interpreters_are_known_by_what_they_are(tmp_path: Path) -> None:
    lying = tmp_path / "python3.11"
    lying.write_text("#!/bin/sh\necho 3.14\n")
    lying.chmod(0o755)
    found = versions.interpreters([str(lying), str(tmp_path / "missing"), sys.executable])
    assert found["3.14"] == str(lying)
    assert found[".".join(map(str, sys.version_info[:2]))] == sys.executable
    assert versions.version_of(ROOT / "README.md") == ""


REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="good"/>
<testcase classname="tests.unit.test_a" name="bad"><failure message="no">text</failure></testcase>
<testcase classname="tests.unit.test_b" name="broken"><error message="no">text</error></testcase>
<testcase classname="tests.unit.test_b" name="out"><skipped message="needs a GPU">text</skipped></testcase>
</testsuite></testsuites>
"""


def test_failures_and_errors_of_a_report_are_named() -> None:
    outcome, failed, why = versions.read_report(REPORT)
    assert outcome == {"passed": 1, "skipped": 1}
    assert failed == ["tests.unit.test_a::bad", "tests.unit.test_b::broken"]
    assert why == ["needs a GPU"]


def test_rows_come_back_as_they_were_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "ROWS", tmp_path / "rows.yml")
    monkeypatch.setattr(versions, "PAGE", tmp_path / "page.md")
    names = dict.fromkeys(versions.requirements(), "1.0")
    tried = versions.Row(
        "3.12", "newest", "1e5", names, "Linux x86_64", "2026-11-19", {"passed": 9, "skipped": 1}
    )
    failed = versions.Row(
        "3.11",
        "lowest",
        "1e5",
        names,
        "Linux x86_64",
        "2026-11-19",
        {"passed": 8, "skipped": 1},
        ["a"],
    )
    resolved = versions.Row("3.14", "lowest", "1e5", names)
    versions.store({row.name: row for row in (tried, failed, resolved)})
    assert versions.load() == {row.name: row for row in (failed, tried, resolved)}
    assert [row.passed for row in (tried, failed, resolved)] == [True, False, False]
    page = versions.PAGE.read_text()
    assert "9 passed, 1 skipped (Linux x86_64, 2026-11-19)" in page
    assert "8 passed, 1 skipped, 1 failed" in page
    assert "not tried, resolved only" in page


def test_the_workflow_tries_every_environment_of_the_tool() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "versions.yml").read_text())
    matrix = workflow["jobs"]["versions"]["strategy"]["matrix"]
    assert tuple(matrix["python"]) == versions.PYTHONS
    assert tuple(matrix["end"]) == versions.ENDS
