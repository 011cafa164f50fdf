"""Hashes of whatever Python code can depend on, equal in every process for equal things only.

Networks are code, weights, buffers and plain attributes, and functions read constants, closures,
defaults and globals. `Description` follows all of them up to the packages in `KNOWN_PACKAGES`,
which are described by name and version. Where something cannot be followed (locks, compiled
objects, code that reads files), the description is not `complete`: nothing is omitted silently.
"""

import dis
import functools
import hashlib
import io
import itertools
import pkgutil
import re
import sys
import types
import weakref
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

KNOWN_PACKAGES = {*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "torch"}
EXTERNAL_NAMES = {
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
MAX_FOLLOWED = 20_000
"""Number of classes, objects and code objects that are followed; whole packages take seconds."""
PLAIN_TYPES = (
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
    torch.dtype,
    torch.layout,
)
"""Types whose values are described by their text."""
ATTRIBUTES: dict[type, tuple[str, ...]] = {
    types.CodeType: (
        "co_code",
        "co_exceptiontable",
        "co_argcount",
        "co_posonlyargcount",
        "co_kwonlyargcount",
        "co_flags",
        "co_names",
        "co_varnames",
        "co_freevars",
        "co_cellvars",
        "co_consts",
    ),
    types.MethodType: ("__func__", "__self__"),
    types.MemberDescriptorType: ("__name__",),
    types.GetSetDescriptorType: ("__name__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools.cached_property: ("func",),
    functools._lru_cache_wrapper: ("__wrapped__",),
}
"""What distinguishes values of these types from each other."""
HOOKS = {name for name in vars(nn.Module()) if "_hooks" in name}
"""Attributes in which torch keeps the hooks of a module, under keys that differ between equal
modules.
"""
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
"""Entries of a class that do not affect what its code computes."""


class Indescribable(Exception):
    """An object whose effect cannot be derived from its code and data."""


class Aside(dict[str, Any]):
    """Facts about a network that it does not use, such as the seconds of its training.

    They are not described.
    """


class Description:
    """Hashes of objects by their contents; an object with several references is followed once.

    Attributes
    ----------
    complete
        Whether everything could be followed. The hash of an object that could not is that of its
        class.

    Examples
    --------
    >>> scale = 2.0
    >>> one = Description().of(lambda x: scale * x)
    >>> one == Description().of(lambda x: scale * x), one == Description().of(lambda x: 3.0 * x)
    (True, False)
    """

    def __init__(self) -> None:
        self.complete = True
        self._followed = 0
        self._done: dict[int, tuple[bytes, Any]] = {}  # values too: no address is used twice
        self._enclosing: dict[int, int] = {}

    def of(self, value: Any) -> bytes:
        """Compute the hash of a value.

        Parameters
        ----------
        value : object
            Anything.

        Returns
        -------
        bytes
            The hash.
        """
        name = type(value).__name__
        if type(value) is bytes:
            return _hash(name, hashlib.sha256(value).digest())
        if type(value) in PLAIN_TYPES:
            return _hash(name, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key][0]
        if key in self._enclosing:  # a cycle: described by its depth
            return _hash("again", str(self._enclosing[key]))
        self._enclosing[key] = len(self._enclosing)
        try:
            found = _hash(name, *map(self.of, self._parts(value)))
        except Exception:  # also of objects whose own code fails
            self.complete = False
            found = _hash("not described", name)
        finally:
            del self._enclosing[key]
        self._done[key] = (found, value)
        return found

    def _parts(self, value: Any) -> Iterable[Any]:
        """What distinguishes a value from others of its type."""
        kind = type(value)
        if isinstance(value, Aside):
            return ()
        if kind in (list, tuple):
            return value
        if kind in (set, frozenset):
            return sorted(map(self.of, value))
        if kind in (dict, types.MappingProxyType):
            return itertools.chain(*value.items())
        if isinstance(value, torch.jit.ScriptModule):
            return _archive(value)
        if isinstance(value, torch.fx.GraphModule):
            return _program(value)
        if isinstance(value, nn.Module):
            return kind, _attributes(value)
        if isinstance(value, Tensor):
            return kind, value.numpy(force=True), dict(vars(value))
        if kind is ndarray and not value.dtype.hasobject:
            return repr(value.dtype), value.shape, value.tobytes()
        name = _known_name(value)
        return (name,) if name else self._followed_parts(value)

    def _followed_parts(self, value: Any) -> Iterable[Any]:
        """The parts of classes, functions and other objects that no known package defines."""
        self._followed += 1
        if self._followed > MAX_FOLLOWED:
            raise Indescribable("too many objects")
        if isinstance(value, types.CodeType) and EXTERNAL_NAMES.intersection(value.co_names):
            raise Indescribable("code that may read external data")
        if type(value) in ATTRIBUTES:
            return [getattr(value, name) for name in ATTRIBUTES[type(value)]]
        if isinstance(value, type):
            entries = {k: entry for k, entry in vars(value).items() if k not in BOOKKEEPING}
            return value.__qualname__, value.__mro__[1:], entries
        if type(value) is types.FunctionType:
            return _function(value)
        if isinstance(value, weakref.ref):
            return (value(),)
        return _object(value)


def _attributes(module: nn.Module) -> dict[str, Any]:
    """All attributes of a module: weights, buffers, layers, hooks without their keys, others."""
    return {k: list(v.values()) if k in HOOKS else v for k, v in vars(module).items()}


def _program(value: torch.fx.GraphModule) -> Iterable[Any]:
    """A module of torch.fx or torch.export: its generated code, and what this code reads.

    Guards only check arguments.
    """
    entries = _attributes(value)
    entries |= value._parameters | value._buffers | value._modules
    names = {name for name in entries if name in value.code or name in HOOKS} - {"_guards_fn"}
    return value.code, {name: entries[name] for name in sorted(names)}


def _function(value: types.FunctionType) -> Iterable[Any]:
    """A function: its code, and all values that the code may read."""
    code = value.__code__
    enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
    names, global_names = _names(code)
    read = sorted(global_names & value.__globals__.keys())
    globals_read = {name: _global(value.__globals__[name], names) for name in read}
    return code, value.__defaults__, value.__kwdefaults__, dict(vars(value)), enclosed, globals_read


def _global(value: Any, names: frozenset[str]) -> Any:
    """A global; of a module of another package only the entries with these names."""
    if not isinstance(value, types.ModuleType) or _package(value.__name__) in KNOWN_PACKAGES:
        return value
    read = sorted(names & vars(value).keys())
    entries = {name: _global(vars(value)[name], names - {name}) for name in read}
    return value.__name__, entries


def _object(value: Any) -> Iterable[Any]:
    """Any other object: its class, what `pickle` would store, and attributes, in slots too, unless
    a known package defines the class.
    """
    kind = type(value)
    known = _package(kind.__module__) in KNOWN_PACKAGES
    stored = value.__reduce_ex__(4)
    if isinstance(stored, str):
        raise Indescribable("an object known by its name alone")
    parts = [list(part) if isinstance(part, Iterator) else part for part in stored]
    return kind, None if known else object.__getstate__(value), parts


def _hash(*parts: str | bytes) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def _package(module: str) -> str:
    """The package of a module."""
    return module.partition(".")[0]


def _known_name(value: Any) -> str:
    """Name and version under which a known package has this value; empty if none has."""
    name = getattr(value, "__qualname__", None)
    homes = [getattr(value, "__module__", None)]
    if isinstance(value, types.ModuleType):
        name = ""
        homes = [value.__name__]
    elif isinstance(value, np.ufunc):
        name = value.__name__
        homes = ["numpy", "scipy.special"]
    for home in homes:
        if not isinstance(home, str) or _package(home) not in KNOWN_PACKAGES:
            continue
        with suppress(AttributeError, ImportError, ValueError):
            if pkgutil.resolve_name(f"{home}:{name}") is value:
                if _package(home) in EXTERNAL_NAMES and not isinstance(value, type):
                    raise Indescribable("what reads external data")
                version = getattr(sys.modules[_package(home)], "__version__", "")
                return f"{home}.{name} {version}"
    return ""


@functools.lru_cache(1024)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """All names in some code and the functions within it; and those that are read as globals."""
    names = set(code.co_names)
    global_names = set[str]()
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            global_names.add(name)
        elif instruction.opname == "IMPORT_NAME" and _package(name) not in KNOWN_PACKAGES:
            raise Indescribable("code that imports another package")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            inner_names, inner_global_names = _names(inner)
            names |= inner_names
            global_names |= inner_global_names
    return frozenset(names), frozenset(global_names)


def _archive(module: torch.jit.ScriptModule) -> Iterator[str | bytes]:
    """What torch would write of a scripted module, without the path of its source and the number
    of times that its class was compiled.
    """
    with zipfile.ZipFile(io.BytesIO(module.save_to_buffer())) as archive:
        for name in sorted(archive.namelist()):
            path = name.partition("/")[2]
            if not path.endswith(".debug_pkl") and path != ".data/serialization_id":
                yield re.sub(r"[./]___torch_mangle_\d+", "", path)
                yield re.sub(rb"[./]___torch_mangle_\d+", b"", archive.read(name))
