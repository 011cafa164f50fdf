"""Build the HTML book from the executed chapters; what papermill produced is what the pages show.

    python -m tools.build_book [--profile full]

The outputs are put into the cache from which Jupyter Book takes them. The build fails on any
warning, and if it executed a notebook itself.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn

from tools import html_page, notebooks, readable, redirects
from tools.contents import ContentsError

HTML = notebooks.BUILD / "html"
ARCHIVE = "notebooks.zip"
"""All notebooks of the book in one file, beside its pages."""
CACHE = notebooks.BUILD / ".jupyter_cache"
# What tex-chtml.js may load while a page is read: fonts and TeX extensions. Speech and other output
# forms go.
MATHJAX_KEPT = ("tex-chtml.js", "output/chtml/fonts/woff-v2/", "input/tex/extensions/")


def with_outputs(source: Path, executed: Path) -> nbformat.NotebookNode:
    """The source notebook with the outputs of its execution; only so does its cache key fit the
    source.
    """
    notebook = nbformat.read(source, 4)
    result = nbformat.read(executed, 4)
    ours = [cell for cell in notebook.cells if cell.cell_type == "code"]
    theirs = [
        cell
        for cell in result.cells
        if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    if [cell.source for cell in ours] != [cell.source for cell in theirs]:
        raise notebooks.ChapterError(
            f"{executed.name} was executed from another source. To fix this: make clean"
        )
    for cell, done in zip(ours, theirs, strict=True):
        cell.outputs = done.outputs
        cell.execution_count = done.execution_count
    return notebook


def seed_cache(profile: str) -> dict[int, str]:
    """Fill an empty cache with every chapter's outputs; returns its records."""
    shutil.rmtree(CACHE, ignore_errors=True)
    cache = get_cache(CACHE)
    for source in notebooks.chapters():
        notebook = with_outputs(source, notebooks.executed_path(source, profile))
        cache.cache_notebook_bundle(CacheBundleIn(notebook, str(source)), check_validity=False)
    return records()


def records() -> dict[int, str]:
    return {record.pk: record.hashkey for record in get_cache(CACHE).list_cache_records()}


def prune_mathjax(folder: Path) -> None:
    """Delete the parts of MathJax that no page asks for (24 MB shrink to 2 MB)."""
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        if not file.relative_to(folder).as_posix().startswith(MATHJAX_KEPT):
            file.unlink()
    for sub in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        if not any(sub.iterdir()):
            sub.rmdir()


def write_archive() -> None:
    """Put the notebooks that pages offer, one by one, into one archive."""
    with zipfile.ZipFile(HTML / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for notebook in sorted((HTML / "_sources" / "book").glob("*.ipynb")):
            archive.write(notebook, notebook.name)


def write_index() -> None:
    """A start page in place of the generated one, which is no valid page."""
    start = notebooks.contents().pages[0].address
    (HTML / "index.html").write_text(
        html_page.redirect(start, notebooks.book_title(), "Open the book")
    )


def write_downloads() -> None:
    """Put copies that plain Jupyter shows well behind the download buttons."""
    for source in notebooks.chapters():
        target = HTML / "_sources" / source.relative_to(notebooks.ROOT)
        nbformat.write(readable.readable_copy(source), target)


def build(profile: str) -> int:
    """Execute what is stale, build, check; returns an exit code."""
    redirects.targets(notebooks.contents())  # a mistake there should not show after minutes
    notebooks.bring_up_to_date(notebooks.chapters(), profile)
    before = seed_cache(profile)
    shutil.rmtree(HTML, ignore_errors=True)
    jupyter_book = str(Path(sys.executable).with_name("jupyter-book"))
    command = [
        sys.executable,
        jupyter_book,
        "build",
        ".",
        "-W",
        "-n",
        "--keep-going",
        "--all",
        "-q",
    ]
    code = subprocess.run(command, cwd=notebooks.ROOT).returncode
    if not code and records() != before:
        print(
            "the build executed a notebook that papermill had not. To fix this: make clean book",
            file=sys.stderr,
        )
        code = 1
    (HTML / "index.html").unlink(missing_ok=True)  # nobody takes a failed build for the book
    if code:
        return code
    prune_mathjax(HTML / "_static" / "mathjax")
    redirects.write(notebooks.contents(), HTML)
    write_downloads()
    write_archive()
    write_index()
    print(f"\nThe book is built. Open {(HTML / 'index.html').as_uri()}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the book.")
    parser.add_argument("--profile", choices=notebooks.PROFILES, default="quick")
    try:
        return build(parser.parse_args().profile)
    except (notebooks.ChapterError, ContentsError, redirects.RedirectError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
