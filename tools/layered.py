"""Pictures of what needs what: boxes in rows, each below all that it needs, and arrows between.

An arrow that others imply is left out. Arrows over several rows run through empty places, and the
order within a row keeps crossings few (layers and barycentres, after Sugiyama).
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import pairwise

HALF = 22
"""Half of the height of a box in pixels."""
DOWN = 78
"""Distance between the middles of neighbouring rows."""
BESIDE = 10
"""Space between boxes of one row."""
BEND = 26
"""Width of the empty place through which an arrow passes a row."""
SWEEPS = 12
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
 font-family="Helvetica, Arial, sans-serif" font-size="14">
<title>{title}</title>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0L8 4L0 8z" fill="#9a4a00"/></marker></defs>"""
TIP = ' marker-end="url(#tip)"'
ARROW = '<path d="{path}" stroke="#9a4a00" stroke-width="1.4" fill="none"{tip}/>'
BOX = """\
<g transform="translate({x} {y})" text-anchor="middle" fill="#12355b">
<rect x="-{half}" y="-22" width="{width}" height="44" rx="6" fill="#eef4fb" stroke="#12355b"
 stroke-width="1.4"/>
{text}</g>"""
ONE_LINE = '<text y="5">{}</text>'
TWO_LINES = '<text y="-4" font-weight="700">{}</text>\n<text y="14">{}</text>'
Place = tuple[str, ...]
"""A box, by its name, or the place of an arrow in a row, by its ends and the row."""
Rows = list[list[Place]]
Pieces = list[tuple[Place, Place]]


def all_needed(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return for each box those that it needs directly or through others.

    >>> all_needed({"a": set(), "b": {"a"}, "c": {"b"}})["c"] == {"a", "b"}
    True
    """
    reached: dict[str, set[str]] = {}
    for name in TopologicalSorter(graph).static_order():
        reached[name] = set(graph[name])
        for other in graph[name]:
            reached[name] |= reached[other]
    return reached


def direct_arrows(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return what no other arrows imply, as pairs: needed box, box that needs it.

    >>> direct_arrows({"a": set(), "b": {"a"}, "c": {"a", "b"}})
    [('a', 'b'), ('b', 'c')]
    """
    reached = all_needed(graph)
    arrows = []
    for name, needs in graph.items():
        implied: set[str] = set()
        for other in needs:
            implied |= reached[other]
        arrows += [(other, name) for other in sorted(needs - implied)]
    return arrows


def layers(graph: dict[str, set[str]]) -> tuple[Rows, Pieces]:
    """The rows from above, with a place for every arrow that passes one, and all pieces of arrows."""
    depth: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        depth[name] = max((depth[other] + 1 for other in graph[name]), default=0)
    rows: Rows = [[] for _ in range(max(depth.values()) + 1)]
    for name in graph:
        rows[depth[name]].append((name,))
    pieces: Pieces = []
    for start, end in sorted(direct_arrows(graph)):
        last: Place = (start,)
        for row in range(depth[start] + 1, depth[end]):
            place = (start, end, str(row))
            rows[row].append(place)
            pieces.append((last, place))
            last = place
        pieces.append((last, (end,)))
    return rows, pieces


def crossings(rows: Rows, pieces: Pieces) -> int:
    """How often pieces of arrows cross.

    >>> a, b, c, d = ("a",), ("b",), ("c",), ("d",)
    >>> crossings([[a, b], [c, d]], [(a, d), (b, c)])
    1
    """
    count = 0
    for upper, lower in pairwise(rows):
        ends = [(upper.index(start), lower.index(end)) for start, end in pieces if start in upper]
        for left, right in ends:
            count += sum(left < x and right > y for x, y in ends)
    return count


def sorted_by_neighbours(row: list[Place], beside: list[Place], pieces: Pieces) -> list[Place]:
    """A row with each place near the mean of those in the next row that it is connected to."""
    connected: dict[Place, list[float]] = {place: [] for place in row}
    back = [(end, start) for start, end in pieces]
    for place, other in pieces + back:
        if place in row and other in beside:
            connected[place].append(beside.index(other) / len(beside))
    means = {}
    for number, place in enumerate(row):
        positions = connected[place] or [number / len(row)]
        means[place] = sum(positions) / len(positions)
    return sorted(row, key=means.__getitem__)


def ordered(rows: Rows, pieces: Pieces) -> Rows:
    """The rows in an order with few crossings, by sweeps down and up."""
    best = list(rows)
    now = list(rows)
    last = len(rows) - 1
    down = [(row, row - 1) for row in range(1, last + 1)]
    up = [(row, row + 1) for row in range(last - 1, -1, -1)]
    for sweep in [down, up] * SWEEPS:
        for row, beside in sweep:
            now[row] = sorted_by_neighbours(now[row], now[beside], pieces)
        if crossings(now, pieces) < crossings(best, pieces):
            best = list(now)
    return best


def points(rows: Rows, box: int) -> tuple[dict[Place, tuple[int, int]], int]:
    """The middle of every place, rows centred, and the width of the picture; boxes are `box` wide."""
    taken = []
    for row in rows:
        sizes = [box + BESIDE if len(place) == 1 else BEND for place in row]
        taken.append(sizes)
    width = max(map(sum, taken)) + BESIDE
    middles = {}
    middle = HALF + BESIDE
    for row, sizes in zip(rows, taken, strict=True):
        left = (width - sum(sizes)) // 2
        for place, size in zip(row, sizes, strict=True):
            middles[place] = (left + size // 2, middle)
            left += size
        middle += DOWN
    return middles, width


def arrow(start: tuple[int, int], end: tuple[int, int], passes: bool) -> str:
    """A piece of an arrow between two places; with `passes`, through the row of its start too."""
    x, y = start
    bottom = y + HALF
    first = y - HALF if passes else bottom
    to_x, to_y = end
    last = to_y - HALF
    return f"M{x} {first}V{bottom}L{to_x} {last}"


def drawing(graph: dict[str, set[str]], text: dict[str, str], title: str, box: int) -> str:
    """Return the picture as SVG; `text` is that of each box, one or two lines of SVG."""
    rows, pieces = layers(graph)
    middles, width = points(ordered(rows, pieces), box)
    height = len(rows) * DOWN
    lines = [HEAD.format(width=width, height=height, title=title)]
    for start, end in pieces:
        path = arrow(middles[start], middles[end], passes=len(start) > 1)
        tip = TIP if len(end) == 1 else ""
        lines.append(ARROW.format(path=path, tip=tip))
    half = box // 2
    for name in graph:
        x, y = middles[(name,)]
        lines.append(BOX.format(x=x, y=y, half=half, width=box, text=text[name]))
    lines.append("</svg>\n")
    return "\n".join(lines)
