"""A Sphinx extension of one job: no button leads nowhere.

Binder, Colab, source, edit and issue buttons need ``repository: url`` in _config.yml. While it is
empty they are left out; the download button, which needs nothing, stays.
"""

from __future__ import annotations

from typing import Any

NEEDS_ADDRESS = ("use_repository_button", "use_issues_button", "use_edit_page_button")


def live_buttons(options: dict[str, Any]) -> dict[str, Any]:
    """The theme's options with the buttons that have an address to lead to.

    >>> live_buttons(
    ...     {"repository_url": "", "launch_buttons": {"colab_url": "https://colab.example"}}
    ... )["launch_buttons"]
    {}
    >>> live_buttons({"repository_url": "https://example.org/a/b"})["use_issues_button"]
    True
    """
    known = bool(options.get("repository_url"))
    launch = options.get("launch_buttons", {}) if known else {}
    return {**options, **dict.fromkeys(NEEDS_ADDRESS, known), "launch_buttons": launch}


def configure(app: Any, config: Any) -> None:
    config.html_theme_options = live_buttons(config.html_theme_options)


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", configure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
