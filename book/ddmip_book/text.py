"""Sentences and tables that a chapter computes: the same in the page, in JupyterLab, on Colab and
in a terminal.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

Cell = Any
"""A number (whole numbers with separators, others to four digits), a text, or None for "not there"
(a dash).
"""


def say(*sentences: str) -> None:
    """Show sentences whose numbers were computed, as running text (Markdown).

    >>> say(f"The walk treats {26} of {30} samples.", "Its bound is 29.")
    The walk treats 26 of 30 samples. Its bound is 29.
    """
    text = " ".join(sentence.strip() for sentence in sentences)
    _show({"text/plain": text, "text/markdown": text})


def table(
    columns: Mapping[str, Sequence[Cell]],
    caption: str,
    best: Mapping[str, str] | None = None,
    order: Collection[str] = (),
) -> None:
    """Show columns as a table, the first one naming the rows; units belong in the names of the
    columns.

    `best` marks the best entry of a column ("max" or "min"); a reader may sort by the columns named
    in `order`.

    >>> table(
    ...     {"method": ["Big-M", "prices"], "treated": [16, 19]},
    ...     "After 60 s",
    ...     best={"treated": "max"},
    ... )
    After 60 s
    method  treated
    Big-M        16
    prices      19*
    """
    if not columns or len({len(entries) for entries in columns.values()}) != 1:
        raise ValueError("table wants at least one column, and all of one length.")
    if unknown := [name for name in (*(best or {}), *order) if name not in columns]:
        raise ValueError(f"table has no column {unknown[0]!r}; it has {', '.join(columns)}.")
    marked = {name: _best(columns[name], which) for name, which in (best or {}).items()}
    _show(
        {
            "text/plain": _plain(columns, caption, marked),
            "text/html": _html(columns, caption, marked, order),
        }
    )


def _best(entries: Sequence[Cell], which: str) -> Cell:
    choose = {"max": max, "min": min}[which]
    return choose((entry for entry in entries if _is_number(entry)), default=None)


def _is_number(entry: Cell) -> bool:
    entry = entry.item() if hasattr(entry, "item") else entry
    return isinstance(entry, int | float) and not isinstance(entry, bool) and entry == entry


def _format(entry: Cell) -> str:
    entry = entry.item() if hasattr(entry, "item") else entry
    if entry is None or entry != entry:
        return "–"
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, int):
        return f"{entry:,d}"
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)


def _plain(columns: Mapping[str, Sequence[Cell]], caption: str, marked: Mapping[str, Cell]) -> str:
    shown = []
    for name, entries in columns.items():
        texts = [
            _format(e) + ("*" if name in marked and _is_number(e) and e == marked[name] else "")
            for e in entries
        ]
        width = max(map(len, [name, *texts]))
        left = not any(_is_number(e) for e in entries)
        shown.append([text.ljust(width) if left else text.rjust(width) for text in [name, *texts]])
    return "\n".join([caption, *("  ".join(line).rstrip() for line in zip(*shown, strict=True))])


def _html(
    columns: Mapping[str, Sequence[Cell]],
    caption: str,
    marked: Mapping[str, Cell],
    order: Collection[str],
) -> str:
    def entry(name: str, value: Cell, first: bool) -> str:
        text = escape(_format(value))
        if name in marked and _is_number(value) and value == marked[name]:
            text = f'<strong title="best">{text}</strong>'
        tag, scope = ("th", ' scope="row"') if first else ("td", "")
        kind = ' class="number"' if _is_number(value) else ""
        return f"<{tag}{scope}{kind}>{text}</{tag}>"

    names = list(columns)
    head = "".join(
        f'<th scope="col"{" data-sort" if name in order else ""}>{escape(name)}</th>'
        for name in names
    )
    rows = "".join(
        "<tr>"
        + "".join(
            entry(name, value, name == names[0]) for name, value in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in zip(*columns.values(), strict=True)
    )
    return (
        f'<div class="result-table" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _show(data: dict[str, str]) -> None:
    """Publish in a notebook, print elsewhere."""
    kernel = notebook()
    if kernel is None:
        print(data["text/plain"])
    else:
        kernel.display_pub.publish(data=data)


def notebook() -> Any:
    """The notebook's shell, or None elsewhere."""
    ipython = sys.modules.get("IPython")  # a session without IPython loaded cannot be a notebook
    return ipython.get_ipython() if ipython is not None else None
