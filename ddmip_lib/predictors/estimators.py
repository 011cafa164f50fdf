"""Fitted estimators as predictors: networks, ensembles of trees, or black boxes with a warning."""

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from torch import nn

from ..errors import UnsupportedNetworkError
from .black_box import BlackBox
from .columns import Entry, InputColumns, read_columns, read_entries, require_fitted, split_steps
from .scikit import from_sklearn
from .tree_readers import FittedTrees, read_trees
from .trees import Tree, TreeEnsemble, last_left, leaf_ranges

COMPARED_SAMPLES = 64
"""Number of samples at which the trees that were read are compared with their library."""
MARGIN_OPTIONS = {"xgboost": {"output_margin": True}, "lightgbm": {"raw_score": True}}
"""Arguments with which ``predict`` returns the sum of trees of a classifier."""
WIDTH = 0.5
"""Step of the differences that stand for derivatives of trees and black boxes."""


class BlackBoxWarning(UserWarning):
    """An estimator is evaluated as a black box: without bounds and without exact derivatives."""


class TreeModel(BlackBox):
    """Trees of a library, which evaluates them, together with the same trees as arrays.

    Parameters
    ----------
    function : callable
        The values that the library predicts.
    ensemble : TreeEnsemble
        The trees.
    """

    def __init__(self, function: Callable[[ndarray], ndarray], ensemble: TreeEnsemble) -> None:
        super().__init__(function, len(ensemble.intercept), WIDTH)
        self.ensemble = ensemble


class FittedNetwork(NamedTuple):
    """An estimator as a network.

    Attributes
    ----------
    net
        The network.
    columns
        What its inputs are.
    """

    net: nn.Module
    columns: InputColumns


def read_estimator(estimator: Any) -> FittedNetwork:
    """Convert a fitted estimator to a network.

    Linear models and networks become layers, trees a `TreeModel`, everything else a black box.

    Parameters
    ----------
    estimator
        An estimator of scikit-learn, XGBoost or LightGBM, or any with a method ``predict``.

    Returns
    -------
    FittedNetwork
        The network, with the columns that the estimator was fitted to.

    Raises
    ------
    UnsupportedNetworkError
        If the estimator is not fitted.

    Warns
    -----
    BlackBoxWarning
        If it becomes a black box; the warning says why.
    """
    _require_fitted(estimator)
    columns = read_columns(estimator)
    net: nn.Module
    try:
        net = from_sklearn(estimator)
    except UnsupportedNetworkError as no_network:
        function = _Values(estimator, columns)
        try:
            net = _read_tree_model(estimator, function)
        except UnsupportedNetworkError as no_trees:
            reason = str(no_trees) or str(no_network).partition(":")[0]
            net = _as_black_box(estimator, function, reason)
    vars(net)["original_name"] = type(split_steps(estimator)[1]).__name__
    return FittedNetwork(net, columns)


def _require_fitted(estimator: Any) -> None:
    """Raise an error if an estimator of scikit-learn is not fitted."""
    is_fitted = getattr(estimator, "__sklearn_is_fitted__", None)
    if is_fitted is None and hasattr(estimator, "get_params"):
        fitted = any(name.endswith("_") and name[0] != "_" for name in vars(estimator))
    else:
        fitted = is_fitted is None or is_fitted()
    if not fitted:
        require_fitted(estimator, "a field that fit() sets")


class _Values:
    """What an estimator predicts, of a classifier of two classes a logit.

    Parameters
    ----------
    estimator
        The estimator.
    columns
        Its input columns.
    """

    def __init__(self, estimator: Any, columns: InputColumns) -> None:
        self.estimator = estimator
        self.columns = columns
        self.classes: Any = getattr(estimator, "classes_", None)
        self.margin = self._margin()
        self.__qualname__ = type(estimator).__name__

    def __call__(self, x: ndarray) -> ndarray:
        """Return the values at samples of shape (n, p), as (n, q)."""
        data = self.columns.data(x)
        with warnings.catch_warnings():  # that samples have no names of columns
            warnings.simplefilter("ignore", UserWarning)
            raw = np.asarray(self.margin(data), dtype=float).reshape(len(x), -1)
            if self.classes is None or len(self.classes) != 2:
                return raw
            if raw.shape[1] == 2:
                raw = raw[:, 1:] - raw[:, :1]
            chosen = self._is_second(data)[:, None]
        smallest = np.finfo(float).tiny
        return np.where(chosen, np.maximum(raw, smallest), np.minimum(raw, 0.0))

    def _margin(self) -> Callable[[Any], Any]:
        """The function whose values are linear in the leaves of trees, if any is."""
        estimator = self.estimator
        last = split_steps(estimator)[1]
        library = type(last).__module__.partition(".")[0]
        if type(last).__name__ == "Booster":
            return _booster_values(last, library)
        if self.classes is None:
            return estimator.predict
        if library in MARGIN_OPTIONS:
            return partial(estimator.predict, **MARGIN_OPTIONS[library])
        for name in ("decision_function", "predict_proba"):
            if hasattr(estimator, name):
                return getattr(estimator, name)
        return self._signs

    def _is_second(self, data: Any) -> ndarray:
        """Whether the second class is predicted."""
        return np.asarray(self.estimator.predict(data) == self.classes[1])

    def _signs(self, data: Any) -> ndarray:
        """1 for the second class, -1 for the first one."""
        return np.where(self._is_second(data), 1.0, -1.0)


def _booster_values(booster: Any, library: str) -> Callable[[Any], Any]:
    """Predictions of a booster, or margins if it is a classifier."""
    if library == "lightgbm":
        is_classifier = booster.dump_model()["objective"].startswith(("binary", "multiclass"))
        return partial(booster.predict, raw_score=is_classifier)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    kind = "margin" if objective.startswith(("binary:", "multi:")) else "value"
    return partial(booster.inplace_predict, predict_type=kind)


def _as_black_box(estimator: Any, function: _Values, reason: str) -> BlackBox:
    outputs = function(np.zeros((1, function.columns.width))).shape[1]
    net = BlackBox(function, outputs, WIDTH).eval()
    net.reason = f"{type(estimator).__name__} is evaluated as a black box: {reason}"
    warnings.warn(
        f"{net.reason}. Its values are exact, but there is no bound, and derivatives are"
        " differences.",
        BlackBoxWarning,
        stacklevel=4,
    )
    return net


def _read_tree_model(estimator: Any, function: _Values) -> TreeModel:
    """The trees at the end of a pipeline, with thresholds of the pipeline's inputs.

    The constant of their sum is such that they agree with the library.
    """
    fitted = read_trees(split_steps(estimator)[1])
    if fitted is None:
        raise UnsupportedNetworkError
    entries = read_entries(estimator)
    trees = [_in_inputs(tree, fitted, entries) for tree in fitted.trees]
    x = _compared_samples(trees, function.columns)
    nothing = np.zeros(trees[0].value.shape[1])
    differences = function(x) - TreeEnsemble(trees, nothing, nothing).predict(x)
    intercept = np.median(differences, axis=0)
    ensemble = TreeEnsemble(trees, intercept, _rounding(trees, intercept, fitted.epsilon))
    if (np.abs(differences - intercept) > ensemble.room).any():
        raise UnsupportedNetworkError("what it predicts is not the sum of its trees")
    return TreeModel(function, ensemble).eval()


def _in_inputs(tree: Tree, fitted: FittedTrees, entries: list[Entry]) -> Tree:
    """A tree whose nodes compare inputs of the pipeline with the largest double that goes left."""
    feature = tree.feature.copy()
    threshold = np.zeros(len(feature))
    for split in np.unique(feature[feature >= 0]):
        here = np.flatnonzero(tree.feature == split)
        entry = entries[split]
        (inputs,) = np.nonzero(entry.source[0])
        if len(inputs) != 1 or entry.source[0, inputs[0]] != 1:
            raise UnsupportedNetworkError("its trees split by codes of categories")
        feature[here] = inputs[0]
        threshold[here] = _threshold_of_input(tree.threshold[here], fitted, entry)
    return tree._replace(feature=feature, threshold=threshold)


def _threshold_of_input(threshold: ndarray, fitted: FittedTrees, entry: Entry) -> ndarray:
    """The largest double that goes left at each threshold of a scaled input."""
    return last_left(lambda x: fitted.goes_left(entry.scaled(x), threshold), len(threshold))


def _compared_samples(trees: list[Tree], columns: InputColumns) -> ndarray:
    """Samples whose inputs lie on thresholds or one double beside them."""
    rng = np.random.default_rng(0)
    x = np.zeros((COMPARED_SAMPLES, columns.width))
    for j in range(columns.width):
        thresholds = np.concatenate([tree.threshold[tree.feature == j] for tree in trees])
        if len(thresholds):
            last = rng.choice(thresholds, COMPARED_SAMPLES)
            x[:, j] = np.where(rng.random(len(x)) < 0.5, last, np.nextafter(last, np.inf))
    for chosen in columns.choices():
        categories = np.eye(chosen.stop - chosen.start)
        x[:, chosen] = categories[rng.integers(len(categories), size=len(x))]
    return x


def _rounding(trees: list[Tree], intercept: ndarray, epsilon: float) -> ndarray:
    """A bound of the rounding errors of sums, of the library's and of the one here."""
    sums = np.cumsum(leaf_ranges(trees), axis=1)
    partial_sums = np.abs(intercept) + np.abs(sums).max(axis=0)
    return epsilon * (partial_sums.sum(axis=0) + 4 * partial_sums.max(axis=0))
