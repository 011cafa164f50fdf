"""Fitted models of scikit-learn as networks, recognised by the names of their classes.

Nothing of scikit-learn is imported.
"""

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from ..bounds.activations import ACTIVATIONS
from ..bounds.layer import linear_layer
from ..errors import UnsupportedNetworkError

LAYERS_BY_NAME = {unit.sklearn: unit.layer for unit in ACTIVATIONS.values()}
LINEAR = ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "LogisticRegression")
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler")

Layers = list[tuple[ndarray, ndarray]]
"""Weight and bias of each layer."""


def from_sklearn(estimator: Any) -> nn.Sequential:
    """Convert a fitted estimator to linear layers and activations; scalers become part of layers.

    Regressors become what ``predict`` returns. Classifiers become logits: one for two classes,
    positive where ``predict`` returns ``classes_[1]``, for ``output="classification"``; otherwise
    one for each class, of which ``predict`` takes the largest.

    Parameters
    ----------
    estimator : sklearn estimator
        MLPRegressor, MLPClassifier, a linear or logistic model, each also in a ``Pipeline`` behind
        StandardScaler, MinMaxScaler or MaxAbsScaler, or a TransformedTargetRegressor with such a
        scaler.

    Returns
    -------
    nn.Sequential
        In float64 and evaluation mode, without gradients of weights.

    Raises
    ------
    UnsupportedNetworkError
        If it is another estimator, or not fitted.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> Fitted = type("LinearRegression", (SimpleNamespace,), {})
    >>> from_sklearn(Fitted(coef_=[2.0, -1.0], intercept_=0.5))(torch.ones(1, 2).double()).item()
    1.5
    """
    layers, activation = _read(estimator)
    modules: list[nn.Module] = []
    for weight, bias in layers:
        if modules and activation is not nn.Identity:
            modules.append(activation())
        full_bias = np.broadcast_to(bias, len(weight))
        modules.append(linear_layer(torch.tensor(weight), torch.tensor(full_bias)))
    return nn.Sequential(*modules).requires_grad_(False).eval()


def _read(estimator: Any) -> tuple[Layers, type[nn.Module]]:
    """Layers, and the activation between them."""
    name = type(estimator).__name__
    if name == "Pipeline":
        return _read_pipeline(estimator)
    if name == "TransformedTargetRegressor" and estimator.func is None:
        return _read_scaled_target(estimator)
    if name in LINEAR:
        weight = np.atleast_2d(_fitted(estimator, "coef_")).astype(float)
        return [(weight, np.ravel(estimator.intercept_))], nn.Identity
    if name in ("MLPRegressor", "MLPClassifier") and _fitted(estimator, "out_activation_") != "exp":
        weights = [weight.T.astype(float) for weight in estimator.coefs_]
        layers = list(zip(weights, estimator.intercepts_, strict=True))
        return layers, LAYERS_BY_NAME.get(estimator.activation, nn.Identity)
    raise UnsupportedNetworkError(
        f"{name} is no network that from_sklearn reads (see its documentation): pass"
        " black_box(estimator.predict)."
    )


def _read_pipeline(pipeline: Any) -> tuple[Layers, type[nn.Module]]:
    steps = [step for _, step in pipeline.steps if step is not None and step != "passthrough"]
    layers, activation = _read(steps.pop())
    for step in reversed(steps):
        factor, shift = _scaler(step)
        weight, bias = layers[0]
        layers[0] = weight * factor, bias + weight @ shift  # W (a x + s) + b
    return layers, activation


def _read_scaled_target(estimator: Any) -> tuple[Layers, type[nn.Module]]:
    layers, activation = _read(_fitted(estimator, "regressor_"))
    if estimator.transformer is not None:
        factor, shift = _scaler(estimator.transformer_)
        weight, bias = layers[-1]
        layers[-1] = weight / factor[:, None], (bias - shift) / factor
    return layers, activation


def _scaler(step: Any) -> tuple[ndarray, ndarray]:
    """Factor and shift of each column."""
    name = type(step).__name__
    if name not in SCALERS or getattr(step, "clip", False):
        raise UnsupportedNetworkError(
            f"{name} cannot be folded into a layer, only {', '.join(SCALERS)} can, without clip:"
            " pass black_box(pipeline.predict)."
        )
    scale = _fitted(step, "scale_")
    if name == "MinMaxScaler":
        return scale, step.min_
    zero = np.zeros(step.n_features_in_)
    factor = zero + 1 if scale is None else 1 / scale
    if getattr(step, "with_mean", False):
        return factor, -step.mean_ * factor
    return factor, zero


def _fitted(estimator: Any, field: str) -> Any:
    if not hasattr(estimator, field):
        raise UnsupportedNetworkError(
            f"this {type(estimator).__name__} is not fitted: call its fit() first."
        )
    return getattr(estimator, field)
