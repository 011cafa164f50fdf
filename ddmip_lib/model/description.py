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
import re
import sys
import types
import weakref
import zipfile
from collections.abc import Iterable, Iterator
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
)
"""Types whose values are described by their text."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Attributes in which torch keeps the hooks of a module."""
CONTENTS = ("_parameters", "_buffers", "_modules")
"""Attributes in which torch keeps the tensors and layers of a module."""
UNUSED_ATTRIBUTES = vars(nn.Module()).keys() - {*CONTENTS, "training"}
"""What torch keeps in every module and no `forward` depends on; hooks are described separately."""
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
        self._done: dict[int, bytes] = {}
        self._kept: list[Any] = []  # so that no address is used twice
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
            return _hash(name, value)
        if type(value) in PLAIN_TYPES:
            return _hash(name, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key]
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
        self._done[key] = found
        self._kept.append(value)
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
            return _layer(value)
        if isinstance(value, Tensor):
            return _tensor(value)
        if kind is ndarray and not value.dtype.hasobject:
            return repr(value.dtype), value.shape, value.tobytes()
        if isinstance(value, types.ModuleType):
            return (_known_module(value),)
        name = _known_name(value)
        return (name,) if name else self._followed_parts(value)

    def _followed_parts(self, value: Any) -> Iterable[Any]:
        """The parts of classes, functions and other objects that no known package defines."""
        self._followed += 1
        if self._followed > MAX_FOLLOWED:
            raise Indescribable("too many objects")
        if isinstance(value, type):
            entries = {k: _function_in(v) for k, v in vars(value).items() if k not in BOOKKEEPING}
            return value.__qualname__, value.__mro__[1:], entries
        if isinstance(value, types.CodeType):
            return _code(value)
        if type(value) is types.FunctionType:
            return _function(value)
        if type(value) is types.MethodType:
            return value.__func__, value.__self__
        if isinstance(value, weakref.ref):
            return (value(),)
        if isinstance(value, functools._lru_cache_wrapper):
            return (value.__wrapped__,)
        return _object(value)


def _tensor(value: Tensor) -> Iterable[Any]:
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        raise Indescribable("a tensor that is not dense")
    dense = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    content = dense.reshape(-1).view(torch.uint8).numpy().tobytes()
    return type(value), str(value.dtype), tuple(value.shape), content, dict(vars(value))


def _layer(value: nn.Module) -> Iterable[Any]:
    """A network: its class, weights, buffers, layers, hooks, and all other attributes."""
    used = {k: entry for k, entry in vars(value).items() if k not in UNUSED_ATTRIBUTES}
    used |= {name: dict(used[name]) for name in CONTENTS}
    return type(value), used, _hooks(value)


def _hooks(value: nn.Module) -> list[Any]:
    """The hooks of a module without their keys, which differ between equal modules."""
    return [list(getattr(value, name).values()) for name in HOOKS]


def _program(value: torch.fx.GraphModule) -> Iterable[Any]:
    """A module of torch.fx or torch.export: its generated code, and what this code reads.

    Guards only check arguments.
    """
    entries = vars(value) | value._parameters | value._buffers | value._modules
    read = {"forward": entries.get("forward")}
    for name in sorted(entries.keys() - {"_guards_fn"}):
        if f"self.{name}" in value.code or f'getattr(self, "{name}")' in value.code:
            read[name] = entries[name]
    return value.code, read, _hooks(value)


def _function(value: types.FunctionType) -> Iterable[Any]:
    """A function: its code, and all values that the code may read."""
    code = value.__code__
    cells = value.__closure__ or ()
    enclosed = [[] if cell == types.CellType() else [cell.cell_contents] for cell in cells]
    names, global_names = _names(code)
    read = sorted(global_names & value.__globals__.keys())
    globals_read = {name: _global(value.__globals__[name], names) for name in read}
    own = dict(vars(value))
    return code, value.__defaults__, value.__kwdefaults__, own, enclosed, globals_read


def _global(value: Any, names: frozenset[str]) -> Any:
    """A global; of a module of another package only the entries with these names."""
    if not isinstance(value, types.ModuleType) or _package(value.__name__) in KNOWN_PACKAGES:
        return value
    read = sorted(names & vars(value).keys())
    entries = {name: _global(vars(value)[name], names - {name}) for name in read}
    return value.__name__, entries


def _code(value: types.CodeType) -> Iterable[Any]:
    if EXTERNAL_NAMES.intersection(value.co_names):
        raise Indescribable("code that may read external data")
    return (
        value.co_code,
        value.co_exceptiontable,
        value.co_argcount,
        value.co_posonlyargcount,
        value.co_kwonlyargcount,
        value.co_flags,
        value.co_names,
        value.co_varnames,
        value.co_freevars,
        value.co_cellvars,
        value.co_consts,
    )


def _object(value: Any) -> Iterable[Any]:
    """Any other object: its class and attributes, those in slots too; if a known package defines a
    base, also what `pickle` would store.
    """
    kind = type(value)
    known = _package(kind.__module__) in KNOWN_PACKAGES
    attributes = None if known else object.__getstate__(value)
    if known or any(base is not object and _known_name(base) for base in kind.__mro__):
        return kind, attributes, _stored(value)
    return kind, attributes


def _stored(value: Any) -> list[Any]:
    """What `pickle` would store of an object."""
    stored = value.__reduce_ex__(4)
    if isinstance(stored, str):
        raise Indescribable("an object known by its name alone")
    return [list(part) if isinstance(part, Iterator) else part for part in stored]


def _hash(*parts: str | bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.digest()


def _package(module: str) -> str:
    """The package of a module."""
    return module.partition(".")[0]


def _with_version(name: str) -> str:
    """A dotted name and the version of its package."""
    return f"{name} {getattr(sys.modules.get(_package(name)), '__version__', '')}"


def _known_module(module: types.ModuleType) -> str:
    """Name and version of a module of a known package."""
    package = _package(module.__name__)
    if package not in KNOWN_PACKAGES or package in EXTERNAL_NAMES:
        raise Indescribable("a module of another package")
    return _with_version(module.__name__)


def _known_name(value: Any) -> str:
    """The name under which a known package has this value; empty if none has."""
    name, homes = _names_of(value)
    if not isinstance(name, str):
        return ""
    for home in homes:
        if not isinstance(home, str) or _package(home) not in KNOWN_PACKAGES:
            continue
        found: Any = sys.modules.get(home)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            if _package(home) in EXTERNAL_NAMES and not isinstance(value, type):
                raise Indescribable("a function that reads external data")
            return _with_version(f"{home}.{name}")
    return ""


def _names_of(value: Any) -> tuple[Any, list[Any]]:
    """The name that a value may have, and the modules that may define it."""
    if isinstance(value, (torch.dtype, torch.layout)):
        return str(value).removeprefix("torch."), ["torch"]
    if isinstance(value, np.ufunc):
        return value.__name__, ["numpy", "scipy.special"]
    return getattr(value, "__qualname__", None), [getattr(value, "__module__", None)]


def _function_in(entry: Any) -> Any:
    """The function of a method or property; the name of a slot; any other entry itself."""
    if isinstance(entry, (staticmethod, classmethod)):
        return entry.__func__
    if isinstance(entry, property):
        return entry.fget
    if isinstance(entry, functools.cached_property):
        return entry.func
    if isinstance(entry, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return entry.__name__
    return entry


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
