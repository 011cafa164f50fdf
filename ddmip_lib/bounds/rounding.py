r"""Rounding errors of the bounds: they stay sound although they are computed in floating point.

Every bound holds for the exact network *and* for its value in float64, summed in whatever order.
Two facts suffice:

1. A sum of $k$ products is wrong by at most $\gamma_k \sum |a_i b_i|$ with $\gamma_k = k\epsilon/(1
   - k\epsilon)$.
2. Errors need not be propagated through the layers. Where a linear function $C v$ of the values of
   a layer $v = Wz + b$ becomes $(CW) z + C b$, rounding of $CW$, of $Cb$ and of $v$ itself changes
   it by at most $|C| \, \gamma_k (|W| \, R + |b|)$, if $|z| \le R$; and such an $R$ is available
   from the bounds of $z$.

So each node has one vector $e$ that bounds the rounding of its step for each unit, and each step of
a backward pass lowers the constant of its linear bound by $|C| e$. Here $k$ counts generously, and
$\epsilon$ is twice the unit roundoff, so that the rounding of $e$ and $|C| e$ is covered too. The
correction is about $10^{-13}$ of the terms that were summed. Where affine maps were merged, $|W|$
and $|b|$ are the products and sums of the absolute values of the parts, so that the network as it
was written, layer by layer, is covered as well.

Products can underflow to 0: each step adds $10^{-180}$ of the terms to its error and to the
constant of every linear bound, far more than they can add up to. Overflow raises an error; it never
gives a bound.
"""

import math
from collections.abc import Sequence

from torch import Tensor

from ..errors import UnsupportedNetworkError
from ..numerics import gamma
from .activations import ACTIVATIONS
from .graph import Affine, Elementwise, Graph, Input, Sum

UNDERFLOW = 1e-180  # fraction of the terms of a sum by which underflow is bounded


def require_finite(values: Tensor, what: str) -> None:
    """Raise an error where a value is NaN or infinite.

    Parameters
    ----------
    values : Tensor
        The values; their sum is checked.
    what : str
        Their name in the message.

    Raises
    ------
    UnsupportedNetworkError
        If the sum is not finite.

    Examples
    --------
    >>> import torch
    >>> require_finite(torch.tensor([1.0, torch.inf]), "the range of node 1")
    Traceback (most recent call last):
    ...
    ddmip_lib.errors.UnsupportedNetworkError: the range of node 1 is not finite in float64: ...
    """
    if not math.isfinite(values.sum()):
        raise UnsupportedNetworkError(
            f"{what} is not finite in float64: rescale the network's weights, or take a smaller"
            " region."
        )


def step_error(graph: Graph, index: int, sizes: Sequence[Tensor]) -> Tensor:
    """Bound the rounding error in the step of one node.

    Parameters
    ----------
    graph : Graph
        The network.
    index : int
        The node.
    sizes : sequence of Tensor
        Bounds of the absolute values of the nodes before it, (n, units) each.

    Returns
    -------
    Tensor
        A bound for each unit, (n, units).

    Examples
    --------
    >>> import torch
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> error = step_error(network_graph(hand_sized_net(), 2), 1, [torch.ones(1, 2).double()])
    >>> bool(error.max() < 1e-13)
    True
    """
    node = graph.nodes[index]
    count = len(graph.nodes) + 32
    if isinstance(node, Input):  # the error of the smallest value of a linear function
        return gamma(8 * node.units + count) * sizes[0] + UNDERFLOW
    parent = sizes[node.parents[0]]
    if isinstance(node, Affine):
        count += node.terms + sum(node.weight.shape)
        underflow = UNDERFLOW * (1 + parent.sum(-1, keepdim=True))
        return gamma(count) * (parent @ node.weight_size.T + node.bias_size) + underflow
    if isinstance(node, Sum):
        return gamma(count + len(node.parents)) * node.total(sizes) + UNDERFLOW
    assert isinstance(node, Elementwise)
    unit = ACTIVATIONS[node.kind]
    return gamma(count + node.units) * (unit.offset + parent) + unit.error + UNDERFLOW
