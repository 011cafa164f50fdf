"""A Sphinx extension of one job: each page's footer says which edition, version, data and sources
built it.
"""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddmip_book.data import source_line

ROOT = Path(__file__).resolve().parent.parent
EDITION = "Third edition"


def commit() -> str:
    """The commit that the checkout stands on, with a plus where it was changed since; nothing
    without git.
    """
    git = ["git", "-C", str(ROOT)]
    if not (ROOT / ".git").exists():
        return ""
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True).returncode
    if head.returncode:
        return ""
    return head.stdout.strip() + ("+" if changed else "")


def sentence(address: str, commit: str) -> str:
    """What the footer says about the sources, as HTML; a link where the repository has an address.

    >>> sentence("", "0123456789ab+")
    ' Sources: commit 0123456789ab, with changes.'
    >>> sentence("https://example.org/a/b/", "0123456789ab")
    ' Sources: commit <a href="https://example.org/a/b/commit/0123456789ab">0123456789ab</a>.'
    """
    if not commit:
        return ""
    name = commit.removesuffix("+")
    shown = f'<a href="{address.rstrip("/")}/commit/{name}">{name}</a>' if address else name
    changes = ", with changes" if commit.endswith("+") else ""
    return f" Sources: commit {shown}{changes}."


def set_footer(app: Any, config: Any) -> None:
    options = config.html_theme_options
    sources = sentence(options.get("repository_url") or "", commit())
    footer = (
        f"<p>{EDITION}, version {version('ddmip-lib')} of book and ddmip_lib."
        f" {source_line()}{sources}</p>"
    )
    config.html_theme_options = {**options, "extra_footer": footer}


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", set_footer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
