"""Fitted trees, forests and boosted trees of scikit-learn, XGBoost and LightGBM as arrays.

Estimators are recognised by the names of their classes; none of the libraries is imported. Each
library compares in its own way: scikit-learn and XGBoost round inputs to float32, XGBoost sends
the threshold itself to the right, LightGBM takes tiny inputs for 0.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from ..errors import UnsupportedNetworkError
from .trees import Tree

TINY = float(np.float32(1e-35))
"""Absolute value up to which LightGBM takes an input for 0."""


class FittedTrees(NamedTuple):
    """Trees whose sum, plus a constant, is what a library predicts.

    Attributes
    ----------
    trees
        The trees, with the thresholds of the library.
    goes_left
        Whether inputs go to the left of thresholds.
    epsilon
        Relative rounding error of the library's sums.
    """

    trees: list[Tree]
    goes_left: Callable[[ndarray, ndarray], ndarray]
    epsilon: float = np.finfo(float).eps


def read_trees(estimator: Any) -> FittedTrees | None:
    """Read the trees of a fitted estimator.

    Parameters
    ----------
    estimator
        A tree, a forest or boosted trees of one of the three libraries.

    Returns
    -------
    FittedTrees or None
        None if the estimator is of another kind.

    Raises
    ------
    UnsupportedNetworkError
        If a split does not compare one input with a threshold.
    """
    name = type(estimator).__name__
    library = type(estimator).__module__.partition(".")[0]
    if library == "xgboost":
        return _read_xgboost(estimator)
    if library == "lightgbm":
        return read_lightgbm_model(getattr(estimator, "booster_", estimator).dump_model())
    if library != "sklearn":
        return None
    if name.startswith("HistGradientBoosting"):
        return _read_histogram_trees(estimator)
    if name.startswith("GradientBoosting"):
        return FittedTrees(list(_boosted_trees(estimator)), _after_float32)
    if name.startswith(("RandomForest", "ExtraTrees")):
        members = estimator.estimators_
    elif name.startswith(("DecisionTree", "ExtraTree")):
        members = [estimator]
    else:
        return None
    if getattr(members[0], "n_outputs_", 1) > 1 and hasattr(members[0], "classes_"):
        raise UnsupportedNetworkError(f"{name} has several classes for each sample")
    return FittedTrees([_average_tree(each, len(members)) for each in members], _after_float32)


def _after_float32(x: ndarray, threshold: ndarray) -> ndarray:
    return x.astype(np.float32) <= threshold


def _below_float32(x: ndarray, threshold: ndarray) -> ndarray:
    return x.astype(np.float32) < threshold


def _without_tiny(x: ndarray, threshold: ndarray) -> ndarray:
    return np.where(np.abs(x) <= TINY, 0.0, x) <= threshold


def _average_tree(estimator: Any, count: int) -> Tree:
    """A tree of a forest: values, or fractions of the classes, of two their difference."""
    value = estimator.tree_.value
    if hasattr(estimator, "classes_"):
        value = value[:, 0] / value[:, 0].sum(axis=1, keepdims=True)
        if value.shape[1] == 2:
            value = value[:, 1:] - value[:, :1]
    else:
        value = value[:, :, 0]
    return _sklearn_tree(estimator.tree_, value / count)


def _sklearn_tree(tree: Any, value: ndarray) -> Tree:
    feature = np.where(tree.children_left < 0, -1, tree.feature)
    return Tree(feature, tree.threshold, tree.children_left, tree.children_right, value)


def _boosted_trees(estimator: Any) -> Iterator[Tree]:
    stages = estimator.estimators_
    for (_, output), member in np.ndenumerate(stages):
        value = estimator.learning_rate * member.tree_.value[:, :, 0]
        yield _sklearn_tree(member.tree_, _in_column(value[:, 0], output, stages.shape[1]))


def _in_column(value: ndarray, output: int, count: int) -> ndarray:
    """Leaf values of one output among several."""
    columns = np.zeros((len(value), count))
    columns[:, output] = value
    return columns


def _read_histogram_trees(estimator: Any) -> FittedTrees:
    trees = []
    for stage in estimator._predictors:
        for output, member in enumerate(stage):
            nodes = member.nodes
            if nodes["is_categorical"].any():
                raise UnsupportedNetworkError("its trees split by categories")
            feature = np.where(nodes["is_leaf"], -1, nodes["feature_idx"])
            children = nodes["left"].astype(int), nodes["right"].astype(int)
            value = _in_column(nodes["value"], output, len(stage))
            trees.append(Tree(feature, nodes["num_threshold"].copy(), *children, value))
    return FittedTrees(trees, np.less_equal)


def _read_xgboost(estimator: Any) -> FittedTrees:
    booster = estimator
    if hasattr(estimator, "get_booster"):
        booster = estimator.get_booster()
        if booster.attr("best_iteration") is not None:  # it stopped early
            booster = booster[: estimator.best_iteration + 1]
    return read_xgboost_model(json.loads(booster.save_raw("json")))


def read_xgboost_model(model: dict[str, Any]) -> FittedTrees:
    """Read the trees of a model that XGBoost saved as JSON.

    Parameters
    ----------
    model
        The parsed file.

    Raises
    ------
    UnsupportedNetworkError
        If the model has no trees, splits by categories, or has leaves with several outputs.
    """
    learner = model["learner"]
    booster = learner["gradient_booster"]
    stored = booster.get("gbtree", booster).get("model")
    if stored is None:
        raise UnsupportedNetworkError("the booster has no trees")
    sizes = learner["learner_model_param"]
    outputs = max(1, int(sizes["num_class"]), int(sizes["num_target"]))
    weights = booster.get("weight_drop", np.ones(len(stored["trees"])))
    parts = zip(stored["trees"], weights, stored["tree_info"], strict=True)
    trees = [_xgboost_tree(each, weight, output, outputs) for each, weight, output in parts]
    return FittedTrees(trees, _below_float32, float(np.finfo(np.float32).eps / 2))


def _xgboost_tree(stored: dict[str, Any], weight: float, output: int, outputs: int) -> Tree:
    """A tree of one output; the thresholds that are stored are, at leaves, their values."""
    if stored["tree_param"]["size_leaf_vector"] not in ("0", "1"):
        raise UnsupportedNetworkError("a leaf has several outputs")
    if any(stored["split_type"]):
        raise UnsupportedNetworkError("its trees split by categories")
    left = np.array(stored["left_children"])
    feature = np.where(left < 0, -1, stored["split_indices"])
    condition = np.array(stored["split_conditions"], dtype=np.float32).astype(float)
    value = _in_column(weight * condition, output, outputs)
    return Tree(feature, condition, left, np.array(stored["right_children"]), value)


def read_lightgbm_model(model: dict[str, Any]) -> FittedTrees:
    """Read the trees of what ``Booster.dump_model`` of LightGBM returns.

    Parameters
    ----------
    model
        The model.

    Raises
    ------
    UnsupportedNetworkError
        If a split compares categories, or takes 0 for a missing value.
    """
    outputs = model["num_tree_per_iteration"]
    roots = model["tree_info"]
    scale = outputs / len(roots) if model["average_output"] else 1.0
    trees = [
        _lightgbm_tree(root["tree_structure"], scale, number % outputs, outputs)
        for number, root in enumerate(roots)
    ]
    return FittedTrees(trees, _without_tiny)


def _lightgbm_tree(root: dict[str, Any], scale: float, output: int, outputs: int) -> Tree:
    """A tree of one output, whose nodes are numbered level by level."""
    nodes = [root]
    table: list[tuple[int, float, int, float]] = []
    for node in nodes:  # grows as it is read
        if "split_feature" not in node:
            table.append((-1, 0.0, 0, node["leaf_value"]))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise UnsupportedNetworkError("its trees split by categories, or take 0 for missing")
        table.append((node["split_feature"], node["threshold"], len(nodes), 0.0))
        nodes += [node["left_child"], node["right_child"]]
    feature, threshold, first_child, value = np.array(table).T
    left = first_child.astype(int)
    value = _in_column(scale * value, output, outputs)
    return Tree(feature.astype(int), threshold, left, left + 1, value)
