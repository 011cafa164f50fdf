"""The executor: keys, parameters, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import papermill
import psutil
import pytest
from papermill.clientwrap import PapermillNotebookClient

from tests.builders.clocks import LONG
from tools import build_book, notebooks, run_notebook


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project of one chapter."""
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(build_book, "CACHE", tmp_path / "_build" / ".jupyter_cache")
    for folder in ("book", "ddmip_lib", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "_toc.yml").write_text(
        "{format: jb-book, root: book/preface, chapters: [{file: book/one}]}"
    )
    (tmp_path / "book" / "preface.md").write_text("# Preface")
    (tmp_path / "book" / "profiles.yml").write_text("one: {n: 7}")
    (tmp_path / "book" / "seconds.yml").write_text("{short: 1, long: 30}")
    (tmp_path / "requirements.lock").write_text("numpy==2.4.6\n")
    (tmp_path / "ddmip_lib" / "solver.py").write_text("rho = 10\n")
    (tmp_path / "data" / "weights.txt").write_text("1\n")
    write_chapter(tmp_path, "print(n * n)")
    return tmp_path


def write_chapter(project: Path, code: str, name: str = "one") -> None:
    parameters = nbformat.v4.new_code_cell("n = 3", id="a", metadata={"tags": ["parameters"]})
    cells = [parameters, nbformat.v4.new_code_cell(code, id="b")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata=kernel), project / "book" / f"{name}.ipynb"
    )


def write_chapters(project: Path, **code: str) -> list[Path]:
    for name, source in code.items():
        write_chapter(project, source, name)
    return [project / "book" / f"{name}.ipynb" for name in code]


def printed(executed: Path) -> list[str]:
    return [
        output.text
        for cell in nbformat.read(executed, 4).cells
        for output in cell.get("outputs", [])
    ]


def test_profiles_change_the_parameters(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    assert printed(notebooks.execute(chapter, "quick")) == ["9\n"]
    assert printed(notebooks.execute(chapter, "full")) == ["49\n"]


def test_unknown_parameter_is_an_error(project: Path) -> None:
    (project / "book" / "profiles.yml").write_text("one: {m: 7}")
    with pytest.raises(
        notebooks.ChapterError, match="sets m for one, whose parameters cell holds n"
    ):
        notebooks.execute(notebooks.chapters()[0], "full")


@pytest.mark.parametrize(
    "changed", ["ddmip_lib/solver.py", "data/weights.txt", "requirements.lock", "book/one.ipynb"]
)
def test_any_change_makes_the_result_stale(project: Path, changed: str) -> None:
    (chapter,) = notebooks.chapters()
    before = notebooks.key(chapter, "quick")
    assert notebooks.key(chapter, "quick") == before
    with (project / changed).open("a") as file:
        file.write("\n")
    assert notebooks.key(chapter, "quick") != before


def test_profile_and_data_are_part_of_the_key(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chapter,) = notebooks.chapters()
    before = notebooks.key(chapter, "quick")
    assert notebooks.key(chapter, "full") != before
    monkeypatch.setattr(notebooks, "data_identity", lambda: {"water": ["real", "0" * 64]})
    assert notebooks.key(chapter, "quick") != before


def test_failing_cell_is_shown_and_nothing_is_left(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    target = notebooks.execute(chapter)
    assert notebooks.is_current(chapter, "quick")
    write_chapter(project, "answer = n / 0")
    with pytest.raises(notebooks.ChapterError, match=r"(?s)answer = n / 0.*ZeroDivisionError"):
        notebooks.execute(chapter)
    assert list(target.parent.iterdir()) == []


def test_no_cell_has_a_time_limit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a machine is busy with, a cell is not stopped, and its kernel and its output are
    waited for.
    """
    limits: list[tuple[float | None, float, float]] = []

    class Client(PapermillNotebookClient):
        def execute(self, **options: Any) -> Any:
            limits.append((self.timeout, self.startup_timeout, self.iopub_timeout))
            return super().execute(**options)

    monkeypatch.setattr("papermill.engines.PapermillNotebookClient", Client)
    (chapter,) = notebooks.chapters()
    options = {**run_notebook.PAPERMILL, **notebooks.papermill_options(chapter, "full")}
    executed = papermill.execute_notebook(str(chapter), None, **options)
    assert "49" in str(executed.cells[-1].outputs)
    assert limits == [(None, 24 * 3600, 24 * 3600)]


FOREVER = "import pathlib, time\npathlib.Path('../begun').touch()\nwhile True:\n    time.sleep(0.1)"


def test_the_longest_begin_first_and_what_is_up_to_date_does_not_run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "AT_ONCE", 1)
    paths = [project / "book" / f"{name}.ipynb" for name in ("01_short", "02_unknown", "03_long")]
    assert [path.stem for path in notebooks.longest_first(paths)] == [
        "02_unknown",
        "03_long",
        "01_short",
    ]
    chapters = write_chapters(project, short="print(1)", long="print(2)")
    notebooks.bring_up_to_date(chapters, "quick")
    said = [line.split(" in ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["long: executed", "short: executed"]
    write_chapter(project, "print(3)", "long")
    notebooks.bring_up_to_date(chapters, "quick")
    assert printed(notebooks.executed_path(chapters[1], "quick")) == ["3\n"]
    assert capsys.readouterr().out.startswith("short: up to date\nlong: executed")


def test_a_failure_stops_what_runs_beside_it_and_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "AT_ONCE", 2)
    fails = (
        "import pathlib, time\nwhile not pathlib.Path('../begun').exists():\n   "
        " time.sleep(0.1)\nanswer = n / 0"
    )
    chapters = write_chapters(project, unknown=FOREVER, fails=fails, short="print(1)")
    with pytest.raises(
        notebooks.ChapterError, match=r"(?s)fails: cell 1 failed.*answer = n / 0.*ZeroDivisionError"
    ):
        notebooks.bring_up_to_date(chapters, "quick")
    assert list((project / "_build" / "executed" / "quick").iterdir()) == []


def test_an_interrupt_leaves_no_process_and_no_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[psutil.Process] = []
    before = psutil.Process().children(
        recursive=True
    )  # such as multiprocessing's tracker, of other tests

    def interrupt(seconds: float) -> None:
        if (project / "begun").exists():
            found.extend(
                child for child in psutil.Process().children(recursive=True) if child not in before
            )
            raise KeyboardInterrupt

    monkeypatch.setattr(notebooks.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        notebooks.bring_up_to_date(write_chapters(project, one=FOREVER), "quick")
    assert len(found) >= 2, "papermill's process and its kernel"
    assert psutil.wait_procs(found, timeout=LONG)[1] == []
    assert list((project / "_build" / "executed" / "quick").iterdir()) == []


def test_a_process_that_is_killed_is_a_failure(project: Path) -> None:
    write_chapter(project, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
    with pytest.raises(notebooks.ChapterError, match="one: its process ended with -9"):
        notebooks.execute(notebooks.chapters()[0])


def test_seconds_are_told_and_remembered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chapters = write_chapters(project, **{"03_long": "print(1)"})
    notebooks.bring_up_to_date(chapters, "quick")
    executed = notebooks.executed_path(chapters[0], "quick")
    assert notebooks.noted(executed)["seconds"] > 0, "processor seconds of its kernel"
    notebook = nbformat.read(executed, 4)
    notebook.metadata["ddmip"]["seconds"] = notebooks.MOST_SECONDS + 1.4
    nbformat.write(notebook, executed)
    took = notebooks.report_seconds(chapters, "quick")
    assert took == {"long": notebooks.MOST_SECONDS + 1.4}
    told = f"(usually 30), more than {notebooks.MOST_SECONDS} s: shorten it"
    assert told in capsys.readouterr().out
    notebooks.remember({**notebooks.usual_seconds(), **took})
    assert notebooks.usual_seconds() == {"short": 1, "long": notebooks.MOST_SECONDS + 1}


def test_cache_takes_the_outputs_and_refuses_foreign_ones(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    notebooks.execute(chapter, "full")
    assert len(build_book.seed_cache("full")) == 1
    assert (
        build_book.with_outputs(chapter, notebooks.executed_path(chapter, "full"))
        .cells[1]
        .outputs[0]
        .text
        == "49\n"
    )
    write_chapter(project, "print(n + 1)")
    with pytest.raises(notebooks.ChapterError, match="another source"):
        build_book.seed_cache("full")
