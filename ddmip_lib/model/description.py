"""A hash of anything that Python code can depend on: equal for equal things, in every process;
different otherwise.

Networks are code, weights, buffers and plain attributes, and functions read constants, closures,
defaults and globals. `Description` follows all of them to the packages that are `KNOWN`, which
count by name and version. Where something cannot be followed (locks, compiled objects, code that
reads files), it is not `complete`: nothing is left out in silence.
"""

import dis
import functools
import hashlib
import io
import re
import sys
import types
import weakref
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

KNOWN = {*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "torch"}
OUTSIDE = {
    "__import__",
    "compile",
    "ctypes",
    "datetime",
    "environ",
    "eval",
    "exec",
    "fromfile",
    "genfromtxt",
    "globals",
    "importlib",
    "inspect",
    "io",
    "load",
    "loadtxt",
    "memmap",
    "open",
    "os",
    "pathlib",
    "random",
    "read_csv",
    "shelve",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
}
"""Names by which code reads what is neither its data nor its code."""
# classes, objects and pieces of code that are followed: those of whole packages would take seconds
MOST = 20_000
PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(Ellipsis),
    type(NotImplemented),
    range,
)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
UNUSED = vars(nn.Module()).keys() - {"_parameters", "_buffers", "_modules", "training"}
"""What torch keeps in every module and no `forward` depends on; hooks are described apart."""
BOOKKEEPING = {
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__static_attributes__",
    "__weakref__",
    "__abstractmethods__",
    "_abc_impl",
    "_backward_cls",
}


class Indescribable(Exception):
    """Something whose effect cannot be told from what Python shows of it."""


class Aside(dict[str, Any]):
    """Facts that a network carries and does not use, such as how long its training took: they are
    not described.
    """


class Description:
    """Hashes of objects by what they hold; an object that several others hold is followed once.

    `complete` turns false where something could not be followed. Its hash is then that of its
    class, or less.
    """

    def __init__(self) -> None:
        self.complete = True
        self._followed = 0
        self._done: dict[int, bytes] = {}
        self._kept: list[Any] = []  # so that no address is used twice
        self._open: dict[int, int] = {}

    def of(self, value: Any) -> bytes:
        """The hash of a value.

        >>> scale = 2.0
        >>> one, same, other = (lambda x: scale * x), (lambda x: scale * x), (lambda x: 3.0 * x)
        >>> [Description().of(one) == Description().of(function) for function in (same, other)]
        [True, False]
        """
        if type(value) in PLAIN:
            return _hash(type(value).__name__, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._open:  # a cycle: by its place on the way here
            return _hash("again", str(self._open[key]))
        self._open[key] = len(self._open)
        try:
            found = _hash(*self._parts(value))
        except (
            Exception
        ):  # of objects whose own code fails, too: whatever it is, it is not described
            self.complete = False
            found = _hash("not described", type(value).__name__)
        finally:
            del self._open[key]
        self._done[key] = found
        self._kept.append(value)
        return found

    def _parts(self, value: Any) -> Iterator[str | bytes]:
        """What distinguishes a value from others, its parts by their hashes."""
        kind = type(value)
        yield kind.__name__
        if isinstance(value, Aside):
            return
        if kind in (list, tuple):
            yield from map(self.of, value)
        elif kind in (set, frozenset):
            yield from sorted(map(self.of, value))
        elif kind in (dict, types.MappingProxyType):
            for entry in value.items():
                yield from map(self.of, entry)
        elif isinstance(value, torch.jit.ScriptModule):
            yield from _archive(value)
        elif isinstance(value, torch.fx.GraphModule):
            yield from self._program(value)
        elif isinstance(value, nn.Module):
            yield from self._module(value)
        elif isinstance(value, Tensor):
            yield from self._tensor(value)
        elif kind is np.ndarray and not value.dtype.hasobject:
            yield from (repr((value.dtype, value.shape)), np.ascontiguousarray(value).tobytes())
        elif kind is np.ndarray:
            yield from (repr(value.shape), self.of(value.tolist()))
        elif isinstance(value, types.ModuleType):
            yield _known_module(value)
        elif name := _known_name(value):
            yield name
        else:
            self._followed += 1
            if self._followed > MOST:
                raise Indescribable(f"more than {MOST} objects")
            yield from self._followed_parts(value)

    def _followed_parts(self, value: Any) -> Iterator[str | bytes]:
        """The same of classes, functions and all objects that no rule above knows."""
        if isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif type(value) is types.FunctionType:
            yield from self._function(value)
        elif type(value) is types.MethodType:
            yield from map(self.of, (value.__func__, value.__self__))
        elif isinstance(value, weakref.ref):
            yield self.of(value())
        elif isinstance(value, functools._lru_cache_wrapper):
            yield self.of(value.__wrapped__)
        else:
            yield from self._object(value)

    def _tensor(self, value: Tensor) -> Iterator[str | bytes]:
        if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
            raise Indescribable(f"a tensor of layout {value.layout}")
        there = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        yield from (
            str(value.dtype),
            repr(tuple(value.shape)),
            there.reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
        if type(value) not in (Tensor, nn.Parameter, nn.Buffer):
            yield self.of(type(value))
        if vars(value):
            yield self.of(dict(vars(value)))

    def _module(self, value: nn.Module) -> Iterator[str | bytes]:
        """A network: its class, its weights, buffers and layers, its hooks, and all other
        attributes.
        """
        yield self.of(type(value))
        for name, held in vars(value).items():
            if name not in UNUSED:
                yield from (
                    name,
                    self.of(
                        dict(held) if name in ("_parameters", "_buffers", "_modules") else held
                    ),
                )
        for name in HOOKS:
            yield self.of(
                list(getattr(value, name).values())
            )  # their keys are numbers that are given out once

    def _program(self, value: torch.fx.GraphModule) -> Iterator[str | bytes]:
        """What torch.fx or torch.export made: the code that it wrote, and what this code reads."""
        yield value.code
        held = vars(value) | value._parameters | value._buffers | value._modules
        for name in sorted(held):
            if name == "forward" or (
                f"self.{name}" in value.code and name != "_guards_fn"
            ):  # guards change nothing
                yield from (name, self.of(held[name]))
        for name in HOOKS:
            yield self.of(list(getattr(value, name).values()))

    def _class(self, value: type) -> Iterator[str | bytes]:
        """A class: its name, its code and its values, and all of these of the classes that it is
        derived from.
        """
        yield value.__qualname__
        for held in value.__mro__[1:]:
            yield self.of(held)
        for name, entry in vars(value).items():
            if name not in BOOKKEEPING:
                yield from (name, self.of(_function_in(entry)))

    def _function(self, value: types.FunctionType) -> Iterator[str | bytes]:
        """A function: its code, and all values that the code can reach."""
        yield from map(
            self.of, (value.__code__, value.__defaults__, value.__kwdefaults__, dict(vars(value)))
        )
        for cell in value.__closure__ or ():
            yield "empty" if cell == types.CellType() else self.of(cell.cell_contents)
        names, read = _names(value.__code__)
        for name in sorted(read & value.__globals__.keys()):
            yield from (name, self._reached(value.__globals__[name], names))

    def _reached(self, value: Any, names: frozenset[str]) -> bytes:
        """A global; of a module that is not known what may be read of it."""
        if not isinstance(value, types.ModuleType) or value.__name__.partition(".")[0] in KNOWN:
            return self.of(value)
        found = [_hash(value.__name__)]
        for name in sorted(names & vars(value).keys()):
            found += [_hash(name), self._reached(vars(value)[name], names - {name})]
        return _hash(*found)

    def _code(self, value: types.CodeType) -> Iterator[str | bytes]:
        if outside := OUTSIDE.intersection(value.co_names):
            raise Indescribable(f"code that may read from outside, by {', '.join(sorted(outside))}")
        yield value.co_code
        yield getattr(value, "co_exceptiontable", b"")
        yield repr(
            (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        )
        yield repr((value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars))
        yield from map(self.of, value.co_consts)

    def _object(self, value: Any) -> Iterator[str | bytes]:
        """Any other object: its class and attributes; of a class written in C, what `pickle` would
        store.
        """
        kind = type(value)
        yield self.of(kind)
        known = kind.__module__.partition(".")[0] in KNOWN
        if not known:
            slots = {name: getattr(value, name) for name in _slots(kind) if hasattr(value, name)}
            yield from map(self.of, (dict(getattr(value, "__dict__", {})), slots))
        if known or any(base is not object and _known_name(base) for base in kind.__mro__):
            try:
                stored = value.__reduce_ex__(4)
            except Exception as error:
                raise Indescribable(
                    f"a {kind.__qualname__}, which cannot be stored ({error})"
                ) from error
            if isinstance(stored, str):
                raise Indescribable(f"a {kind.__qualname__} known by the name {stored} alone")
            call, arguments, state, *items = (*stored, None, None, None)[:5]
            yield from map(
                self.of,
                (call, arguments, state, *(None if part is None else list(part) for part in items)),
            )


def _hash(*parts: str | bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.digest()


def _known_module(module: types.ModuleType) -> str:
    """Name and version of a module of a package that is known."""
    top = module.__name__.partition(".")[0]
    if top not in KNOWN or top in OUTSIDE:
        raise Indescribable(f"the module {module.__name__}")
    return f"{module.__name__} {getattr(sys.modules.get(top), '__version__', '')}"


def _known_name(value: Any) -> str:
    """Where a package that is known has this very value under its own name; empty where
    none has.
    """
    name = getattr(value, "__qualname__", None)
    homes = [getattr(value, "__module__", None)]
    if isinstance(value, (torch.dtype, torch.layout)):
        name = str(value).removeprefix("torch.")
        homes = ["torch"]
    elif isinstance(value, np.ufunc):
        name = value.__name__
        homes = ["numpy", "scipy.special"]
    for home in homes:
        top = str(home).partition(".")[0]
        if not isinstance(name, str) or not isinstance(home, str) or top not in KNOWN:
            continue
        found: Any = sys.modules.get(home)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            if top in OUTSIDE and not isinstance(value, type):
                raise Indescribable(f"{home}.{name}")
            return f"{home}.{name} {getattr(sys.modules.get(top), '__version__', '')}"
    return ""


def _function_in(entry: Any) -> Any:
    """What stands behind an entry of a class."""
    if isinstance(entry, (staticmethod, classmethod)):
        return entry.__func__
    if isinstance(entry, property):
        return entry.fget
    if isinstance(entry, functools.cached_property):
        return entry.func
    if isinstance(entry, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return entry.__name__
    return entry


def _slots(kind: type) -> list[str]:
    return [
        name
        for base in kind.__mro__
        for name, entry in vars(base).items()
        if isinstance(entry, types.MemberDescriptorType)
    ]


@functools.lru_cache(1024)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """All names in some code and the functions within it; and those of them that are read as
    globals.
    """
    names = set(code.co_names)
    read = set[str]()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(step.argval)
        elif step.opname == "IMPORT_NAME" and step.argval.partition(".")[0] not in KNOWN:
            raise Indescribable(f"code that imports {step.argval}")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, more_read = _names(inner)
            names = names | more
            read = read | more_read
    return frozenset(names), frozenset(read)


def _archive(module: torch.jit.ScriptModule) -> Iterator[str | bytes]:
    """What torch would write of a scripted module, without where it was written and how often its
    class was read.
    """
    with zipfile.ZipFile(io.BytesIO(module.save_to_buffer())) as archive:
        for name in sorted(archive.namelist()):
            path = name.partition("/")[2]
            if not path.endswith(".debug_pkl") and path != ".data/serialization_id":
                yield re.sub(r"[./]___torch_mangle_\d+", "", path)
                yield re.sub(rb"[./]___torch_mangle_\d+", b"", archive.read(name))
