"""One network placed in a model: which variables enter it, which ones carry its outputs."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ..errors import ProblemError
from ..programs.scip import MILP
from .exported import REMEDY, as_module, is_exported
from .gradients import vjp
from .grid import box
from .network_checks import last_line, not_finite

MARGIN = 1e-3
"""Smallest logit that a model may call class 1: without one, solver tolerances call samples potable
that are not.
"""


@dataclass(frozen=True)
class Predictor:
    r"""One network placed in a model, $n$ rows at once: $x$ is $n \times p$, $y$ is $n \times q$.

    ``inputs`` and ``outputs`` hold pyscipopt variables; an input may also be a plain number. There
    are two kinds, `Regression`, whose outputs are what the network says, and `Classification`,
    whose outputs are classes.
    """

    net: nn.Module
    inputs: np.ndarray
    outputs: np.ndarray
    name: str
    kind: ClassVar[str]
    gives_class: ClassVar[bool]
    """Whether an output is the class that a logit decides, not a prediction."""

    def raw(self, x: np.ndarray) -> np.ndarray:
        """$f(x)$ by the true network in float64: predictions, or logits of a classifier.

        Of no rows there are none: the network, which may not take an empty batch, is not called.
        """
        if len(x) == 0:
            return np.zeros((0, self.outputs.shape[1]))
        with torch.no_grad():
            return self.net(torch.tensor(np.asarray(x, dtype=float))).numpy()

    def finite_raw(self, x: np.ndarray) -> np.ndarray:
        """The same, or an error that names the layer and the row where it is NaN or infinite."""
        raw = self.raw(x)
        if not np.isfinite(raw).all():
            raise ProblemError(
                f"{not_finite(self.net, x)}: tighten the bounds of the inputs, or rescale the"
                " network."
            )
        return raw

    def alone(self) -> Predictor:
        """The same without the variables of its model, which no other process knows."""
        return replace(
            self,
            inputs=np.zeros((0, self.inputs.shape[1])),
            outputs=np.zeros((0, self.outputs.shape[1])),
        )

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The values that the output variables must take at inputs `x`."""
        return self.outputs_of(self.raw(x))

    def outputs_of(self, raw: np.ndarray) -> np.ndarray:
        """The values that the output variables must take where the network says `raw`."""
        return raw

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        """The outputs as a function with a gradient to follow."""
        return raw

    def mistakes(self, given: np.ndarray, raw: np.ndarray, sizes: np.ndarray) -> Mistakes:
        """How far given values of the outputs, of these sizes, are from what the network says."""
        return Mistakes(error=float((np.abs(given - raw) / np.maximum(sizes, np.abs(raw))).max()))

    def carrier(
        self, model: Model, y: Any, milp: MILP, at: int, ends: tuple[float, float], margin: float
    ) -> Any:
        """The variable of `model` that must equal the network's value in `ends`; `y` is the output,
        number `at`.
        """
        return y


class Mistakes(NamedTuple):
    """The largest relative error of a prediction, wrong classes, and the smallest size of a
    logit.
    """

    error: float = 0.0
    wrong: int = 0
    smallest_logit: float = np.inf


class Regression(Predictor):
    """The constraint $y = f(x)$."""

    kind = "regression"
    gives_class = False


class Classification(Predictor):
    """The constraint $y = 1[f(x) > 0]$, for binary $y$."""

    kind = "classification"
    gives_class = True

    def outputs_of(self, raw: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(raw), raw > 0, np.nan)  # what is no number is no class

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(raw)

    def mistakes(self, given: np.ndarray, raw: np.ndarray, sizes: np.ndarray) -> Mistakes:
        wrong = int((np.abs(given - self.outputs_of(raw)) > 0.5).sum())
        return Mistakes(wrong=wrong, smallest_logit=float(np.abs(raw).min()))

    def carrier(
        self, model: Model, y: Any, milp: MILP, at: int, ends: tuple[float, float], margin: float
    ) -> Any:
        r"""A logit $o \in [l, u]$ with $y = 1 \Rightarrow o \ge$ margin and, unless a larger y only
        helps, $y = 0 \Rightarrow o \le 0$.
        """
        below = min(ends[0], 0.0)
        above = max(ends[1], margin)
        logit = model.addVar(lb=below, ub=above)
        model.addCons(logit >= below + (margin - below) * y)
        if not milp.larger_helps(at):
            model.addCons(logit <= above * y)
        return logit


KINDS: dict[str, type[Predictor]] = {kind.kind: kind for kind in (Regression, Classification)}


def warn_of_outputs(predictor: Predictor, infinity: float, points: int = 64) -> None:
    """Warn where the network, at random inputs, says what its output variables cannot be, and a
    default is to blame: the lower bound 0 that SCIP gives to variables, or the kind of a predictor.
    """
    y = list(predictor.outputs.flat)
    default = np.array([v.getLbOriginal() == 0 and v.getUbOriginal() >= infinity for v in y])
    binary = np.array([v.vtype() == "BINARY" for v in y])
    if predictor.gives_class or not (default | binary).any():
        return
    low, high = box(predictor.inputs)
    draws = np.random.default_rng(0).random((max(1, points // len(low)), *low.shape))
    said = predictor.raw((low + (high - low) * draws).reshape(-1, low.shape[1])).reshape(
        len(draws), -1
    )
    for v in np.array(y)[default & (said < -1e-6).any(axis=0)][:1]:
        text = (
            f"output {v.name} has the default lower bound 0, but the network also says less: inputs"
            " where it does count"
        )
        warnings.warn(
            f"{text} as infeasible. Use lb=None, and a row y >= 0 if that is meant.", stacklevel=3
        )
    for v in np.array(y)[binary & (np.abs(said - np.round(said)) > 1e-6).any(axis=0)][:1]:
        text = (
            f"output {v.name} is binary, and a regression must hit 0 or 1, but the network says"
            " other numbers: pass"
        )
        warnings.warn(f'{text} output="classification" for the class 1[logit > 0].', stacklevel=3)


def warn_of_steps(predictor: Predictor, points: int = 64) -> None:
    """Warn where the network says different numbers at random inputs, and has no slope at any of
    them.
    """
    low, high = box(predictor.inputs)
    rng = np.random.default_rng(0)
    drawn = low[rows := rng.integers(len(low), size=points)] + (high - low)[rows] * rng.random(
        (points, low.shape[1])
    )
    x = torch.tensor(drawn, requires_grad=True)
    with (
        suppress(RuntimeError, ProblemError),
        torch.enable_grad(),
    ):  # one without gradients is named by who needs them
        raw = predictor.net(x.clone())
        said = raw.detach().numpy()
        slope = vjp([raw], x, rng.uniform(0.5, 1.0, raw.numel())) if raw.requires_grad else None
        if (
            slope is not None
            and not slope.any()
            and np.isfinite(said).all()
            and np.ptp(said, axis=0).any()
        ):
            text = (
                f"the network's slope is 0 at all of {points} random inputs, though its values"
                " differ (a tree, a "
            )
            remedy = (
                "rounding): methods that follow slopes learn nothing. Wrap it with"
                " ddmip_lib.predictors.black_box, "
            )
            warnings.warn(
                f"{text}{remedy}whose slopes are sampled, or use Enumeration.", stacklevel=3
            )


def frozen_double(net: Any) -> nn.Module:
    """An independent float64 copy of `net` whose weights need no gradient, after checking the
    original.
    """
    net = as_module(net)
    if not isinstance(net, nn.Module):
        raise TypeError(f"a predictor must be a torch.nn.Module, not {type(net).__name__}.")
    if any(module.training for module in net.modules()):
        raise ProblemError(
            "the network is in training mode: call net.eval() before adding it to a model."
        )
    for name, weight in [*net.named_parameters(), *net.named_buffers()]:
        if nn.parameter.is_lazy(weight):
            raise ProblemError(
                f"weight {name} has no shape yet: run the lazy network once on a batch."
            )
        if weight.device.type == "meta":
            raise ProblemError(
                f"weight {name} is on the meta device, without numbers: make room by"
                " net.to_empty(device='cpu'), then load its weights by net.load_state_dict(...)."
            )
        if weight.dtype in (torch.float16, torch.bfloat16):
            raise ProblemError(
                f"weight {name} is {weight.dtype}: convert the network with net.float() or"
                " net.double()."
            )
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            raise ProblemError(
                f"weight {name} contains NaN or infinity: retrain or reload the network."
            )
    try:
        with torch.no_grad():  # a scripted module would keep the way from its old weights
            frozen = copy.deepcopy(net).cpu().double()
    except (RuntimeError, TypeError) as error:
        raise ProblemError(
            f"the network cannot be copied ({last_line(error)}): keep no tensors with a gradient in"
            " it (detach them), no locks or generators, and use weight_norm and spectral_norm of"
            " torch.nn.utils.parametrizations."
        ) from error
    for weight in frozen.parameters():
        weight.requires_grad_(False)
    return frozen


def takes(net: nn.Module, n_in: int) -> bool:
    """Whether a network accepts rows of `n_in` features."""
    try:
        return output_width(net, n_in) > 0
    except ProblemError:
        return False


def output_width(net: nn.Module, n_in: int) -> int:
    """Number of outputs for one row of `n_in` features; a clear error where the widths do
    not fit.
    """
    try:
        with torch.no_grad():
            out = net(torch.zeros(2, n_in, dtype=torch.float64))
    except (RuntimeError, IndexError, ValueError, AssertionError) as error:
        remedy = "Pass as many input columns as the network has inputs."
        if any(word in str(error) for word in ("dtype", "Float", "Double")):
            remedy = (
                "It is run in float64: let forward() make tensors with dtype=x.dtype, or keep them"
                " as buffers."
            )
            if isinstance(net, torch.jit.ScriptModule):
                remedy = "It is run in float64: script or trace net.double(), and do not freeze it."
        why = last_line(error)
        if is_exported(net):
            remedy += f" A program may have been exported for one number of rows: {REMEDY}"
        raise ProblemError(
            f"the network does not accept rows of {n_in} features ({why}). {remedy}"
        ) from error
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or out.shape[0] != 2:
        raise ProblemError("the network must map (rows, features) to (rows, outputs).")
    return int(out.shape[1])
