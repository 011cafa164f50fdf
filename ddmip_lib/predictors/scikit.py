"""Fitted models of scikit-learn as networks; they are known by the names of their classes, so nothing is imported."""

from typing import Any

import numpy as np
import torch
from torch import nn

from ..errors import UnsupportedNetworkError

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}
LINEAR = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "LogisticRegression",
          "LogisticRegressionCV", "RidgeClassifier")  # fmt: skip
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler")
SUPPORTED = "MLPRegressor, MLPClassifier, linear and logistic models, and pipelines and targets with a scaler"
Affine = tuple[np.ndarray, np.ndarray]
"""Factor and shift of each column."""


def from_sklearn(estimator: Any) -> nn.Sequential:
    r"""A fitted estimator as a network in float64, linear layers and activations alone; scalers are folded in.

    Regressors become what `predict` says. Classifiers become logits: one for two classes, positive where `predict`
    says `classes_[1]`, for `output="classification"`; otherwise one for each class, of which `predict` takes the
    largest. It reads MLPRegressor, MLPClassifier, linear and logistic models, `Pipeline`s of these behind
    StandardScaler, MinMaxScaler or MaxAbsScaler, and TransformedTargetRegressor with such a scaler. Anything else has
    a `predict` for `black_box`.

    >>> from types import SimpleNamespace
    >>> Fitted = type("LinearRegression", (SimpleNamespace,), {})
    >>> from_sklearn(Fitted(coef_=[2.0, -1.0], intercept_=0.5))(torch.ones(1, 2).double()).item()
    1.5
    """
    layers, steps, target = _read(estimator)
    weights = [(np.atleast_2d(np.asarray(w, dtype=float)), np.ravel(np.asarray(b, dtype=float))) for w, b in layers[0]]
    for factor, shift in reversed(steps):  # W (a x + s) + b
        weights[0] = weights[0][0] * factor, weights[0][1] + weights[0][0] @ shift
    if target is not None:  # what a scaler made of the target, (y - s) / a, is undone
        weight, bias = weights[-1]
        weights[-1] = weight / target[0][:, None], (bias - target[1]) / target[0]
    modules: list[nn.Module] = []
    for weight, bias in weights:
        layer = nn.Linear(*weight.shape[::-1]).double()
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(np.resize(bias, len(weight)))
        modules += [layer] if layers[1] is None else [layer, layers[1]()]
    return nn.Sequential(*modules[: -1 if layers[1] else None]).requires_grad_(False).eval()


def _read(estimator: Any) -> tuple[tuple[list[tuple[Any, Any]], type[nn.Module] | None], list[Affine], Affine | None]:
    """Weights, biases and the activation between them; the scalers of the inputs, in order; that of the target."""
    name = type(estimator).__name__
    if name == "Pipeline":
        *before, last = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
        layers, steps, target = _read(last)
        return layers, [*map(_scaler, before), *steps], target
    if name == "TransformedTargetRegressor":
        layers, steps, target = _read(_fitted(estimator, "regressor_"))
        if target is not None or estimator.func is not None:
            raise UnsupportedNetworkError("a target may be transformed once, by a scaler: pass a transformer, no func.")
        return layers, steps, _scaler(estimator.transformer_) if estimator.transformer is not None else None
    if name in LINEAR:
        return ([(_fitted(estimator, "coef_"), estimator.intercept_)], None), [], None
    if name in ("MLPRegressor", "MLPClassifier"):
        weights = [w.T for w in _fitted(estimator, "coefs_")]
        end = estimator.out_activation_
        if end not in ("identity", "logistic", "softmax"):
            raise UnsupportedNetworkError(f"{name} ends in {end}: use black_box(estimator.predict, 1).")
        return (list(zip(weights, estimator.intercepts_, strict=True)), ACTIVATIONS.get(estimator.activation)), [], None
    raise UnsupportedNetworkError(f"{name} is no network: from_sklearn reads {SUPPORTED}; take black_box for others.")


def _scaler(step: Any) -> Affine:
    """Factor and shift of a fitted scaler, for each column."""
    name = type(step).__name__
    if name not in SCALERS or getattr(step, "clip", False):
        clips = " that clips" if name in SCALERS else ""
        raise UnsupportedNetworkError(
            f"{name}{clips} cannot be folded into a layer, only {', '.join(SCALERS)} can: take "
            "black_box(pipeline.predict) for the whole."
        )
    if name == "MinMaxScaler":
        return np.asarray(_fitted(step, "scale_")), np.asarray(step.min_)
    scale, zero = _fitted(step, "scale_"), np.zeros(_fitted(step, "n_features_in_"))
    factor = zero + 1 if scale is None else 1 / np.asarray(scale, dtype=float)
    centred = name == "StandardScaler" and step.with_mean
    return factor, -np.asarray(step.mean_) * factor if centred else zero


def _fitted(estimator: Any, field: str) -> Any:
    if not hasattr(estimator, field):
        raise UnsupportedNetworkError(f"this {type(estimator).__name__} is not fitted: call its fit() first.")
    return getattr(estimator, field)
