"""The tables of what each method does say what calls give."""

from __future__ import annotations

import pytest

from tools import support
from tools.support_problems import TABLES, Kind

KINDS = {kind.name: kind for kinds in TABLES.values() for kind in kinds()}
FAST = ("`BigM`", '`BigM(ranges="crown")`', "`Enumeration`")


def cells() -> dict[str, list[str]]:
    """The cells of the page by the first one of their line."""
    found = {}
    for line in support.PAGE.read_text().splitlines():
        if line.startswith("| "):
            name, *rest = (cell.strip() for cell in line.strip("| ").split(" | "))
            found[name] = rest
    return found


def test_every_kind_has_a_line_and_every_method_a_cell() -> None:
    on_page = cells()
    assert set(KINDS) <= set(on_page)
    words = {support.PROVED, support.CLAIMED, support.SEARCHED, support.REFUSES, support.NOTHING}
    for name in KINDS:
        assert len(on_page[name]) == len(support.CALLS), name
        assert set(on_page[name]) <= words, name
    said = {word for name in KINDS for word in on_page[name]}
    assert {support.PROVED, support.SEARCHED, support.REFUSES} <= said


@pytest.mark.parametrize("name", ["`PReLU`", "`Tanh`", "`Softmax`", "integer inputs", "indicator"])
def test_cells_say_what_exact_models_do(name: str) -> None:
    found = dict(zip(support.CALLS, cells()[name], strict=True))
    for method in FAST:
        assert support.outcome(KINDS[name], support.CALLS[method]) == found[method], method


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_cells_say_what_all_methods_do(kind: Kind) -> None:
    assert support.line(kind) == f"| {' | '.join([kind.name, *cells()[kind.name]])} |"
