"""Pipelines of scikit-learn with categories: their columns, and their steps as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model

from ddmip_lib import Enumeration, NeuralMIP
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.predictors import from_sklearn
from ddmip_lib.predictors.black_box import BlackBox
from ddmip_lib.predictors.columns import Column, InputColumns
from ddmip_lib.predictors.estimators import BlackBoxWarning, TreeModel, read_estimator

GENERATOR = np.random.default_rng(1)
JOBS = ("civil", "none", "self")


def table(count: int = 80) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "income": GENERATOR.lognormal(8, 0.4, count),
            "job": GENERATOR.choice(JOBS, count),
            "age": GENERATOR.integers(18, 80, count),
        }
    )


def target(data: Any) -> Any:
    return (data.income > 3000) + 0.5 * (data.job == "civil") - 0.01 * data.age


def encoded(data: Any) -> np.ndarray:
    jobs = [(data.job == job).to_numpy(float) for job in JOBS]
    return np.column_stack([data.income, *jobs, data.age])


def fitted(last: Any, encoder: Any, data: Any, y: Any) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    steps = [("n", numbers, ["income"]), ("c", encoder, ["job"])]
    return make_pipeline(ColumnTransformer(steps, remainder="passthrough"), last).fit(data, y)


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("sklearn")


@pytest.mark.parametrize("options", [{}, {"drop": "first"}, None])
def test_pipelines_with_categories_equal_their_networks(options: dict[str, str] | None) -> None:
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    data = table()
    encoder = OrdinalEncoder() if options is None else OneHotEncoder(**options)
    model = fitted(Ridge(), encoder, data, target(data))
    net = from_sklearn(model)(torch.tensor(encoded(data))).numpy()
    np.testing.assert_allclose(net[:, 0], model.predict(data), rtol=1e-9, atol=1e-9)


def test_trees_behind_an_encoder() -> None:
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
    from sklearn.tree import DecisionTreeRegressor

    data = table()
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    model = fitted(tree, OneHotEncoder(), data, target(data))
    net, columns = read_estimator(model)
    assert isinstance(net, TreeModel)
    x = encoded(data)
    np.testing.assert_array_equal(net.ensemble.predict(x)[:, 0], model.predict(data))
    np.testing.assert_array_equal(net(torch.tensor(x))[:, 0].numpy(), model.predict(data))
    assert [column.width for column in columns.columns] == [1, 3, 1]
    model = fitted(tree, OrdinalEncoder(), data, target(data))
    with pytest.warns(BlackBoxWarning, match="codes of categories"):
        net = read_estimator(model).net
    np.testing.assert_array_equal(net(torch.tensor(x))[:, 0].numpy(), model.predict(data))


def test_other_estimators_are_black_boxes() -> None:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.svm import SVC

    x = GENERATOR.normal(size=(60, 2))
    y = x[:, 0] > x[:, 1]
    for model in (KNeighborsClassifier(), SVC()):
        with pytest.warns(BlackBoxWarning, match=type(model).__name__):
            net = read_estimator(model.fit(x, y)).net
        assert isinstance(net, BlackBox)
        np.testing.assert_array_equal(net(torch.tensor(x))[:, 0].numpy() > 0, model.predict(x))
    with pytest.raises(UnsupportedNetworkError, match="not fitted"):
        read_estimator(KNeighborsRegressor())


def test_inputs_by_columns() -> None:
    columns = InputColumns([Column("size"), Column("job", JOBS)], named=True)
    by_list = columns.matrix({"size": [1, 2], "job": [[0, 1, 0], [1, 0, 0]]})
    np.testing.assert_array_equal(by_list, [[1, 0, 1, 0], [2, 1, 0, 0]])
    fixed = columns.matrix({"job": "self", "size": [1, 2]})
    np.testing.assert_array_equal(fixed, [[1, 0, 0, 1], [2, 0, 0, 1]])
    each = columns.matrix({"job": ["none", "civil"], "size": 3})
    np.testing.assert_array_equal(each, [[3, 0, 1, 0], [3, 1, 0, 0]])
    some = columns.matrix({"size": 4, "job": {"civil": 1}})
    np.testing.assert_array_equal(some, [[4, 1, 0, 0]])
    assert columns.matrix([[1, 2]]) == [[1, 2]]
    for inputs, message in (
        ({"size": 1}, "fitted to"),
        ({"size": 1, "job": "king"}, "no category 'king'"),
        ({"size": 1, "job": {"king": 1}}, "no category 'king'"),
        ({"size": [1, 2, 3], "job": ["none", "civil"]}, "one for each sample"),
        ({"size": 1, "job": [0, 1]}, "one binary for each"),
    ):
        with pytest.raises(ProblemError, match=message):
            columns.matrix(inputs)


def test_a_category_is_chosen() -> None:
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import OneHotEncoder

    data = table()
    pipeline = fitted(Ridge(), OneHotEncoder(), data, target(data))
    model = Model()
    job = {name: model.addVar(vtype="B", name=name) for name in ("none", "self")}
    age = model.addVar(vtype="I", lb=20, ub=22, name="age")
    problem = NeuralMIP(model)
    inputs = {"income": 3000.0, "job": job, "age": age}
    predictor = problem.add_predictor(pipeline, inputs)
    model.setObjective(predictor.outputs[0, 0], "maximize")
    solution = Enumeration().solve(problem)
    frame = data.iloc[:6].assign(income=3000.0)
    frame["job"] = ["none"] * 3 + ["self"] * 3
    frame["age"] = [20, 21, 22] * 2
    values = pipeline.predict(frame)
    assert solution.objective == pytest.approx(values.max(), rel=1e-6)
    assert solution[job[frame.job.iloc[values.argmax()]]] == 1
    continuous = model.addVar(ub=1, name="share")
    with pytest.raises(ProblemError, match="share stands for a category"):
        problem.add_predictor(pipeline, inputs | {"job": {"none": continuous}})
