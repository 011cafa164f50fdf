"""Fitted models of scikit-learn as networks; they are known by the names of their classes, so
nothing is imported.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from ..bounds.layer import linear_layer
from ..errors import UnsupportedNetworkError

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}
LINEAR = ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "LogisticRegression")
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler")


def from_sklearn(estimator: Any) -> nn.Sequential:
    """A fitted estimator as a network in float64, linear layers and activations alone; scalers are
    folded in.

    Regressors become what `predict` says. Classifiers become logits: one for two classes, positive
    where `predict` says `classes_[1]`, for `output="classification"`; otherwise one for each class,
    of which `predict` takes the largest. It reads MLPRegressor, MLPClassifier, linear and logistic
    models, each also in a `Pipeline` behind StandardScaler, MinMaxScaler or MaxAbsScaler, and
    TransformedTargetRegressor with such a scaler.

    >>> from types import SimpleNamespace
    >>> Fitted = type("LinearRegression", (SimpleNamespace,), {})
    >>> from_sklearn(Fitted(coef_=[2.0, -1.0], intercept_=0.5))(torch.ones(1, 2).double()).item()
    1.5
    """
    layers, activation = _read(estimator)
    modules: list[nn.Module] = []
    for weight, bias in layers:
        each = np.broadcast_to(bias, len(weight))
        modules += [linear_layer(torch.tensor(weight), torch.tensor(each)), activation()]
    return (
        nn.Sequential(*[m for m in modules[:-1] if type(m) is not nn.Identity])
        .requires_grad_(False)
        .eval()
    )


def _read(estimator: Any) -> tuple[list[tuple[np.ndarray, np.ndarray]], type[nn.Module]]:
    """Weights and biases of each layer, and the activation between layers."""
    name = type(estimator).__name__
    if name == "Pipeline":
        *before, last = [
            step for _, step in estimator.steps if step is not None and step != "passthrough"
        ]
        layers, activation = _read(last)
        for (factor, shift), (weight, bias) in (
            (_scaler(step), layers[0]) for step in reversed(before)
        ):
            layers[0] = weight * factor, bias + weight @ shift  # W (a x + s) + b
        return layers, activation
    if name == "TransformedTargetRegressor" and estimator.func is None:
        layers, activation = _read(_fitted(estimator, "regressor_"))
        if estimator.transformer is not None:
            (factor, shift), (weight, bias) = _scaler(estimator.transformer_), layers[-1]
            layers[-1] = weight / factor[:, None], (bias - shift) / factor
        return layers, activation
    if name in LINEAR:
        return [
            (
                np.atleast_2d(_fitted(estimator, "coef_")).astype(float),
                np.ravel(estimator.intercept_),
            )
        ], nn.Identity
    if name in ("MLPRegressor", "MLPClassifier") and _fitted(estimator, "out_activation_") != "exp":
        weights = [weight.T.astype(float) for weight in estimator.coefs_]
        return [*zip(weights, estimator.intercepts_, strict=True)], ACTIVATIONS.get(
            estimator.activation, nn.Identity
        )
    raise UnsupportedNetworkError(
        f"{name} is no network that from_sklearn reads (see its documentation): pass"
        " black_box(estimator.predict)."
    )


def _scaler(step: Any) -> tuple[np.ndarray, np.ndarray]:
    """Factor and shift of each column."""
    name = type(step).__name__
    if name not in SCALERS or getattr(step, "clip", False):
        raise UnsupportedNetworkError(
            f"{name} cannot be folded into a layer, only {', '.join(SCALERS)} can, without clip:"
            " pass black_box(pipeline.predict)."
        )
    scale = _fitted(step, "scale_")
    zero = np.zeros(step.n_features_in_)
    if name == "MinMaxScaler":
        return scale, step.min_
    factor = zero + 1 if scale is None else 1 / scale
    return factor, -step.mean_ * factor if getattr(step, "with_mean", False) else zero


def _fitted(estimator: Any, field: str) -> Any:
    if not hasattr(estimator, field):
        raise UnsupportedNetworkError(
            f"this {type(estimator).__name__} is not fitted: call its fit() first."
        )
    return getattr(estimator, field)
