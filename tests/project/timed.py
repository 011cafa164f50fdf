"""Where a verdict hangs on a clock: asserts, headline numbers and checks whose value follows from
seconds.

The scan follows names within one function, or one chapter: what is computed from a reading of a
clock is timed, and so is what is computed from that. Seconds of stored rows are not, nor those that
a driven clock counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

CLOCKS = {
    "perf_counter",
    "process_time",
    "monotonic",
    "thread_time",
    "perf_counter_ns",
    "timeit",
    "repeat",
}
CLOCKS |= {"gradient_seconds", "median_seconds", "getloadavg"}
NAMES = {"elapsed", "took", "duration", "busy"}
TABLES = {
    "Row",
    "Case",
    "row",
    "row_of",
    "finished",
    "of_method",
    "replace",
    "where",
    "grid",
    "case",
    "Solution",
}
"""Calls whose `time_limit` describes a stored row."""
COUNTS = {"len", "isinstance", "type", "repr", "str"}
WAITS = {
    "wait",
    "join",
    "result",
    "wait_procs",
    "wait_for_workers",
    "communicate",
    "run",
    "check_output",
}
SECONDS = re.compile(r"^seconds|_seconds$")
SHORT = 3600.0
"""A limit under so many seconds may be reached on a slow machine."""

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Finding(NamedTuple):
    line: int
    what: str


def called(node: ast.AST) -> str:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def root(node: ast.AST) -> str:
    """The name that a chain of attributes, entries and calls begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST, context: type[ast.expr_context] = ast.Load) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def targets(node: ast.AST) -> set[str]:
    """The names that an assignment gives something to, also by an entry or an attribute."""
    entries = {
        root(part) for part in ast.walk(node) if isinstance(part, (ast.Subscript, ast.Attribute))
    }
    return names_in(node, ast.Store) | entries - {"self"}


class Names:
    """What the names of a piece of code stand for: timed, stored, or told by a driven clock."""

    def __init__(self, tree: ast.AST) -> None:
        self.timed = set[str]()
        self.stored = set[str]()
        self.driven = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.With) and any(
                called(item.context_expr) == "using" for item in node.items
            ):
                self.driven |= set().union(*(names_in(part, ast.Store) for part in node.body))
        pairs = list(self._pairs(tree))
        for _ in range(20):
            before = len(self.timed) + len(self.stored) + len(self.driven)
            for names, value in pairs:
                live = self.is_timed(value)
                if live and not names & self.driven:
                    self.timed |= names - {""}
                elif not live and self._mentions(value, self.stored, "load"):
                    self.stored |= names - {""}
                elif not live and names_in(value) & self.driven:
                    self.driven |= names - {""}
            if before == len(self.timed) + len(self.stored) + len(self.driven):
                break

    @staticmethod
    def _pairs(tree: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
        """Names, and what they get something from."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                if isinstance(node.value, ast.Tuple) and all(
                    isinstance(t, ast.Tuple) and len(t.elts) == len(node.value.elts)
                    for t in node.targets
                ):
                    for target in node.targets:
                        for name, value in zip(target.elts, node.value.elts, strict=True):  # type: ignore[attr-defined]
                            yield targets(name), value
                else:
                    yield set().union(*map(targets, node.targets)), node.value
            elif (
                isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr))
                and node.value is not None
            ):
                yield targets(node.target), node.value
            elif isinstance(node, (ast.For, ast.comprehension)):
                yield targets(node.target), node.iter
            elif isinstance(node, ast.FunctionDef):
                for inside in ast.walk(node):
                    if isinstance(inside, ast.Return) and inside.value is not None:
                        yield {node.name}, inside.value
            elif called(node) in ("append", "extend", "add", "update"):
                assert isinstance(node, ast.Call)
                for argument in node.args:
                    yield {root(node.func)}, argument

    def _mentions(self, node: ast.AST, names: set[str], call: str) -> bool:
        return bool(names_in(node) & names) or any(called(part) == call for part in ast.walk(node))

    def is_timed(self, node: ast.AST) -> bool:
        """Whether the value of an expression follows from a reading of a clock."""
        if called(node) in COUNTS:
            return False
        if called(node) in CLOCKS or (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "time.time"
        ):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.timed | NAMES
        known = self.stored | self.driven
        if isinstance(node, ast.Attribute) and node.attr == "seconds":
            return not (root(node) in known or self._mentions(node.value, known, "load"))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key = node.slice.value
            if isinstance(key, str) and SECONDS.search(key) and root(node) not in known:
                return True
        return any(map(self.is_timed, ast.iter_child_nodes(node)))


def order_of_readings(test: ast.AST) -> bool:
    """A duration that is compared with zero alone: the order of two readings of one clock."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and ast.unparse(test.comparators[0]) in ("0", "0.0")
    )


def parts(test: ast.AST) -> Iterator[ast.AST]:
    """What an assert asks for, one by one."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from parts(value)
    else:
        yield test


def functions(tree: ast.Module) -> list[ast.AST]:
    """Functions that stand for themselves; what is inside one belongs to it. What is outside of all
    comes last.
    """
    found: list[ast.AST] = []

    def look(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(child)
            else:
                look(child)

    look(tree)
    inside = {id(node) for function in found for node in ast.walk(function)}
    rest = [
        node for node in tree.body if id(node) not in inside and not isinstance(node, ast.ClassDef)
    ]
    return [*found, ast.Module(rest, [])]


def asserts(source: str) -> list[Finding]:
    """Asserts on timed values."""
    found = []
    for scope in functions(ast.parse(source)):
        names = Names(scope)
        for node in ast.walk(scope):
            if isinstance(node, ast.Assert):
                for part in parts(node.test):
                    if not order_of_readings(part) and names.is_timed(part):
                        found.append(Finding(node.lineno, ast.unparse(part)))
    return found


def comparisons(source: str) -> list[Finding]:
    """Comparisons of timed values anywhere: for files all of whose comparisons are verdicts."""
    found = []
    for scope in functions(ast.parse(source)):
        names = Names(scope)
        for node in ast.walk(scope):
            if (
                isinstance(node, ast.Compare)
                and not order_of_readings(node)
                and names.is_timed(node)
            ):
                found.append(Finding(node.lineno, ast.unparse(node)))
    return found


def limits(source: str) -> list[Finding]:
    """Limits and waits of a few seconds, outside of what a driven clock times."""
    tree = ast.parse(source)
    driven = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        and any(called(item.context_expr) == "using" for item in node.items)
        for inside in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in driven and called(node) not in TABLES:
            for value in _limits_of(node):
                if (
                    isinstance(value, ast.Constant)
                    and type(value.value) in (int, float)
                    and 0 < value.value < SHORT
                ):
                    found.append(Finding(node.lineno, ast.unparse(node)))
    return found


def _limits_of(call: ast.Call) -> Iterable[ast.expr]:
    words = {"time_limit"} | ({"timeout"} if called(call) in WAITS else set())
    yield from (keyword.value for keyword in call.keywords if keyword.arg in words)
    if called(call) == "solve" and isinstance(call.func, ast.Attribute) and len(call.args) > 1:
        yield call.args[1]
    if called(call) == "certify" and len(call.args) > 3:
        yield call.args[3]


Kind = bool | frozenset[int]
"""Whether a value is timed: wholly, not at all, or at some positions of its tuples or columns."""


class Script:
    """A chapter, followed from its first statement to its last: what each name stands for then."""

    def __init__(
        self, outer: dict[str, Kind] | None = None, stored: set[str] | None = None
    ) -> None:
        self.kinds: dict[str, Kind] = dict(outer or {})
        self.stored = set(stored or ())
        self.found: list[Finding] = []
        self.tables: dict[str, ast.Dict] = {}  # dictionaries that stand in the chapter, by name
        self.returned: Kind = False

    def run(self, body: Iterable[ast.AST]) -> Script:
        for statement in body:
            self.step(statement)
        return self

    def step(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self.kinds[node.name] = Script(self.kinds, self.stored).run(node.body).returned
            return
        if isinstance(node, ast.Return) and node.value is not None:
            self.returned = joined(self.returned, self.kind(node.value))
        if isinstance(node, ast.Assert) and self.kind(node.test):
            self.found.append(Finding(node.lineno, ast.unparse(node.test)))
        for part in ast.walk(node) if isinstance(node, (ast.Expr, ast.Assign, ast.Return)) else ():
            if isinstance(part, ast.NamedExpr):
                self.give(part.target, self.kind(part.value), part.value)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            kind = self.kind(node.value)
            if isinstance(node, ast.AugAssign):
                kind = joined(kind, self.kind(node.target))
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.pair(target, node.value, kind)
        elif isinstance(node, ast.For):
            for _ in range(2):
                self.give(node.target, self.kind(node.iter), node.iter)
                self.run([*node.body, *node.orelse])
        elif isinstance(node, (ast.If, ast.While, ast.With, ast.Try)):
            self.run(part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt))
        elif isinstance(node, ast.Expr) and called(node.value) in (
            "append",
            "extend",
            "add",
            "update",
        ):
            assert isinstance(node.value, ast.Call)
            name = root(node.value.func)
            for argument in node.value.args:
                self.kinds[name] = joined(self.kinds.get(name, False), self.kind(argument))
        elif isinstance(node, ast.Expr) and called(node.value) == "record_headline":
            assert isinstance(node.value, ast.Call)
            self.headline(node.value)

    def headline(self, call: ast.Call) -> None:
        entries = [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for argument in call.args:
            if isinstance(argument, ast.Name):
                argument = self.tables.get(argument.id, argument)
            if isinstance(argument, ast.Dict):
                keys = [ast.unparse(key).strip("\"'") for key in argument.keys if key is not None]
                entries += zip(keys, argument.values, strict=True)
        for name, value in entries:
            number = value.elts[0] if isinstance(value, ast.Tuple) else value
            if self.kind(number):
                self.found.append(Finding(number.lineno, name))

    def pair(self, target: ast.AST, value: ast.AST, kind: Kind) -> None:
        """Several names that get several values get one each."""
        if (
            isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(target.elts) == len(value.elts)
        ):
            for one, its in zip(target.elts, value.elts, strict=True):
                self.give(one, self.kind(its), its)
        else:
            self.give(target, kind, value)

    def give(self, target: ast.AST, kind: Kind, value: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for one, its in zip(
                target.elts, self.each(value, kind, len(target.elts)), strict=False
            ):
                self.give(one, its, value)
        elif isinstance(target, ast.Name):
            self.kinds[target.id] = kind
            if isinstance(value, ast.Dict):
                self.tables[target.id] = value
            (self.stored.add if not kind and self.is_stored(value) else self.stored.discard)(
                target.id
            )
        elif name := root(target):  # an entry of it
            self.kinds[name] = joined(self.kinds.get(name, False), kind)

    def each(self, value: ast.AST, kind: Kind, count: int) -> list[Kind]:
        """Of the names that an entry of a loop, or a tuple, is given to."""
        if isinstance(value, ast.Call) and called(value) in ("items", "enumerate"):
            return [False, kind]
        if (
            isinstance(value, ast.Call)
            and called(value) == "zip"
            and not isinstance(value.args[0], ast.Starred)
        ):
            return [self.kind(argument) for argument in value.args]
        return [place in kind if isinstance(kind, frozenset) else kind for place in range(count)]

    def is_stored(self, node: ast.AST) -> bool:
        return bool(names_in(node) & self.stored) or any(
            called(part) == "load" for part in ast.walk(node)
        )

    def kind(self, node: ast.AST) -> Kind:
        """Whether the value of an expression follows from live seconds."""
        if called(node) in COUNTS:
            return False
        if called(node) in CLOCKS or (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "time.time"
        ):
            return True
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id, False)
        if isinstance(node, ast.Lambda):
            return self.kind(node.body)
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "seconds"
            and not self.is_stored(node.value)
        ):
            return True
        if isinstance(node, ast.Subscript):
            return self.entry(node)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            inner = Script(self.kinds, self.stored)
            for loop in node.generators:
                inner.give(loop.target, inner.kind(loop.iter), loop.iter)
            return inner.kind(node.value if isinstance(node, ast.DictComp) else node.elt)
        if isinstance(node, (ast.Tuple, ast.List)):
            kinds = [self.kind(each) for each in node.elts]
            if any(isinstance(kind, frozenset) for kind in kinds):
                return joined(*kinds)
            return frozenset(place for place, kind in enumerate(kinds) if kind) or False
        if isinstance(node, ast.Dict):
            return joined(*map(self.kind, node.values))
        return joined(*map(self.kind, ast.iter_child_nodes(node)))

    def entry(self, node: ast.Subscript) -> Kind:
        kind = self.kind(node.value)
        key = ast.unparse(node.slice).lstrip("f").strip("\"'")
        if (
            isinstance(node.slice, (ast.Constant, ast.JoinedStr))
            and SECONDS.search(key)
            and not self.is_stored(node)
        ):
            return True
        place = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
        if (
            isinstance(kind, frozenset)
            and isinstance(place, ast.Constant)
            and isinstance(place.value, int)
        ):
            return place.value in kind
        if isinstance(kind, frozenset) and isinstance(place, ast.Slice) and place.lower is not None:
            return True
        return kind


def joined(*kinds: Kind) -> Kind:
    """What is timed where any of them is."""
    if any(kind is True for kind in kinds):
        return True
    return frozenset().union(*(kind for kind in kinds if isinstance(kind, frozenset))) or False


def headlines(source: str) -> list[Finding]:
    """Headline numbers of a chapter that follow from live seconds, by their names, and such
    asserts.
    """
    return Script().run(ast.parse(source).body).found
