r"""How the bounds stay sound although they are computed in floating point.

Every bound holds for the exact network *and* for its value in float64, summed in whatever order.
Two facts suffice:

1. A sum of $k$ products is wrong by at most $\gamma_k \sum |a_i b_i|$ with $\gamma_k = k\epsilon/(1
   - k\epsilon)$.
2. Errors need not be followed through the layers. Where a form $C v$ on the values of a layer $v =
   Wz + b$ becomes $(CW) z + C b$, rounding of $CW$, of $Cb$ and of $v$ itself change it by at most
   $|C| \, \gamma_k (|W| \, R + |b|)$, if $|z| \le R$; and such an $R$ is known: it comes from the
   bounds of $z$.

So each node has one vector $e$ with the rounding that its step can cause for each unit, and each
step of a backward pass lowers the constant of its form by $|C| e$. Here $k$ counts generously, and
$\epsilon$ is twice the unit roundoff, so that the rounding of $e$ and $|C| e$ is covered too. The
push is about $10^{-13}$ of the sizes that were added up. Where affine maps were merged, $|W|$ and
$|b|$ are the products and sums of the absolute values of the parts, so that the network as it was
written, layer by layer, is covered as well.

Products too small for floating point vanish: each step adds $10^{-180}$ of the sizes to its error
and to the constant of every form, far more than they can add up to. What overflows is an error,
never a bound.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import UnsupportedNetworkError
from ..numerics import gamma
from .activations import ACTIVATIONS
from .graph import Affine, Elementwise, Graph, Input, Sum

TINY = 1e-180


def require_finite(values: Tensor, what: str) -> None:
    """An error where something is NaN or infinite; one sum finds any.

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
    """What rounding can cause in the step through one node, for each unit; `sizes[i]` bounds the
    values of node i.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> bool(
    ...     step_error(network_graph(hand_sized_net(), 2), 1, [torch.ones(1, 2).double()]).max()
    ...     < 1e-13
    ... )
    True
    """
    node = graph.nodes[index]
    count = len(graph.nodes) + 32
    if isinstance(
        node, Input
    ):  # the smallest value of a form over a region is wrong by at most this
        return gamma(8 * node.units + count) * sizes[0] + TINY
    if isinstance(node, Affine):
        count += node.terms + sum(node.weight.shape)
        vanished = TINY * (1 + sizes[node.parent].sum(-1, keepdim=True))
        return gamma(count) * (sizes[node.parent] @ node.weight_size.T + node.bias_size) + vanished
    if isinstance(node, Sum):
        return (
            gamma(count + len(node.parents))
            * sum((sizes[parent] for parent in node.parents), torch.zeros(()))
            + TINY
        )
    assert isinstance(node, Elementwise)
    unit = ACTIVATIONS[node.kind]
    return gamma(count + node.units) * (unit.offset + sizes[node.parent]) + unit.error + TINY
