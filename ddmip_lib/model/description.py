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
        if type(value) in PLAIN_TYPES:
            return _hash(type(value).__name__, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._enclosing:  # a cycle: described by its depth
            return _hash("again", str(self._enclosing[key]))
        self._enclosing[key] = len(self._enclosing)
        try:
            found = _hash(*self._parts(value))
        except Exception:  # also of objects whose own code fails
            self.complete = False
            found = _hash("not described", type(value).__name__)
        finally:
            del self._enclosing[key]
        self._done[key] = found
        self._kept.append(value)
        return found

    def _parts(self, value: Any) -> Iterator[str | bytes]:
        """What distinguishes a value from others; its parts are given by their hashes."""
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
        else:
            yield from self._named_or_followed(value)

    def _named_or_followed(self, value: Any) -> Iterator[str | bytes]:
        """The name of an object of a known package, the parts of any other object."""
        name = _known_name(value)
        if name:
            yield name
            return
        self._followed += 1
        if self._followed > MAX_FOLLOWED:
            raise Indescribable(f"more than {MAX_FOLLOWED} objects")
        yield from self._followed_parts(value)

    def _followed_parts(self, value: Any) -> Iterator[str | bytes]:
        """The parts of classes, functions and other objects."""
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
        yield str(value.dtype)
        yield repr(tuple(value.shape))
        dense = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        yield dense.reshape(-1).view(torch.uint8).numpy().tobytes()
        if type(value) not in (Tensor, nn.Parameter, nn.Buffer):
            yield self.of(type(value))
        if vars(value):
            yield self.of(dict(vars(value)))

    def _module(self, value: nn.Module) -> Iterator[str | bytes]:
        """A network: its class, weights, buffers, layers, hooks, and all other attributes."""
        yield self.of(type(value))
        for name, entry in vars(value).items():
            if name in CONTENTS:
                yield name
                yield self.of(dict(entry))
            elif name not in UNUSED_ATTRIBUTES:
                yield name
                yield self.of(entry)
        yield from self._hooks(value)

    def _hooks(self, value: nn.Module) -> Iterator[bytes]:
        """The hooks of a module without their keys, which differ between equal modules."""
        for name in HOOKS:
            yield self.of(list(getattr(value, name).values()))

    def _program(self, value: torch.fx.GraphModule) -> Iterator[str | bytes]:
        """A module of torch.fx or torch.export: its generated code, and what this code reads.

        Guards only check arguments.
        """
        yield value.code
        entries = vars(value) | value._parameters | value._buffers | value._modules
        for name in sorted(entries):
            is_read = f"self.{name}" in value.code and name != "_guards_fn"
            if is_read or name == "forward":
                yield name
                yield self.of(entries[name])
        yield from self._hooks(value)

    def _class(self, value: type) -> Iterator[str | bytes]:
        """A class: its name, its bases, and its entries."""
        yield value.__qualname__
        for base in value.__mro__[1:]:
            yield self.of(base)
        for name, entry in vars(value).items():
            if name not in BOOKKEEPING:
                yield name
                yield self.of(_function_in(entry))

    def _function(self, value: types.FunctionType) -> Iterator[str | bytes]:
        """A function: its code, and all values that the code may read."""
        yield self.of(value.__code__)
        yield self.of(value.__defaults__)
        yield self.of(value.__kwdefaults__)
        yield self.of(dict(vars(value)))
        for cell in value.__closure__ or ():
            if cell == types.CellType():
                yield "empty"
            else:
                yield self.of(cell.cell_contents)
        names, global_names = _names(value.__code__)
        for name in sorted(global_names & value.__globals__.keys()):
            yield name
            yield self._global(value.__globals__[name], names)

    def _global(self, value: Any, names: frozenset[str]) -> bytes:
        """A global; of a module of another package only the entries with these names."""
        if not isinstance(value, types.ModuleType) or _package(value.__name__) in KNOWN_PACKAGES:
            return self.of(value)
        found = [_hash(value.__name__)]
        for name in sorted(names & vars(value).keys()):
            found += [_hash(name), self._global(vars(value)[name], names - {name})]
        return _hash(*found)

    def _code(self, value: types.CodeType) -> Iterator[str | bytes]:
        external = EXTERNAL_NAMES.intersection(value.co_names)
        if external:
            raise Indescribable(
                f"code that may read external data by {', '.join(sorted(external))}"
            )
        yield value.co_code
        yield getattr(value, "co_exceptiontable", b"")
        yield repr(
            (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        )
        yield repr((value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars))
        yield from map(self.of, value.co_consts)

    def _object(self, value: Any) -> Iterator[str | bytes]:
        """Any other object: its class and attributes; if a known package defines a base, also what
        `pickle` would store.
        """
        kind = type(value)
        yield self.of(kind)
        known = _package(kind.__module__) in KNOWN_PACKAGES
        if not known:
            yield self.of(object.__getstate__(value))  # attributes, those in slots too
        if known or any(base is not object and _known_name(base) for base in kind.__mro__):
            yield from self._stored(value)

    def _stored(self, value: Any) -> Iterator[bytes]:
        """What `pickle` would store of an object."""
        kind = type(value)
        try:
            stored = value.__reduce_ex__(4)
        except Exception as error:
            raise Indescribable(
                f"a {kind.__qualname__}, which cannot be stored ({error})"
            ) from error
        if isinstance(stored, str):
            raise Indescribable(f"a {kind.__qualname__} known by the name {stored} alone")
        call, arguments, state, *iterators = (*stored, None, None, None)[:5]
        yield self.of(call)
        yield self.of(arguments)
        yield self.of(state)
        for iterator in iterators:
            yield self.of(None if iterator is None else list(iterator))


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
        raise Indescribable(f"the module {module.__name__}")
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
                raise Indescribable(f"{home}.{name}")
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
            raise Indescribable(f"code that imports {name}")
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
