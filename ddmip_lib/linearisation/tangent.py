"""Networks near a point: what they say there, and their slopes as one sparse matrix over all
variables.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from ..clock import check_time
from ..model.gradients import vjp
from ..model.instance import Instance


class Tangent(NamedTuple):
    r"""The networks' first-order model at a full assignment $v$: $f(v) + J (v' - v)$, logits of
    classifiers included.

    ``said`` is $f(v)$, all outputs one after the other; ``slopes`` is $J$, outputs by variables;
    ``rest`` is $f(v) - Jv$.
    """

    said: np.ndarray
    slopes: sp.csr_matrix
    rest: np.ndarray


@torch.enable_grad()
def linearise(instance: Instance, values: np.ndarray) -> Tangent:
    """One backward pass for each column of outputs: the rows of a batch do not see each other."""
    said = []
    entries = []
    first = 0
    for predictor, m in zip(instance.predictors, instance.maps, strict=True):
        check_time()
        x = torch.tensor(m.at(values), requires_grad=True)
        raw = predictor.net(x)
        n, q = raw.shape
        if not bool(torch.isfinite(raw).all()):
            instance.blame(instance.inputs(values))
        for k in range(q):
            slope = vjp([raw[:, k]], x, np.ones(n), keep=k + 1 < q).numpy()
            row, column = np.nonzero(m.index >= 0)
            entries.append((first + row * q + k, m.index[row, column], slope[row, column]))
        said.append(raw.detach().numpy().ravel())
        first += n * q
    at, variable, slope = (np.concatenate(part) for part in zip(*entries, strict=True))
    if not np.isfinite(slope).all():
        instance.blame(instance.inputs(values))
    slopes = sp.csr_matrix((slope, (at, variable)), shape=(first, instance.milp.n_variables))
    flat = np.concatenate(said)
    return Tangent(flat, slopes, flat - slopes @ values)
