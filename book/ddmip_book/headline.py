"""The closing "What we measured" box of a chapter, readable by people and by tests."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from .text import notebook

METADATA_KEY = "ddmip_headline"


def record_headline(numbers: Mapping[str, Any] | None = None, /, **more: Any) -> None:
    """Show the headline numbers of a chapter as a small table and record them for the tests.

    Each entry maps a name to a number, or to a pair (number, label) whose label the reader sees. In
    a notebook the output's metadata carries ``{"ddmip_headline": {name: number}}``; elsewhere the
    table is printed.

    >>> record_headline({"potable": (26, "potable samples, our defaults")}, gap=0.125)
    What we measured
      potable samples, our defaults  26
      gap                            0.125
    """
    entries = [_entry(name, given) for name, given in {**(numbers or {}), **more}.items()]
    if not entries:
        raise ValueError(
            'record_headline got no numbers. To fix this, name at least one: {"objective": 26}.'
        )
    text = _as_text(entries)
    kernel = notebook()
    if kernel is None:
        print(text)
        return
    kernel.display_pub.publish(
        data={"text/plain": text, "text/html": _as_html(entries)},
        metadata={METADATA_KEY: {name: value for name, _, value in entries}},
    )


def _entry(name: str, given: Any) -> tuple[str, str, int | float]:
    value, label = given if isinstance(given, tuple) else (given, name.replace("_", " "))
    value = value.item() if hasattr(value, "item") else value  # numpy and torch scalars
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(
            f"headline number {name!r} is {value!r}. To fix this, pass a finite int or float."
        )
    return name, str(label), value


def _format(value: int | float) -> str:
    return f"{value:,d}" if isinstance(value, int) else f"{value:.4g}"


def _as_text(entries: list[tuple[str, str, int | float]]) -> str:
    width = max(len(label) for _, label, _ in entries)
    rows = (f"  {label:<{width}}  {_format(value)}" for _, label, value in entries)
    return "\n".join(["What we measured", *rows])


def _as_html(entries: list[tuple[str, str, int | float]]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{_format(value)}</td></tr>'
        for _, label, value in entries
    )
    return (
        f'<table class="headline"><caption>What we measured</caption><tbody>{rows}</tbody></table>'
    )
