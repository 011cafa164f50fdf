"""Fitted models of scikit-learn as networks, recognised by the names of their classes.

Nothing of scikit-learn is imported.
"""

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from ..bounds.activations import ACTIVATIONS
from ..bounds.layer import linear_layer
from ..errors import UnsupportedNetworkError
from .columns import read_entries, read_scalings, require_fitted, split_steps

LAYERS_BY_NAME = {unit.sklearn: unit.layer for unit in ACTIVATIONS.values()}
LINEAR = ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "LogisticRegression")

Layers = list[tuple[ndarray, ndarray]]
"""Weight and bias of each layer."""


class Monomials(nn.Module):
    """Products of powers of the inputs, as PolynomialFeatures computes them.

    Parameters
    ----------
    powers
        The exponent of each input, in a row for each product.
    """

    powers: Tensor

    def __init__(self, powers: ndarray) -> None:
        super().__init__()
        self.register_buffer("powers", torch.tensor(powers, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the products at samples (n, p)."""
        return (x[:, None, :] ** self.powers).prod(dim=2)


def from_sklearn(estimator: Any) -> nn.Sequential:
    """Convert a fitted estimator to linear layers and activations; scalers become part of layers.

    Regressors become what ``predict`` returns. Classifiers become logits: one for two classes,
    positive where ``predict`` returns ``classes_[1]``, for ``output="classification"``; otherwise
    one for each class, of which ``predict`` takes the largest.

    Parameters
    ----------
    estimator : sklearn estimator
        MLPRegressor, MLPClassifier, a linear or logistic model, each also in a ``Pipeline`` behind
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PolynomialFeatures, and a
        ColumnTransformer of scalers with OneHotEncoder or OrdinalEncoder; or a
        TransformedTargetRegressor with such a scaler.
        A column of categories has an input for each category, which is 1 for the chosen one.

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
    steps = getattr(estimator, "steps", [])
    for place, (_, step) in enumerate(steps):
        if type(step).__name__ == "PolynomialFeatures":
            before = linear_layer(*map(torch.tensor, _affine_map(estimator[: place + 1])))
            after = from_sklearn(estimator[place + 1 :])
            return nn.Sequential(before, Monomials(step.powers_), after).eval()
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
        weight = np.atleast_2d(require_fitted(estimator, "coef_")).astype(float)
        return [(weight, np.ravel(estimator.intercept_))], nn.Identity
    if (
        name in ("MLPRegressor", "MLPClassifier")
        and require_fitted(estimator, "out_activation_") != "exp"
    ):
        weights = [weight.T.astype(float) for weight in estimator.coefs_]
        layers = list(zip(weights, estimator.intercepts_, strict=True))
        return layers, LAYERS_BY_NAME.get(estimator.activation, nn.Identity)
    raise UnsupportedNetworkError(
        f"{name} is no network that from_sklearn reads (see its documentation): pass"
        " black_box(estimator.predict)."
    )


def _read_pipeline(pipeline: Any) -> tuple[Layers, type[nn.Module]]:
    layers, activation = _read(split_steps(pipeline)[1])
    slopes, constants = _affine_map(pipeline)
    weight, bias = layers[0]
    layers[0] = weight @ slopes, bias + weight @ constants  # W (A x + s) + b
    return layers, activation


def _affine_map(pipeline: Any) -> tuple[ndarray, ndarray]:
    """A and s, where the last step of a pipeline is given A x + s."""
    affine = [entry.affine() for entry in read_entries(pipeline)]
    slopes, constants = zip(*affine, strict=True)
    return np.array(slopes), np.array(constants)


def _read_scaled_target(estimator: Any) -> tuple[Layers, type[nn.Module]]:
    layers, activation = _read(require_fitted(estimator, "regressor_"))
    if estimator.transformer is not None:
        scalings = read_scalings(estimator.transformer_)
        factor = np.array([scaling.factor / scaling.divisor for scaling in scalings])
        shift = np.array([scaling.of(0.0) for scaling in scalings])
        weight, bias = layers[-1]
        layers[-1] = weight / factor[:, None], (bias - shift) / factor
    return layers, activation
