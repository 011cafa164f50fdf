"""What proofs leave out of a problem: constraints that are not linear, and networks without bounds.

A method that leaves something out states it under the key ``"left_out"`` of `Solution.details`.
"""

from typing import NamedTuple

from ..errors import UnsupportedNetworkError
from .instance import Instance

NETWORK_REMEDY = "build the network from layers that can be bounded"


class LeftOut(NamedTuple):
    """A part of the problem that a method or a proof leaves out.

    Attributes
    ----------
    what
        The constraint, or the network, by name.
    left_out_of
        The computations that leave it out.
    reason
        The reason.
    remedy
        What would include it.

    Examples
    --------
    >>> print(LeftOut("SOS1 modes", "proofs", "it is not linear", "write it with binaries"))
    SOS1 modes is left out of proofs: it is not linear. Remedy: write it with binaries.
    """

    what: str
    left_out_of: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.what} is left out of {self.left_out_of}: {self.reason}. Remedy: {self.remedy}."
        )


def left_out(instance: Instance) -> list[LeftOut]:
    """Return the constraints and networks of a problem that proofs leave out.

    Parameters
    ----------
    instance
        The problem.

    Returns
    -------
    list of LeftOut
        Empty if proofs include the whole problem.
    """
    found: list[LeftOut] = list(instance.left_out)
    for number, predictor in enumerate(instance.predictors):
        try:
            instance.graph(number)
        except UnsupportedNetworkError as error:
            what = f"network {number} ({predictor.name})"
            reason, _, supported = str(error).removesuffix(".").partition(": they need ")
            remedy = NETWORK_REMEDY + (f": {supported}" if supported else "")
            found.append(LeftOut(what, "proofs", reason, remedy))
    return found
