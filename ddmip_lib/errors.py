"""Exceptions of the library: each one inherits from the builtin that fits and its text names the
remedy.
"""

from importlib import import_module
from typing import Any


class ProblemError(ValueError):
    """The optimisation problem cannot be handled as it stands."""


class UnsupportedNetworkError(TypeError):
    """A solver cannot represent this kind of network."""


class ProofError(RuntimeError):
    """A bound and a verified point contradict each other: a mistake in this library."""


def of_extra(module: str, extra: str, purpose: str) -> Any:
    """A module that an extra of this package installs; where it is missing, an error that names the
    extra.

    >>> of_extra("no_such_module", "plots", "drawing")
    Traceback (most recent call last):
    ImportError: drawing needs no_such_module: pip install 'ddmip-lib[plots]'.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (
            error.name is None or error.name.partition(".")[0] != package
        ):  # it is there, and lacks something itself
            raise
        raise ImportError(
            f"{purpose} needs {package}: pip install 'ddmip-lib[{extra}]'."
        ) from error
