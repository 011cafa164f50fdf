"""Draw the packages of the library and their imports: `python -m tools.library_map`.

Writes `book/_static/library.svg`. A package stands below all packages that it imports; an arrow
that others imply is left out. A test compares the picture with the imports.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "_static" / "library.svg"
LIBRARY = "ddmip_lib"
EVERYWHERE = {"__init__", "clock", "device", "errors", "numerics", "renamed"}
"""Modules at the library's root that any package may import, and the root itself."""
LEFT = ("data", "predictors", "problems", "contract")
"""Parts that stand first in their rows, so that fewer arrows cross a box."""
BOX = (118, 34)
"""Width and height of a box in pixels."""
GAP = (14, 46)
"""Space between boxes of one row, and between rows."""


def imported_packages(file: Path, library: Path) -> Iterator[str]:
    """Yield the names of the library's parts that a file imports.

    Parameters
    ----------
    file
        A file of the library.
    library
        Folder of the library.
    """
    folder = file.relative_to(library).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = folder[: len(folder) - (node.level - 1)]
        path = [*base, *(node.module or "").split(".")]
        names = [path[0]] if path[0] else [alias.name for alias in node.names]
        yield from names


def packages(library: Path) -> dict[str, set[str]]:
    """Return the parts of the library, and for each of them those that it imports."""
    found: dict[str, set[str]] = {}
    for file in sorted(library.rglob("*.py")):
        part = file.relative_to(library).parts[0].removesuffix(".py")
        if part not in EVERYWHERE:
            found.setdefault(part, set()).update(imported_packages(file, library))
    return {part: (imports & found.keys()) - {part} for part, imports in found.items()}


def all_imports(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return for each part those that it imports directly or through others."""
    reached: dict[str, set[str]] = {}
    for part in TopologicalSorter(graph).static_order():
        reached[part] = set(graph[part])
        for imported in graph[part]:
            reached[part] |= reached[imported]
    return reached


def direct_arrows(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports that no other imports imply, as pairs of imported and importing part."""
    reached = all_imports(graph)
    arrows = []
    for part, imports in graph.items():
        implied: set[str] = set()
        for imported in imports:
            implied |= reached[imported]
        arrows += [(imported, part) for imported in sorted(imports - implied)]
    return arrows


def rows(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the parts by depth: each stands below all that it imports."""
    depth: dict[str, int] = {}
    for part in TopologicalSorter(graph).static_order():
        depth[part] = max((depth[imported] + 1 for imported in graph[part]), default=0)
    lowest = max(depth.values())
    levels = []
    for level in range(lowest + 1):
        parts = sorted(part for part in depth if depth[part] == level)
        levels.append([p for p in parts if p in LEFT] + [p for p in parts if p not in LEFT])
    return levels


def drawing(graph: dict[str, set[str]]) -> str:
    """Return the picture as SVG."""
    levels = rows(graph)
    widest = max(map(len, levels))
    width = widest * (BOX[0] + GAP[0]) + GAP[0]
    height = len(levels) * (BOX[1] + GAP[1]) - GAP[1] + 20
    middles: dict[str, float] = {}
    tops: dict[str, float] = {}
    for number, level in enumerate(levels):
        left = (width - len(level) * (BOX[0] + GAP[0]) + GAP[0]) / 2
        for position, part in enumerate(level):
            middles[part] = left + position * (BOX[0] + GAP[0]) + BOX[0] / 2
            tops[part] = 10 + number * (BOX[1] + GAP[1])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="Packages of the library and their imports" font-family="sans-serif"'
        ' font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7a8794"/></marker></defs>',
    ]
    for imported, part in direct_arrows(graph):
        lines.append(
            f'<line x1="{middles[imported]:.0f}" y1="{tops[imported] + BOX[1]:.0f}"'
            f' x2="{middles[part]:.0f}" y2="{tops[part]:.0f}" stroke="#7a8794"'
            ' stroke-width="1.4" marker-end="url(#tip)"/>'
        )
    for part, middle in middles.items():
        lines.append(
            f'<rect x="{middle - BOX[0] / 2:.0f}" y="{tops[part]:.0f}" width="{BOX[0]}"'
            f' height="{BOX[1]}" rx="6" fill="#eef3f8" stroke="#2f6690" stroke-width="1.4"/>'
            f'<text x="{middle:.0f}" y="{tops[part] + BOX[1] / 2 + 5:.0f}" text-anchor="middle"'
            f' fill="#1d2b36">{part}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the packages of the library.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is old")
    options = parser.parse_args()
    picture = drawing(packages(ROOT / LIBRARY))
    if not options.check:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        print("the picture of the packages is old: python -m tools.library_map", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
