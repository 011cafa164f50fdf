"""Networks read from scikit-learn say what the estimators say."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model

from ddmip_book.networks import describe
from ddmip_lib import BigM, NeuralMIP
from ddmip_lib.bounds import network_graph
from ddmip_lib.errors import UnsupportedNetworkError
from ddmip_lib.predictors import from_sklearn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) * [1.0, 5.0, 0.1] + [0.0, 10.0, -1.0]
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] - 4 * X[:, 2] ** 2


def said(estimator: Any, x: np.ndarray = X) -> np.ndarray:
    return from_sklearn(estimator)(torch.tensor(x)).numpy()


class TestWithSklearn:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("sklearn")
        warnings.simplefilter("ignore")  # that few iterations do not converge

    @pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
    @pytest.mark.parametrize("targets", [Y, np.stack([Y, -Y], axis=1)], ids=["one", "two"])
    def test_mlp_regressors(self, activation: str, targets: np.ndarray) -> None:
        from sklearn.neural_network import MLPRegressor

        model = MLPRegressor(
            hidden_layer_sizes=(5, 4), activation=activation, max_iter=20, random_state=0
        ).fit(X, targets)
        np.testing.assert_allclose(said(model), model.predict(X).reshape(len(X), -1), atol=1e-9)

    def test_scalers_and_targets_are_folded_in(self) -> None:
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.linear_model import LinearRegression, Ridge
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

        net = MLPRegressor(hidden_layer_sizes=(6,), max_iter=50, random_state=0)
        for model in (
            make_pipeline(StandardScaler(), net),
            make_pipeline(
                MinMaxScaler((-1, 2)),
                StandardScaler(with_mean=False),
                MaxAbsScaler(),
                "passthrough",
                net,
            ),
            make_pipeline(StandardScaler(with_std=False), make_pipeline(MinMaxScaler(), Ridge())),
            TransformedTargetRegressor(
                make_pipeline(StandardScaler(), net), transformer=StandardScaler()
            ),
            make_pipeline(
                StandardScaler(), TransformedTargetRegressor(net, transformer=MinMaxScaler())
            ),
            TransformedTargetRegressor(LinearRegression()),
            LinearRegression(fit_intercept=False),
        ):
            model.fit(X, Y)
            np.testing.assert_allclose(said(model)[:, 0], model.predict(X), rtol=1e-9, atol=1e-9)
        assert (
            describe(from_sklearn(make_pipeline(StandardScaler(), net).fit(X, Y)))
            == "1x6 ReLU MLP, 31 parameters"
        )

    def test_classifiers_become_logits(self) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        two = np.where(Y.mean() < Y, "yes", "no")
        three = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
        for last in (
            MLPClassifier(hidden_layer_sizes=(5,), max_iter=50, random_state=0),
            LogisticRegression(),
        ):
            model = make_pipeline(StandardScaler(), last).fit(X, two)
            logits = said(model)
            assert logits.shape == (len(X), 1)
            np.testing.assert_array_equal(
                model.classes_[(logits[:, 0] > 0).astype(int)], model.predict(X)
            )
            np.testing.assert_allclose(
                1 / (1 + np.exp(-logits[:, 0])), model.predict_proba(X)[:, 1], atol=1e-9
            )
            model.fit(X, three)
            shares = np.exp(said(model))
            np.testing.assert_allclose(
                shares / shares.sum(1, keepdims=True), model.predict_proba(X), atol=1e-9
            )

    @pytest.mark.parametrize("interaction_only", [False, True])
    def test_polynomial_features_between_scalers(self, interaction_only: bool) -> None:
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler

        features = PolynomialFeatures(3, interaction_only=interaction_only)
        model = make_pipeline(StandardScaler(), features, StandardScaler(), Ridge()).fit(X, Y)
        np.testing.assert_allclose(said(model).ravel(), np.ravel(model.predict(X)), atol=1e-9)
        x = torch.tensor(X[:5], dtype=torch.float64)
        x[0, 0] = 0.0
        assert torch.autograd.gradcheck(from_sklearn(model), x.requires_grad_())

    def test_what_is_no_network_is_refused_by_name(self) -> None:
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.linear_model import LinearRegression
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler, SplineTransformer, StandardScaler
        from sklearn.tree import DecisionTreeRegressor

        for model, message in (
            (DecisionTreeRegressor().fit(X, Y), "DecisionTreeRegressor is no network.*black_box"),
            (
                make_pipeline(SplineTransformer(), LinearRegression()).fit(X, Y),
                "SplineTransformer cannot be folded",
            ),
            (
                make_pipeline(MinMaxScaler(clip=True), LinearRegression()).fit(X, Y),
                "MinMaxScaler cannot be folded.*without clip",
            ),
            (MLPRegressor(), "MLPRegressor is not fitted"),
            (make_pipeline(StandardScaler(), LinearRegression()), "is not fitted"),
            (
                TransformedTargetRegressor(
                    LinearRegression(), func=np.arcsinh, inverse_func=np.sinh
                ).fit(X, Y),
                "TransformedTargetRegressor is no network",
            ),
        ):
            with pytest.raises(UnsupportedNetworkError, match=message):
                from_sklearn(model)

    def test_it_is_solved_exactly(self) -> None:
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(
            StandardScaler(), MLPRegressor(hidden_layer_sizes=(4,), max_iter=200, random_state=0)
        ).fit(X, Y)
        mip = Model()
        mip.hideOutput()
        x = [
            mip.addVar(f"x{j}", lb=low, ub=high)
            for j, (low, high) in enumerate(zip(X.min(0), X.max(0), strict=True))
        ]
        problem = NeuralMIP(mip)
        y = problem.add_predictor(from_sklearn(model), x).outputs
        mip.setObjective(y[0, 0], "maximize")
        solution = BigM().solve(problem)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(model.predict(np.array([solution[x]]))[0])
        assert solution.objective > model.predict(X).max() - 1e-6


def test_without_sklearn_it_goes_by_names() -> None:
    Fitted = type("LogisticRegression", (SimpleNamespace,), {})
    net = from_sklearn(Fitted(coef_=np.array([[1.0, -2.0]]), intercept_=np.array([0.5])))
    assert net(torch.tensor([[1.0, 1.0]]).double()).item() == -0.5
    assert network_graph(net, 2).n_in == 2
    with pytest.raises(UnsupportedNetworkError, match="int is no network"):
        from_sklearn(3)
