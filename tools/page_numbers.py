"""A Sphinx extension of one job: pages without a chapter number count their figures from 1 each.

Sphinx would count on from page to page, so that a figure's number told of pages read before.
"""

from __future__ import annotations

from typing import Any

Numbers = dict[str, dict[str, dict[str, tuple[int, ...]]]]


def counted_anew(numbers: Numbers) -> None:
    """Number the figures of each unnumbered page from 1, in their order.

    >>> numbers = {"a": {"figure": {"x": (3,), "y": (4,)}}, "b": {"figure": {"z": (2, 1)}}}
    >>> counted_anew(numbers)
    >>> numbers
    {'a': {'figure': {'x': (1,), 'y': (2,)}}, 'b': {'figure': {'z': (2, 1)}}}
    """
    for kinds in numbers.values():
        for found in kinds.values():
            for count, (label, number) in enumerate(sorted(found.items(), key=by_number), 1):
                if len(number) == 1:
                    found[label] = (count,)


def by_number(item: tuple[str, tuple[int, ...]]) -> tuple[int, ...]:
    return item[1]


def renumber(app: Any, env: Any) -> None:
    counted_anew(env.toc_fignumbers)


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-updated", renumber)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
