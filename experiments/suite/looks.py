"""What a model of the suite looks like, where it comes from, and a check of points beside the
library's own.
"""

import copy
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP
from ddmip_lib.model.assignments import AssignmentList
from ddmip_lib.pricing import Blocks
from ddmip_lib.pricing.recognition import find_blocks
from .parts import STORED
from .tiny import MOST

TOLERANCE = 2e-6
ROWS = 2.5
"""Times looser is SCIP, which measures a constraint by its side: `verify` tolerates 1e-6 of its
terms, which may be larger.
"""
CURVED = {
    "ReLU": "ReLU",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "LSTM": "LSTM",
    "MultiheadAttention": "attention",
    "Conv1dNet": "ReLU",
}
"""What makes a network curved, by the names of its modules; some call functions instead of layers.
"""


class Generated(NamedTuple):
    """Where the networks of a model come from: generated data, or no data at all."""

    name: str

    @property
    def provenance(self) -> dict[str, str]:
        """As rows carry it: a digest of the stored file, or of the name where all is drawn when it
        is built.
        """
        path = STORED / f"suite_{self.name}.npz"
        content = path.read_bytes() if path.is_file() else self.name.encode()
        return {
            "name": f"suite {self.name}",
            "source": "generated",
            "sha256": hashlib.sha256(content).hexdigest(),
        }


def features(problem: NeuralMIP) -> dict[str, Any]:
    """What a user sees of a problem before any method runs.

    >>> from ddmip_lib.problems import hand_sized
    >>> found = features(hand_sized())
    >>> found["inputs"], found["whole"], found["points"], found["activations"]
    (2, 2, 4, ['ReLU'])
    """
    instance = problem.instance()
    s = instance.milp
    inputs = instance.free_inputs
    outputs = instance.outputs
    touching = np.diff(s.rows[:, outputs].indptr) > 0
    blocks = find_blocks(problem, instance)
    found = AssignmentList(s).combinations(inputs, MOST) if s.integer[inputs].all() else None
    modules = {type(module).__name__ for p in problem.predictors for module in p.net.modules()}
    kinds = {kind for name, kind in CURVED.items() if name in modules}
    return {
        "inputs": len(inputs),
        "whole": int(s.integer[inputs].sum()),
        "points": None if found is None else len(found),
        "variables": int(s.n_variables),
        "integers": int(s.integer.sum()),
        "rows": int(s.n_rows),
        "output_rows": int(touching.sum()),
        "output_equations": int((touching & (s.row_lower == s.row_upper)).sum()),
        "networks": len(problem.predictors),
        "network_rows": sum(len(m.index) for m in instance.maps),
        "outputs": len(outputs),
        "classes": any(p.gives_class for p in problem.predictors),
        "activations": sorted(kinds),
        "weights": sum(w.numel() for p in problem.predictors for w in p.net.parameters()),
        "blocks": int(blocks.n) if isinstance(blocks, Blocks) or not blocks.obstacle else 1,
    }


def own_check(problem: NeuralMIP, values: np.ndarray, tolerance: float = TOLERANCE) -> float | str:
    """The objective of a point, or what is wrong with it, without the library's verification.

    SCIP itself checks constraints, bounds and integrality on a copy of the model; flat networks are
    computed in numpy, other ones by their own module in double precision; costs are added up
    variable by variable.
    """
    model = Model(sourceModel=problem.model, origcopy=True)
    model.hideOutput()
    model.setParam("numerics/feastol", ROWS * tolerance)
    point = model.createSol()
    for variable, value in zip(model.getVars(), values, strict=True):
        model.setSolVal(point, variable, float(value))
    if not model.checkSol(point, printreason=False, completely=True, original=True):
        return "SCIP finds a constraint, bound or integrality violated"
    place = {variable.ptr(): at for at, variable in enumerate(problem.model.getVars())}
    for predictor in problem.predictors:
        x = np.array(
            [
                [values[place[e.ptr()]] if hasattr(e, "ptr") else float(e) for e in row]
                for row in predictor.inputs
            ]
        )
        y = np.array([[values[place[e.ptr()]] for e in row] for row in predictor.outputs])
        right = forward(predictor.net, x)
        right = (right > 0).astype(float) if predictor.gives_class else right
        if (np.abs(y - right) > tolerance * np.maximum(1.0, np.abs(right))).any():
            return f"an output is off by {np.abs(y - right).max():.1e}"
    costs = [
        variable.getObj() * float(value)
        for variable, value in zip(model.getVars(), values, strict=True)
    ]
    return float(sum(costs) + model.getObjoffset())


def forward(net: nn.Module, x: np.ndarray) -> np.ndarray:
    """The outputs of a network: by matrix products in numpy where it is flat."""
    curves: dict[type[nn.Module], Callable[[np.ndarray], np.ndarray]] = {
        nn.ReLU: lambda v: np.maximum(v, 0.0),
        nn.Tanh: np.tanh,
        nn.Sigmoid: lambda v: 1.0 / (1.0 + np.exp(-v)),
    }
    layers = list(net) if isinstance(net, nn.Sequential) else [net]
    if all(isinstance(layer, (nn.Linear, *curves)) for layer in layers):
        for layer in layers:
            if isinstance(layer, nn.Linear):
                x = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
            else:
                x = curves[type(layer)](x)
        return x
    with torch.no_grad():
        return np.asarray(copy.deepcopy(net).double().eval()(torch.from_numpy(x)))
