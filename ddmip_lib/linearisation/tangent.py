"""First-order Taylor expansion of all networks at a point, with one sparse Jacobian."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray

from ..clock import check_time
from ..model.gradients import vjp
from ..model.instance import InputMap, Instance


class Tangent(NamedTuple):
    r"""First-order model of all networks at a full assignment $v$: $f(v) + J (v' - v)$.

    Classifiers are represented by their logits.

    Attributes
    ----------
    values : np.ndarray
        $f(v)$, the values of all networks one after the other.
    jacobian : sp.csr_matrix
        The Jacobian $J$, network values by variables of the model.
    offset : np.ndarray
        The constant term $f(v) - Jv$.
    """

    values: ndarray
    jacobian: sp.csr_matrix
    offset: ndarray


@torch.enable_grad()
def linearise(instance: Instance, values: ndarray) -> Tangent:
    """Linearise all networks, with one backward pass for each output of each network.

    A sample of a batch does not depend on the others, so that one pass serves all samples.

    Parameters
    ----------
    instance : Instance
        The model with its networks.
    values : np.ndarray
        A full assignment.

    Returns
    -------
    Tangent
        Values, Jacobian and constant term.

    Raises
    ------
    ProblemError
        If a value or a derivative of a network is NaN or infinite.
    """
    outputs = []
    jacobians = []
    for predictor, mapping in instance.networks:
        check_time()
        inputs = torch.tensor(mapping.at(values), requires_grad=True)
        raw = predictor.net(inputs)
        if not bool(torch.isfinite(raw).all()):
            instance.raise_not_finite(instance.inputs(values))
        outputs.append(raw.detach().numpy().ravel())
        jacobians.append(_jacobian(raw, inputs, mapping, len(values)))
    jacobian = sp.vstack(jacobians, format="csr")
    if not np.isfinite(jacobian.data).all():
        instance.raise_not_finite(instance.inputs(values))
    predicted = np.concatenate(outputs)
    return Tangent(predicted, jacobian, predicted - jacobian @ values)


def _jacobian(
    raw: torch.Tensor, inputs: torch.Tensor, mapping: InputMap, n_variables: int
) -> sp.csr_matrix:
    """The derivatives of one network's values in all variables of the model."""
    n_samples, n_outputs = raw.shape
    sample, column = np.nonzero(mapping.index >= 0)
    derivatives = []
    for k in range(n_outputs):
        gradient = vjp([raw[:, k]], inputs, np.ones(n_samples), keep_graph=k + 1 < n_outputs)
        derivatives.append(gradient.numpy()[sample, column])
    row = np.concatenate([sample * n_outputs + k for k in range(n_outputs)])
    place = row, np.tile(mapping.index[sample, column], n_outputs)
    return sp.csr_matrix((np.concatenate(derivatives), place), shape=(raw.numel(), n_variables))
