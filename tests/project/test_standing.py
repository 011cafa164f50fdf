"""What a project has besides its code: pages for people, forms, a release, hooks, a container; all
of it consistent.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from tests.builders.places import ROOT
from tools.release import problems
from tools.write_address import project_urls

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
CONTAINER = ROOT / ".devcontainer"
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
PAGES = [
    ROOT / "SECURITY.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md",
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ALL = [*PAGES, *FORMS, *WORKFLOWS, *sorted(CONTAINER.iterdir()), ROOT / ".pre-commit-config.yaml"]
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
GITHUB = {"repository": {"url": "https://github.com/Someone/book"}}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_no_person_no_machine_and_no_target_that_is_missing(path: Path) -> None:
    text = path.read_text()
    assert not re.findall(r"[\w.+-]+@[\w-]+\.[a-z]+", text), "somebody's mail"
    assert not re.findall(r"(?<![\w.])/(?:home|root|work|mnt|tmp|Users|srv)/\S*", text), (
        "a path of one machine"
    )
    assert not re.findall(r"https?://\S+", text), (
        "an address of its own; the project's stands in _config.yml"
    )
    commands = re.findall(r"\bmake ([a-z-]+)", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    assert set(commands) - {"comes"} <= TARGETS


@pytest.mark.parametrize(
    "path", [form for form in FORMS if form.stem != "config"], ids=lambda path: path.stem
)
def test_forms_have_what_the_host_asks_for(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert len({field["id"] for field in fields}) == len(fields) >= 3
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert {form.stem for form in FORMS} == {"bug", "config", "documentation", "question"}
    assert yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text()) == {
        "blank_issues_enabled": True
    }


def test_the_form_for_faults_asks_for_versions_by_a_command_that_runs() -> None:
    (form,) = [yaml.safe_load(path.read_text()) for path in FORMS if path.stem == "bug"]
    (field,) = [field for field in form["body"] if field.get("id") == "versions"]
    (command,) = re.findall(r"`(python -c .*?)`", field["attributes"]["description"])
    words = [sys.executable, *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.match(r"\d+\.\d+", done.stdout)


def test_the_release_is_built_checked_and_published_without_a_secret() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # to YAML 1.1 "on" is a truth value
    build = workflow["jobs"]["build"]
    publish = workflow["jobs"]["publish"]
    runs = [step.get("run", "") for step in build["steps"]]
    checked = next(number for number, run in enumerate(runs) if "tools.release" in run)
    assert checked < runs.index("make test") < runs.index("make dist")
    assert "permissions" not in build, "only the job that publishes may identify itself"
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    kept = build["steps"][-1]["with"]
    taken = publish["steps"][0]["with"]
    assert kept["name"] == taken["name"]
    dist = re.search(r"^dist:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert dist is not None
    assert f"--out-dir {kept['path'].rstrip('/')}\n" in dist[1]
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")


def test_what_stands_against_a_release_is_named() -> None:
    project = {"version": "1.2.0", "urls": project_urls(GITHUB)}
    changelog = "# Changelog\n\n## 1.2.0 (2027-01-31)\n"
    assert problems("v1.2.0", project, changelog, GITHUB) == []
    assert problems("v1.2", project, changelog, GITHUB) == [
        "the tag is v1.2, the version 1.2.0: name the tag v1.2.0, or set the version"
    ]
    assert "unreleased" in problems("v1.2.0", project, "## 1.2.0 (unreleased)\n", GITHUB)[0]
    assert "no section" in problems("v1.2.0", project, "## 1.2.0rc1 (2027-01-31)\n", GITHUB)[0]
    assert "no address" in problems("v1.2.0", {"version": "1.2.0"}, changelog, {})[0]
    assert "write_address" in problems("v1.2.0", {"version": "1.2.0"}, changelog, GITHUB)[0]


def hook(name: str) -> dict[str, Any]:
    (found,) = [each for group in HOOKS["repos"] for each in group["hooks"] if each["id"] == name]
    return found


def run_hook(name: str, file: Path) -> subprocess.CompletedProcess[str]:
    """The hook on one file, by the programs of this environment."""
    program, *words = shlex.split(hook(name)["entry"])
    assert program.startswith(".venv/bin/")
    command = [str(Path(sys.executable).with_name(Path(program).name)), *words, str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_hooks_are_the_pinned_tools() -> None:
    """Nothing is fetched in another version than that of the lock."""
    assert [group["repo"] for group in HOOKS["repos"]] == ["local"]
    hooks = [each for group in HOOKS["repos"] for each in group["hooks"]]
    assert [each["id"] for each in hooks] == [
        "ruff-check",
        "ruff-format",
        "nbstripout",
        "codespell",
    ]
    pinned = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    for each in hooks:
        assert each["language"] == "system"
        assert Path(shlex.split(each["entry"])[0]).name in pinned


def test_hooks_notice_what_they_are_for(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("import os\nx = {  'a':1 }\n")
    assert "F401" in run_hook("ruff-check", code).stdout
    run_hook("ruff-format", code)
    assert code.read_text() == 'import os\n\nx = {"a": 1}\n'
    cell = nbformat.v4.new_code_cell(
        "1", id="kept", outputs=[nbformat.v4.new_output("stream", text="1")]
    )
    chapter = tmp_path / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), chapter)
    assert run_hook("nbstripout", chapter).returncode == 0
    (stripped,) = nbformat.read(chapter, 4).cells
    assert (stripped.id, stripped.outputs) == ("kept", [])
    page = tmp_path / "page.md"
    page.write_text("We re" + "cieve it.\n")  # in two parts: the hook looks at this file, too
    assert run_hook("codespell", page).returncode != 0


def test_hooks_look_at_the_files_that_the_tests_look_at() -> None:
    files = hook("codespell")["files"]
    exclude = hook("codespell")["exclude"]
    for name in (
        "README.md",
        "book/preface.md",
        "course/a/b.md",
        "ddmip_lib/model/problem.py",
        "tests/conftest.py",
    ):
        assert re.search(files, name), name
    assert not re.search(files, "book/ddmip_book/text.py")
    assert re.search(exclude, "tests/project/test_spelling.py")
    assert re.search(hook("nbstripout")["files"], "book/04_split.ipynb")


def test_the_container_has_what_set_up_and_laboratory_need() -> None:
    settings = json.loads((CONTAINER / "devcontainer.json").read_text())
    recipe = (CONTAINER / settings["build"]["dockerfile"]).read_text()
    version = re.search(r"^FROM python:(3\.\d+)", recipe, re.MULTILINE)
    assert version is not None
    assert version[1] in ("3.11", "3.12", "3.13")
    assert settings["postCreateCommand"] == "make setup"
    assert 8888 in settings["forwardPorts"]
    # JupyterLab refuses to run as root
    assert f"useradd --create-home --shell /bin/bash {settings['remoteUser']}" in recipe
