"""Exceptions of the library, which inherit from built-in ones; their messages name a remedy."""

from importlib import import_module
from typing import Any


class ProblemError(ValueError):
    """The optimisation problem is not valid, or not of a kind that can be solved."""


class UnsupportedNetworkError(TypeError):
    """A solver cannot represent this kind of network."""


class ProofError(RuntimeError):
    """A bound and a verified point contradict each other: a fault of this library."""


def of_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module that an optional extra of this package installs.

    Parameters
    ----------
    module
        Name of the module.
    extra
        Name of the extra.
    purpose
        What needs the module, as the subject of the message.

    Returns
    -------
    module
        The module.

    Raises
    ------
    ImportError
        If it is not installed.

    Examples
    --------
    >>> of_extra("no_such_module", "plots", "drawing")
    Traceback (most recent call last):
    ImportError: drawing needs no_such_module: pip install 'ddmip-lib[plots]'.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != package:  # a dependency of the package is missing
            raise
        raise ImportError(
            f"{purpose} needs {package}: pip install 'ddmip-lib[{extra}]'."
        ) from error
