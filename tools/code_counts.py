"""How dense the code is: `python -m tools.code_counts [PACKAGE ...] [--list NAME] [--json]`.

For each package it prints the counts that `tests/project/test_density.py` bounds: syntax nodes for
each line of code, assignments of several values at once, functions with many local names or
parameters, names that mean two things. `--list` shows where, for example `--list wide`.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "ddmip_lib": ROOT / "ddmip_lib",
    "ddmip_book": ROOT / "book" / "ddmip_book",
    "experiments": ROOT / "experiments",
    "tools": ROOT / "tools",
    "tests": ROOT / "tests",
}
MAX_LOCAL_NAMES = 12
MAX_PARAMETERS = 6
MAX_BODY_LINES = 40
LINE_LENGTH = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass
class Counts:
    """Counts of one package; `places` lists where each kind of passage stands."""

    files: int = 0
    code_lines: int = 0
    nodes: int = 0
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    constants: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def nodes_per_code_line(self) -> float:
        return round(self.nodes / max(self.code_lines, 1), 2)

    @property
    def classes_named_twice(self) -> list[str]:
        return [name for name, places in self.classes.items() if len(places) > 1]

    @property
    def quarrelling_constants(self) -> list[str]:
        """Module constants of one name with different values in different modules."""
        return [name for name, values in self.constants.items() if len(values) > 1]

    def summary(self) -> dict[str, float]:
        """Return all counts by name."""
        counted = {kind: len(self.places[kind]) for kind in KINDS}
        return {
            "files": self.files,
            "code lines": self.code_lines,
            "nodes": self.nodes,
            "nodes per code line": self.nodes_per_code_line,
            **counted,
            "class names twice": len(self.classes_named_twice),
            "quarrelling constants": len(self.quarrelling_constants),
        }


KINDS = {
    "long lines": f"lines of more than {LINE_LENGTH} characters",
    "unformatted": "comments that switch the formatter off",
    "parallel": "assignments of several values to several names",
    "crowded": "assignments of three or more values to as many names",
    "wide": f"functions with more than {MAX_LOCAL_NAMES} local names",
    "parameters": f"functions with more than {MAX_PARAMETERS} parameters",
    "long": f"functions with more than {MAX_BODY_LINES} lines besides their docstring",
    "nested": "comprehensions inside comprehensions, choices inside choices",
    "interrupts": "handlers of KeyboardInterrupt",
    "solutions": "calls of Solution(...)",
}
"""What is counted in files, and what it means."""


def count(package: Path) -> Counts:
    """Count one package, the folder `package`."""
    counts = Counts()
    for file in sorted(package.rglob("*.py")):
        if "__pycache__" not in file.parts:
            _count_file(counts, file, file.relative_to(ROOT).as_posix())
    return counts


def _count_file(counts: Counts, file: Path, name: str) -> None:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    counts.files += 1
    counts.nodes += sum(1 for _ in ast.walk(tree))
    counts.code_lines += _code_lines(text, tree)
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_LENGTH:
            counts.places["long lines"].append(f"{name}:{number}")
    comments: Iterable[tuple[int, str]] = (
        _comments(text) if "fmt:" in text else []
    )  # reading tokens takes a while
    for number, comment in comments:
        if re.match(r"#\s*fmt:", comment):
            counts.places["unformatted"].append(f"{name}:{number}")
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            counts.classes[statement.name].append(f"{name}:{statement.lineno}")
        for constant, value in _constants(statement):
            counts.constants[constant].setdefault(value, f"{name}:{statement.lineno}")
    for node in ast.walk(tree):
        for kind, what in _passages(node):
            line = getattr(node, "lineno", 1)
            counts.places[kind].append(f"{name}:{line} {what}")


def _passages(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kinds that this node counts for, and what it is."""
    if isinstance(node, Function):
        yield from _passages_of_function(node)
    if isinstance(node, ast.Assign):
        values = _values_in_parallel(node)
        if values >= 2:
            yield "parallel", f"{values} values"
        if values >= 3:
            yield "crowded", f"{values} values"
    if isinstance(node, COMPREHENSIONS) and _holds(node, COMPREHENSIONS):
        yield "nested", "a comprehension in a comprehension"
    if isinstance(node, ast.IfExp) and _holds(node, (ast.IfExp,)):
        yield "nested", "a choice in a choice"
    if isinstance(node, ast.ExceptHandler) and "KeyboardInterrupt" in _written(node.type):
        yield "interrupts", "except KeyboardInterrupt"
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Solution":
        yield "solutions", "Solution(...)"


def _written(node: ast.AST | None) -> str:
    return "" if node is None else ast.unparse(node)


def _passages_of_function(node: Function) -> Iterator[tuple[str, str]]:
    names = len(local_names(node))
    if names > MAX_LOCAL_NAMES:
        yield "wide", f"{node.name}: {names} local names"
    parameters = number_of_parameters(node)
    if parameters > MAX_PARAMETERS:
        yield "parameters", f"{node.name}: {parameters} parameters"
    docstring = ast.get_docstring(node, clean=False) or ""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1 - len(docstring.splitlines())
    if lines > MAX_BODY_LINES:
        yield "long", f"{node.name}: {lines} lines"


def local_names(function: ast.AST) -> set[str]:
    """Return the names that a function assigns, without parameters and those of inner scopes.

    >>> sorted(local_names(ast.parse("def f(a):\\n    b = a\\n    def g(): c = b").body[0]))
    ['b', 'g']
    """
    names: set[str] = set()
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, SCOPES + COMPREHENSIONS):
            waiting.extend(ast.iter_child_nodes(node))
    return names - {"_"}


def number_of_parameters(function: Function) -> int:
    """Return how many parameters a function has besides `self` and `cls`.

    >>> number_of_parameters(ast.parse("def f(self, a, *b, c=1, **d): ...").body[0])
    4
    """
    arguments = function.args
    named = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    names = [argument.arg for argument in named if argument.arg not in ("self", "cls")]
    return len(names) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def _values_in_parallel(node: ast.Assign) -> int:
    """Return how many values a statement assigns to as many names; a swap counts as none."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return 0
    names = sorted(map(ast.unparse, target.elts))
    if names == sorted(map(ast.unparse, node.value.elts)):
        return 0
    return len(node.value.elts)


def _holds(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Return whether a node of one of these kinds stands below `node`."""
    return any(isinstance(child, kinds) for child in ast.walk(node) if child is not node)


def _constants(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names in capitals that a statement of a module assigns, and their values."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return
    for target in targets:
        if isinstance(target, ast.Name) and target.id.isupper():
            yield target.id, ast.unparse(statement.value)  # type: ignore[arg-type]


def _code_lines(text: str, tree: ast.AST) -> int:
    """Return the number of lines without docstrings, comments and blank lines."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    code = [n for n, line in lines if line.strip() and not line.strip().startswith("#")]
    return len(set(code) - docstrings)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--list", choices=[*KINDS, "classes", "constants"], metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counted = {name: count(PACKAGES[name]) for name in options.packages or PACKAGES}
    if options.json:
        print(json.dumps({name: counts.summary() for name, counts in counted.items()}, indent=1))
        return
    for name, counts in counted.items():
        print(name)
        for kind, value in counts.summary().items():
            print(f"  {kind:24}{value:>10}  {KINDS.get(kind, '')}".rstrip())
        if options.list == "classes":
            places = [f"{key}: {counts.classes[key]}" for key in counts.classes_named_twice]
        elif options.list == "constants":
            places = [f"{key}: {counts.constants[key]}" for key in counts.quarrelling_constants]
        else:
            places = counts.places[options.list] if options.list else []
        print("\n".join(f"    {place}" for place in places))


if __name__ == "__main__":
    main()
