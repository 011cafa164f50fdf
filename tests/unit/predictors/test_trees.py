"""Trees as arrays evaluate as the libraries do, on thresholds and one double beside them too."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib.errors import UnsupportedNetworkError
from ddmip_lib.predictors.estimators import TreeModel, read_estimator
from ddmip_lib.predictors.tree_readers import read_lightgbm_model, read_xgboost_model
from ddmip_lib.predictors.trees import Tree, last_left, splits_in

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(150, 3))
TARGETS = FEATURES[:, 0] ** 2 + FEATURES[:, 1]
TWO = np.where(TARGETS > 0.5, "yes", "no")
THREE = np.digitize(TARGETS, [0.0, 1.0])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)


def on_thresholds(net: TreeModel) -> np.ndarray:
    """Samples with one input on a threshold, or one double above or below it."""
    samples = [FEATURES]
    for j in range(FEATURES.shape[1]):
        last = np.concatenate([t.threshold[t.feature == j] for t in net.ensemble.trees])[:60]
        for values in (last, np.nextafter(last, np.inf), np.nextafter(last, -np.inf)):
            moved = FEATURES[RNG.integers(len(FEATURES), size=len(values))]
            moved[:, j] = values
            samples.append(moved)
    return np.concatenate(samples)


def assert_equal_to_library(estimator: Any) -> TreeModel:
    net = read_estimator(estimator).net
    assert isinstance(net, TreeModel)
    x = on_thresholds(net)
    difference = np.abs(net(torch.tensor(x)).numpy() - net.ensemble.predict(x))
    assert (difference <= net.ensemble.room).all()
    return net


@given(NUMBERS, st.booleans())
def test_the_largest_double_that_goes_left(threshold: float, strict: bool) -> None:
    given_threshold = np.array([threshold])

    def goes_left(x: np.ndarray) -> np.ndarray:
        rounded = x.astype(np.float32)
        return rounded < given_threshold if strict else rounded <= given_threshold

    last = last_left(goes_left, 1)
    assert goes_left(last).all()
    assert not goes_left(np.nextafter(last, np.inf)).any()


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 5))
def test_reachable_leaves_and_splits(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    inner = 2**depth - 1
    size = 2 ** (depth + 1) - 1
    nodes = np.arange(size)
    feature = np.where(nodes < inner, rng.integers(2, size=size), -1)
    tree = Tree(
        feature, rng.integers(4, size=size) * 1.0, 2 * nodes + 1, 2 * nodes + 2, nodes[:, None]
    )
    lower = rng.integers(3, size=2) * 1.0
    upper = lower + rng.integers(3, size=2)
    leaves, splits = splits_in(tree, lower, upper)
    axes = [
        np.union1d(np.arange(a, b + 0.25, 0.5), [a, b]) for a, b in zip(lower, upper, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    reached = tree.leaf_of(points)
    assert set(reached) == set(leaves)
    for split in splits:
        is_left = points[:, split.feature] <= split.threshold
        assert not np.isin(reached[is_left], split.right).any()
        assert not np.isin(reached[~is_left], split.left).any()


@pytest.mark.parametrize(
    "name",
    [
        "tree.DecisionTree",
        "tree.ExtraTree",
        "ensemble.RandomForest",
        "ensemble.ExtraTrees",
        "ensemble.GradientBoosting",
        "ensemble.HistGradientBoosting",
    ],
)
def test_trees_of_sklearn(name: str) -> None:
    module, _, kind = name.partition(".")
    library = pytest.importorskip(f"sklearn.{module}")
    size = {}
    if module == "ensemble":
        size = {"max_iter": 5} if kind.startswith("Hist") else {"n_estimators": 5}
    for suffix, targets in (("Regressor", TARGETS), ("Classifier", TWO), ("Classifier", THREE)):
        model = getattr(library, kind + suffix)(random_state=0, **size).fit(FEATURES, targets)
        net = assert_equal_to_library(model)
        predicted = model.predict(FEATURES)
        raw = net(torch.tensor(FEATURES)).numpy()
        if targets is TWO:
            np.testing.assert_array_equal(np.where(raw[:, 0] > 0, "yes", "no"), predicted)
        elif targets is THREE:
            np.testing.assert_array_equal(raw.argmax(axis=1), predicted)
        else:
            np.testing.assert_array_equal(raw[:, 0], predicted)


def test_scaled_and_several_outputs() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

    forest = ensemble.RandomForestRegressor(3, random_state=0)
    assert_equal_to_library(forest.fit(FEATURES, np.stack([TARGETS, -TARGETS], axis=1)))
    scaled = make_pipeline(StandardScaler(), MinMaxScaler((-1, 3)), RobustScaler(), forest)
    assert_equal_to_library(scaled.fit(1e3 * FEATURES + 7, TARGETS))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosted_trees_of_other_libraries(library: str) -> None:
    trees = pytest.importorskip(library)
    prefix = {"xgboost": "XGB", "lightgbm": "LGBM"}[library]
    quiet = {"verbosity": 0} if library == "xgboost" else {"verbose": -1}
    for suffix, targets in (
        ("Regressor", TARGETS),
        ("Classifier", TWO == "yes"),
        ("Classifier", THREE),
    ):
        model = getattr(trees, prefix + suffix)(n_estimators=6, **quiet).fit(FEATURES, targets)
        net = assert_equal_to_library(model)
        if targets.dtype == bool:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = model.predict(FEATURES)
            np.testing.assert_array_equal(net(torch.tensor(FEATURES))[:, 0].numpy() > 0, predicted)


XGBOOST_TREE = {
    "left_children": [1, -1, -1],
    "right_children": [2, -1, -1],
    "split_indices": [1, 0, 0],
    "split_conditions": [0.5, -2.0, 3.0],
    "split_type": [0, 0, 0],
    "tree_param": {"size_leaf_vector": "1"},
}


def xgboost_model(**changes: Any) -> dict[str, Any]:
    tree = XGBOOST_TREE | changes
    return {
        "learner": {
            "learner_model_param": {"num_class": "0", "num_target": "1"},
            "gradient_booster": {"model": {"trees": [tree, tree], "tree_info": [0, 0]}},
        }
    }


def test_a_model_of_xgboost_as_json() -> None:
    fitted = read_xgboost_model(json.loads(json.dumps(xgboost_model())))
    tree = fitted.trees[1]
    x = np.array([0.5, np.nextafter(np.float32(0.5), 0)])
    np.testing.assert_array_equal(fitted.goes_left(x, tree.threshold[[0, 0]]), [False, True])
    np.testing.assert_array_equal(tree.feature, [1, -1, -1])
    np.testing.assert_array_equal(tree.value[1:, 0], [-2.0, 3.0])
    with pytest.raises(UnsupportedNetworkError, match="categories"):
        read_xgboost_model(xgboost_model(split_type=[1, 0, 0]))


def test_a_model_of_lightgbm_as_json() -> None:
    split = {"split_feature": 2, "threshold": 0.0, "decision_type": "<=", "missing_type": "None"}
    root = split | {"left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 2.0}}
    model = {"num_tree_per_iteration": 1, "average_output": False}
    fitted = read_lightgbm_model(model | {"tree_info": [{"tree_structure": root}]})
    (tree,) = fitted.trees
    np.testing.assert_array_equal(tree.value[:, 0], [0.0, 1.0, 2.0])
    assert fitted.goes_left(np.array([1e-36]), np.array([0.0])).all()
    assert not fitted.goes_left(np.array([1e-34]), np.array([0.0])).any()
    other = {"tree_info": [{"tree_structure": root | {"decision_type": "=="}}]}
    with pytest.raises(UnsupportedNetworkError, match="categories"):
        read_lightgbm_model(model | other)
