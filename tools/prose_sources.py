"""Everything that a user can read: pages, chapters, course, docstrings, messages and figures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from ddmip_book.yaml_file import read_yaml
from tools.contents import Contents

ROOT = Path(__file__).resolve().parent.parent
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
FOREIGN_KEYS = {"quote", "place", "verdict", "id", "figure", "chapter", "kind", "part"}
"""Keys of YAML files whose values are words of others, or names."""
DOCTEST = re.compile(r"^>>>.*?(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
UNDERLINE = re.compile(r"-{3,}")
LISTED = {"Parameters", "Attributes", "Returns", "Yields", "Raises"}
"""Sections of NumPy docstrings whose lines without indentation are names and types."""
Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A text under one bar: a page, or all strings of one kind.

    `labels` holds headings of tables, axes and keys, which are no sentences.
    """

    group: str
    name: str
    text: str
    labels: str = ""


def sources(root: Path = ROOT) -> Iterator[Source]:
    """Yield every text of the project at `root`."""
    for page in Contents.read(root).pages:
        notebook = root / f"{page.file}.ipynb"
        if notebook.exists():
            yield chapter(notebook, page.name)
        else:
            yield Source("pages", page.name, _page(root / f"{page.file}.md"))
    yield Source("pages", "ledger", _strings_of_yaml(read_yaml(root / "book" / "claims.yml")))
    yield Source("readme", "README", _page(root / "README.md"))
    for file in PROJECT_PAGES:
        yield Source("project", file.removesuffix(".md"), _page(root / file))
    yield from _course(root / "course")
    library = root / "ddmip_lib"
    book = root / "book" / "ddmip_book"
    yield Source("docstrings", "docstrings of ddmip_lib", docstrings(library))
    yield Source("docstrings", "docstrings of ddmip_book", docstrings(book))
    yield Source("strings", "strings of ddmip_lib", strings(library))
    for folder in sorted(path for path in book.iterdir() if any(path.glob("*.py"))):
        yield Source("strings", f"strings of ddmip_book/{folder.name}", strings(folder))
    yield Source("strings", "strings of experiments", strings(root / "experiments"))


def _course(folder: Path) -> Iterator[Source]:
    for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.yml")]):
        name = path.relative_to(folder.parent).as_posix()
        if path.suffix == ".md":
            yield Source("course", name, _titled(_page(path)))
        else:
            yield Source("course", name, _strings_of_yaml(read_yaml(path)))


def _titled(text: str) -> str:
    """Return slides with the titles of their chapters."""
    return re.sub(r"\{\{chapter\??:(\w+)[^}]*\}\}", lambda found: _title(found[1]), text)


@cache
def _title(name: str) -> str:
    """Return the title of a page."""
    file = ROOT / Contents.read(ROOT)[name].file
    notebook = file.with_suffix(".ipynb")
    text = _page(file.with_suffix(".md")) if not notebook.exists() else chapter(notebook, name).text
    return text.removeprefix("# ").split("\n")[0]


def _page(path: Path) -> str:
    """Return a page with the files that it includes."""
    text = path.read_text(encoding="utf-8")
    return re.sub(
        r"^```\{include\} (\S+)\n```",
        lambda found: (path.parent / found[1]).read_text(encoding="utf-8"),
        text,
        flags=re.MULTILINE,
    )


def chapter(path: Path, name: str) -> Source:
    """Return a chapter: its text, computed sentences, captions and labels, in their order."""
    parts = []
    labels = []
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif "remove-cell" not in cell.metadata.get("tags", []):
            computed, rest = _of_code(cell.source)
            figure = cell.metadata.get("mystnb", {})
            parts += [*computed, figure.get("figure", {}).get("caption", "")]
            parts.append(figure.get("image", {}).get("alt", ""))
            labels += rest
    return Source("chapters", name, "\n\n".join(parts), "\n\n".join(labels))


def _of_code(code: str) -> tuple[list[str], list[str]]:
    """Return the sentences that a cell computes with `say`, and its other strings with a space."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!"))]
    tree = ast.parse("\n".join(lines))
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    spoken = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "say"]
    computed = [" ".join(_said(spoken_call.args, assigned)) for spoken_call in spoken]
    whole = "\n".join(computed)
    rest = [text for text in _constants(tree) if " " in text.strip() and text not in whole]
    return computed, rest


def _said(nodes: list[ast.expr], assigned: dict[str, ast.expr]) -> list[str]:
    """Return the texts of expressions; a replacement field is one number."""
    return [text for node in nodes for text in _text_of(node, assigned)]


def _text_of(node: ast.expr, assigned: dict[str, ast.expr]) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return [_joined(values, " NUMBER ")]
        case ast.Name(id=name) if name in assigned:
            others = {key: value for key, value in assigned.items() if key != name}
            return _text_of(assigned[name], others)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return ["\n\n".join(" ".join(_text_of(part, assigned)) for part in parts)]
        case ast.BinOp(left=left, right=right):
            return [" ".join(_said([left, right], assigned))]
        case ast.IfExp(body=body):
            return _text_of(body, assigned)
        case ast.Starred(value=value):
            return _text_of(value, assigned)
        case ast.Call(args=arguments):
            return _said(arguments, assigned)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            ranges = [generator.iter for generator in node.generators]
            return _said([*ranges, element], assigned)
    return []


def _joined(values: list[ast.expr], instead: str) -> str:
    """Return an f-string with something in place of its fields."""
    return "".join(
        str(value.value) if isinstance(value, ast.Constant) else instead for value in values
    )


def _constants(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a syntax tree that are no docstrings."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            yield _joined(node.values, "CODE")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not _is_docstring(node):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def docstrings(folder: Path) -> str:
    """Return the docstrings of public modules, classes, functions and attributes, no examples."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for definition in _public(tree):
            for number, node in enumerate(definition.body):
                attribute = isinstance(definition, ast.Module | ast.ClassDef)
                if _is_docstring(node) and (number == 0 or attribute):
                    found.append(_prose_of(ast.get_docstring(ast.Module([node], [])) or ""))
    return "\n\n".join(found)


def _prose_of(docstring: str) -> str:
    """Return a docstring without examples, headings of sections, names and types.

    >>> _prose_of("Solve." + chr(10) + "Returns" + chr(10) + "---" + chr(10) + "x : float").split()
    ['Solve.']
    """
    lines = DOCTEST.sub("", docstring).splitlines()
    kept = []
    section = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if UNDERLINE.fullmatch(following.strip()):
            section = line.strip()
        names = section in LISTED and not line.startswith(" ")
        underlined = UNDERLINE.fullmatch(following.strip()) or UNDERLINE.fullmatch(line.strip())
        kept.append("" if names or underlined else line.strip())
    return "\n".join(kept)


def _public(node: Definition) -> Iterator[Definition]:
    yield node
    for inner in node.body:
        if isinstance(inner, Definition) and not inner.name.startswith("_"):
            yield from _public(inner)


def strings(folder: Path) -> str:
    """Return messages, captions and labels: all strings of at least two words in code."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        texts = _constants(ast.parse(path.read_text(encoding="utf-8")))
        found += [text for text in texts if len(re.findall(r"[A-Za-z]{2,}", text)) >= 2]
    return "\n\n".join(text for text in found if " " in text.strip())


def _strings_of_yaml(value: Any) -> str:
    return "\n\n".join(text for text in _values(value) if " " in text)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in FOREIGN_KEYS:
                yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
