"""Old public names that work for one version more, each with a `DeprecationWarning`.

The page *Migration* of the book lists them. Version 0.4 removes this module and its callers.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar, ParamSpec, TypeVar

RENAMED_OBJECTS = {
    "Apart": "SeparableElasticModel",
    "Joined": "JointElasticModel",
    "Market": "CoordinationState",
    "Moment": "ProgressEvent",
    "Search": "GeneralColumnGeneration",
}
"""Objects that changed their names together with their modules."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)


def warn(old: str, new: str) -> None:
    """Warn that `old` is now called `new`."""
    message = f"{old} is now {new}; the old name ends with version 0.4."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def renamed_keywords(
    **names: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function accept keyword arguments by their old names.

    Examples
    --------
    >>> @renamed_keywords(visit="on_point")
    ... def solve(on_point=None):
    ...     return on_point
    >>> solve(on_point=1)
    1
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for old, new in names.items():
                if old in kwargs:
                    warn(f"{old}=", f"{new}=")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_fields(**names: str) -> Callable[[Class], Class]:
    """Let a dataclass accept and return fields by their old names."""

    def decorate(cls: Class) -> Class:
        changed: Any = cls
        changed.__init__ = renamed_keywords(**names)(changed.__init__)
        for old, new in names.items():
            setattr(changed, old, _old_field(old, new))
        return cls

    return decorate


def _old_field(old: str, new: str) -> property:
    def get(instance: Any) -> Any:
        warn(old, new)
        return getattr(instance, new)

    return property(get, doc=f"Old name of `{new}`.")


def renamed_names(package: str, **places: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module, which finds objects by their old names.

    Parameters
    ----------
    package
        Name of the module that held the objects.
    places
        For each old name the full new name: module and object, joined by a dot.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, new = places[name].rpartition(".")
        warn(f"{package}.{name}", places[name])
        return getattr(import_module(module), new)

    return find


class Details(dict[str, Any]):
    """The details of a solution; keys that were renamed are also found by their old names."""

    RENAMED: ClassVar = {
        "asked_again": "resolved_without_presolve",
        "closed_radius": "explored_radius",
    }

    def __missing__(self, key: str) -> Any:
        new = self.RENAMED.get(key)
        if new is None or new not in self:
            raise KeyError(key)
        warn(f"details[{key!r}]", f"details[{new!r}]")
        return self[new]


def renamed_module(old: str, new: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that was renamed, which warns for each object."""

    def find(name: str) -> Any:
        found = getattr(import_module(new), RENAMED_OBJECTS.get(name, name))
        warn(f"{old}.{name}", new)
        return found

    return find
