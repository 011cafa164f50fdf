"""Draw the packages of the library and their imports: `python -m tools.library_map`.

Writes `book/_static/library.svg`. A package stands below all packages that it imports; an arrow
that others imply is left out. A test compares the picture with the imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools import layered

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "_static" / "library.svg"
LIBRARY = "ddmip_lib"
EVERYWHERE = {"__init__", "clock", "device", "errors", "numerics", "renamed"}
"""Modules at the library's root that any package may import, and the root itself."""


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


def drawing(graph: dict[str, set[str]]) -> str:
    """Return the picture as SVG."""
    text = {part: layered.ONE_LINE.format(part) for part in graph}
    return layered.drawing(graph, text, "Packages of the library and their imports", box=112)


def main() -> None:
    PICTURE.write_text(drawing(packages(ROOT / LIBRARY)))


if __name__ == "__main__":
    main()
