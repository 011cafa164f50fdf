"""Which code made a row: a hash of the modules that a method reaches by imports, blind to wording,
layout and place.

It starts at the entries of method and problem in the tables `METHODS` and `PROBLEMS`, takes in what
these name, and follows imports inside the packages, without running anything. A name that a
package re-exports leads to the module that defines it, not to the whole package; a name that only
annotations use leads nowhere. Of each module the parsed statements count, as a set: comments,
docstrings, annotations, imports, the order of statements and the file in which they stand do not.
So a rewritten sentence or a moved file keeps the hash, and another constant in a solver changes
that of every method that reaches it and of no other.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

METHODS = {"ddmip_book.experiments.methods": "METHODS", "experiments.methods": "MORE_METHODS"}
"""Tables of methods, by module."""
PROBLEMS = {"ddmip_book.experiments.execute": "BUILDERS", "experiments.suite": "MORE_BUILDERS"}
"""Tables of problems, by module."""
SILENT = frozenset(
    {"annotation", "returns", "type_comment", "type_params", "ctx", "kind", "simple"}
)
"""Fields of the syntax tree that do nothing at run time, or that some versions of Python lack."""
DIGITS = 16


class Target(NamedTuple):
    """What an imported name stands for: a module, or a name in it."""

    module: str
    name: str | None


@cache
def method_hash(method: str, problem: str) -> str | None:
    """The hash of the code at hand for a method on a problem; None for a method that was added from
    outside.

    >>> (
    ...     method_hash("bigm", "water") == method_hash("bigm-tight", "water"),
    ...     method_hash("mine", "water"),
    ... )
    (False, None)
    """
    return _installed().method_hash(method, problem)


@cache
def _installed() -> Sources:
    folders = {}
    for name in ("ddmip_lib", "ddmip_book", "experiments"):
        spec = find_spec(name)
        assert spec is not None
        folders[name] = Path(next(iter(spec.submodule_search_locations or [])))
    return Sources(folders)


class Sources:
    """The source files of some packages, by the folders that hold them."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.folders = dict(folders)
        self._modules: dict[str, Module | None] = {}
        self._next: dict[str, list[str]] = {}

    def method_hash(self, method: str, problem: str) -> str | None:
        """See the function of the same name."""
        found = self._reached(method, problem)
        if found is None:
            return None
        modules, entries = found
        statements = {canonical(node) for node in entries}
        for name in modules:
            statements |= self._module(name).statements
        digests = sorted(hashlib.sha256(text.encode()).hexdigest() for text in statements)
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:DIGITS]

    def closure(self, method: str, problem: str) -> set[str]:
        """The names of the modules whose every statement counts."""
        found = self._reached(method, problem)
        if found is None:
            raise ValueError(f"no table has a method {method!r}, or none a problem {problem!r}.")
        return found[0]

    def _reached(self, method: str, problem: str) -> tuple[set[str], list[ast.AST]] | None:
        """The modules, and the statements of the two tables' own modules that the entries use."""
        modules: set[str] = set()
        nodes: list[ast.AST] = []
        for tables, key in ((METHODS, method), (PROBLEMS, problem)):
            found = self._entry(tables, key)
            if found is None:
                return None
            module, entry = found
            own = list(module.used_from(entry))
            nodes += own
            for used in {used for node in own for used in names_in(node)} & set(module.imports):
                self._follow(module.imports[used], modules)
        return modules, nodes

    def _entry(self, tables: Mapping[str, str], key: str) -> tuple[Module, ast.AST] | None:
        """The value of `key` in one of the tables, and the module of that table."""
        for name, table in tables.items():
            module = self._find(name)
            entry = module and module.entry(table, key)
            if module and entry:
                return module, entry
        return None

    def _follow(self, target: Target, found: set[str]) -> None:
        """Add the modules that a name leads to, and all that they import and use."""
        ahead = list(self._defined_in(target))
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += self._leads_to(name)

    def _leads_to(self, name: str) -> list[str]:
        """The modules of what a module imports and uses; importing it runs its packages: their
        modules count too.
        """
        if name not in self._next:
            module = self._module(name)
            targets = [module.imports[used] for used in module.names & set(module.imports)]
            above = [
                other
                for package in _above(name)
                for other in self._module(package).imports.values()
            ]
            targets += filter(self._is_module, above)
            self._next[name] = [other for target in targets for other in self._defined_in(target)]
        return self._next[name]

    def _defined_in(self, target: Target) -> Iterator[str]:
        module = self._find(target.module)
        if module is None:
            return
        handed_on = module.hands_on(target)
        if handed_on is not None:
            yield from self._defined_in(handed_on)
            if not module.is_package:
                yield target.module
        elif self._is_module(target):
            yield target.module if target.name is None else f"{target.module}.{target.name}"
        else:
            yield target.module

    def _is_module(self, target: Target) -> bool:
        if target.name is None:
            return self._find(target.module) is not None
        package = self._find(target.module)
        if (
            package is None or package.hands_on(target) is not None
        ):  # a function may be called like its module
            return False
        return self._find(f"{target.module}.{target.name}") is not None

    def _module(self, name: str) -> Module:
        found = self._find(name)
        if found is None:
            raise FileNotFoundError(f"there is no source file of {name}.")
        return found

    def _find(self, name: str) -> Module | None:
        """A module of these packages, parsed; None for what is not theirs."""
        if name not in self._modules:
            first, *inner = name.split(".")
            module = None
            if first in self.folders:
                place = self.folders[first].joinpath(*inner)
                files = (place / "__init__.py", place.parent / f"{place.name}.py")
                file = next((file for file in files if file.is_file()), None)
                if file is not None:
                    module = _parsed(
                        name, file.name == "__init__.py", file.read_text(encoding="utf-8")
                    )
            self._modules[name] = module
        return self._modules[name]


@cache
def _parsed(name: str, is_package: bool, source: str) -> Module:
    return Module(name, is_package, source)


class Module:
    """One source file: its statements, the names that they use, and what imported names
    stand for.
    """

    def __init__(self, name: str, is_package: bool, source: str) -> None:
        self.name = name
        self.is_package = is_package
        self.tree = ast.parse(source)

    @cached_property
    def statements(self) -> frozenset[str]:
        """Its top-level statements, in a form that is the same under every version of Python."""
        return frozenset(canonical(node) for node in self.tree.body if not _is_noise(node))

    @cached_property
    def names(self) -> set[str]:
        """What its statements mention, annotations apart."""
        return names_in(self.tree)

    @cached_property
    def imports(self) -> dict[str, Target]:
        """By the names that they bind: all imports, those inside functions too, those for type
        checkers not.

        A package that imports its names on demand lists them for type checkers: there they count.
        """
        found = {}
        lazy = [node for node in self.tree.body if self.is_package and _is_prose(node)]
        for node in [*walk(self.tree), *(each for block in lazy for each in ast.walk(block))]:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = Target(alias.name, None)
            elif isinstance(node, ast.ImportFrom):
                package = self.name.split(".")
                if node.level:
                    package = package[: len(package) - node.level + self.is_package]
                base = ".".join(
                    [*(package if node.level else []), *([node.module] if node.module else [])]
                )
                for alias in node.names:
                    found[alias.asname or alias.name] = Target(base, alias.name)
        return found

    def hands_on(self, target: Target) -> Target | None:
        """What a name of this module stands for, if it comes from elsewhere; a package's own module
        does not.
        """
        found = self.imports.get(target.name or "")
        return None if found == target else found

    def entry(self, table: str, key: str) -> ast.AST | None:
        """The value of `key` in a dictionary that this module writes out; of a call its first
        argument, which makes the solver: the others say how it is shown.
        """
        for node in self.tree.body:
            if table in _bound(node) and isinstance(
                written := getattr(node, "value", None), ast.Dict
            ):
                for name, value in zip(written.keys, written.values, strict=True):
                    if isinstance(name, ast.Constant) and name.value == key:
                        return value.args[0] if isinstance(value, ast.Call) else value
        return None

    def used_from(self, start: ast.AST) -> Iterator[ast.AST]:
        """`start` and the statements of this module that define what it uses, and what
        these use.
        """
        waiting = [start]
        seen = {id(start)}
        while waiting:
            node = waiting.pop()
            yield node
            names = names_in(node)
            for other in self.tree.body:
                if id(other) not in seen and names & _bound(other):
                    seen.add(id(other))
                    waiting.append(other)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all that is in it and can do something."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        for name, value in ast.iter_fields(found):
            if name not in SILENT:
                inner = value if isinstance(value, list) else [value]
                waiting += [
                    each for each in inner if isinstance(each, ast.AST) and not _is_prose(each)
                ]


def names_in(node: ast.AST) -> set[str]:
    """All names that a node mentions.

    >>> sorted(names_in(ast.parse("def f(x: Array) -> Array: return np.sqrt(x)")))
    ['np', 'x']
    """
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def canonical(node: Any) -> str:
    r"""A syntax tree as text: without what does nothing, and without empty fields, which versions
    of Python print or invent differently; text constants in ASCII, and those of an f-string joined.

    >>> canonical(ast.parse('def f(x: int = 1) -> int:\n    "Why."\n    return x  # so'))
    'Module(body=[FunctionDef(name=f,args=arguments(args=[arg(arg=x)],defaults=[Constant(1)]),body=[Return(value=Name(id=x))])])'
    """
    if isinstance(node, ast.Constant):
        return f"Constant({node.value!a})"
    if isinstance(node, ast.JoinedStr):
        return f"JoinedStr({_joined(node)})"
    if isinstance(node, list):
        return "[" + ",".join(canonical(each) for each in node if not _is_noise(each)) + "]"
    if isinstance(node, ast.AST):
        kept = ((name, value) for name, value in ast.iter_fields(node) if name not in SILENT)
        inner = ",".join(
            f"{name}={canonical(value)}"
            for name, value in kept
            if value is not None and value != []
        )
        return f"{type(node).__name__}({inner})"
    return str(node)


def _joined(node: ast.JoinedStr) -> str:
    """The parts of an f-string; neighbouring constants are one, an empty one is none."""
    parts: list[str] = []
    text = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
        else:
            parts += [ascii(text)] * bool(text) + [canonical(value)]
            text = ""
    return ",".join(parts + [ascii(text)] * bool(text))


def _above(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _bound(node: ast.AST) -> set[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {
        each.id
        for target in targets
        if target
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }


def _is_prose(node: Any) -> bool:
    """A docstring, an ellipsis, or code that only type checkers read."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_noise(node: Any) -> bool:
    """What does not count in a list of statements."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)) or _is_prose(node):
        return True
    return isinstance(node, ast.Assign) and bool(
        _bound(node) & {"__all__", "PLACES", "PARTS"}
    )  # where names lead
