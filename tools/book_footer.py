"""A Sphinx extension of one job: each page's footer says which data and which library version built it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from ddmip_lib.data import source_line


def set_footer(app: Any, config: Any) -> None:
    footer = f"<p>{source_line()} Library: ddmip_lib {version('ddmip-lib')}.</p>"
    config.html_theme_options = {**config.html_theme_options, "extra_footer": footer}


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", set_footer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
