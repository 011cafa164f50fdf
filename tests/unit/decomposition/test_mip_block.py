"""The MIP block: integer cuts, MILP against enumeration, QP against an optimality certificate."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from scipy.optimize import linprog

from ddmip_lib import NeuralMIP
from ddmip_lib.decomposition.mip_block import QPBlock, mip_block
from ddmip_lib.decomposition.paper_split import PaperSplit
from ddmip_lib.decomposition.scip_block import X_STEP_RELATIVE_GAP, MILPBlock, square_cuts
from ddmip_lib.errors import ProblemError
from tests.builders.instances import build, relu_net


def split_of(problem: NeuralMIP) -> PaperSplit:
    return PaperSplit(problem.instance())


class TestSquareCuts:
    @settings(deadline=None, max_examples=100)
    @given(st.integers(-40, 40), st.integers(1, 60))
    def test_exact_at_integers_and_above_between_them(self, low: int, width: int) -> None:
        cuts = np.array(square_cuts(low, low + width))
        assert len(cuts) == width
        grid = np.linspace(low, low + width, 16 * width + 1)
        # each cut is the chord of x^2 over [k, k + 1]: it touches at k and k + 1 and lies at most
        # 1/4 above between
        largest = (cuts[:, :1] * grid + cuts[:, 1:]).max(axis=0)
        integers = grid == np.round(grid)
        np.testing.assert_array_equal(largest[integers], grid[integers] ** 2)
        assert (largest[~integers] > grid[~integers] ** 2).all()
        assert (largest <= grid**2 + 0.25).all()


@dataclass
class Random:
    """min (c - lam)'x + rho/2 |x - u|^2 + e z under A (x, z) <= b: integers x, z, one continuous w
    among the x.
    """

    integers: list[np.ndarray]
    c: np.ndarray
    a: np.ndarray
    b: np.ndarray
    coupled: int
    problem: NeuralMIP

    def objective(self, v: np.ndarray, lam: np.ndarray, u: np.ndarray, rho: float) -> float:
        x = v[: self.coupled]
        return float(self.c @ v - lam @ x + 0.5 * rho * ((x - u) ** 2).sum())


def random_block(seed: int, continuous: bool) -> Random:
    """Coupled: two or three integers (binary, shifted, negative) and, if asked, one continuous; z:
    not coupled.
    """
    rng = np.random.default_rng(seed)
    boxes = [(0, 1), (-3, 2), (-5, -2), (2, 5), (0, 4)]
    chosen = [boxes[i] for i in rng.choice(len(boxes), size=int(rng.integers(2, 4)), replace=False)]
    model = Model()
    model.hideOutput()
    y = model.addVar("y", lb=None)
    x = [model.addVar(f"x{j}", vtype="I", lb=lo, ub=hi) for j, (lo, hi) in enumerate(chosen)]
    domains = [np.arange(lo, hi + 1) for lo, hi in chosen]
    if continuous:
        x.append(model.addVar("w", lb=-2.0, ub=3.0))
    z = model.addVar("z", vtype="I", lb=-2, ub=2)
    domains.append(np.arange(-2, 3))
    everything = [*x, z]
    c = rng.normal(size=len(everything))
    centre = [float(rng.choice(d)) for d in domains]
    if continuous:
        centre.insert(len(chosen), 0.5)
    a = rng.normal(size=(2, len(everything))).round(2)
    b = a @ np.array(centre) + rng.random(2)
    for row, side in zip(a, b, strict=True):
        model.addCons(sum(k * v for k, v in zip(row, everything, strict=True)) <= side)
    model.setObjective(sum(k * v for k, v in zip(c, everything, strict=True)) + y)
    problem = NeuralMIP(model)
    problem.add_predictor(relu_net(len(x), seed=seed), x, y)
    return Random(domains, c, a, b, len(x), problem)


def enumerate_block(
    r: Random, lam: np.ndarray, u: np.ndarray, rho: float, continuous: bool
) -> tuple[float, float]:
    """The smallest and the second smallest value over the integers, each with its best continuous
    value.
    """
    values = []
    for point in itertools.product(*r.integers):
        v = np.array(point, dtype=float)
        if continuous:
            at = r.coupled - 1
            v = np.insert(v, at, 0.0)
            room = r.b - r.a @ v
            slope = r.a[:, at]
            low = max([-2.0, *(room[slope < 0] / slope[slope < 0])])
            high = min([3.0, *(room[slope > 0] / slope[slope > 0])])
            if low > high:
                continue
            v[at] = np.clip(u[at] - (r.c[at] - lam[at]) / rho, low, high)
        if (r.a @ v <= r.b + 1e-9).all():
            values.append(r.objective(v, lam, u, rho))
    best, second = sorted([*values, np.inf, np.inf])[:2]
    return best, second


class TestMILPBlock:
    @pytest.mark.parametrize("continuous", [False, True])
    @pytest.mark.parametrize("seed", range(8))
    def test_agrees_with_enumeration_again_and_again(self, seed: int, continuous: bool) -> None:
        r = random_block(seed, continuous)
        split = split_of(r.problem)
        block = mip_block(split)
        assert isinstance(block, MILPBlock)
        position = {v.name: i for i, v in enumerate(r.problem.model.getVars())}
        names = (
            [f"x{j}" for j in range(len(r.integers) - 1)] + (["w"] if continuous else []) + ["z"]
        )
        order = [position[name] for name in names]
        slots = [list(split.coupled).index(at) for at in order[: r.coupled]]
        rng = np.random.default_rng(1000 + seed)
        for rho in (0.3, 2.0, 0.05, 20.0):
            lam = 2 * rng.normal(size=r.coupled)
            u = 3 * rng.normal(size=r.coupled)
            scattered_lam = np.empty(r.coupled)
            scattered_u = np.empty(r.coupled)
            scattered_lam[slots], scattered_u[slots] = lam, u
            result = block.solve(scattered_lam, scattered_u, np.full(scattered_u.size, rho))
            assert result.status == "solved"
            assert result.values is not None
            v = result.values[order]
            whole = np.ones(len(v), dtype=bool)
            whole[len(r.integers) - 1 : r.coupled] = False
            np.testing.assert_array_equal(v[whole], np.round(v[whole]))
            assert (r.a @ v <= r.b + 1e-6).all()
            best, second = enumerate_block(r, lam, u, rho, continuous)
            # SCIP may stop at a small gap, relative to an objective without the constant rho/2
            # |u|^2
            slack = X_STEP_RELATIVE_GAP * abs(best - 0.5 * rho * u @ u) + 1e-6
            # the epigraph of a continuous square is met to SCIP's feasibility tolerance
            assert r.objective(v, lam, u, rho) <= best + slack + (
                1e-4 * max(1.0, rho) if continuous else 0.0
            )
            assert best < second

    def test_integers_come_back_exactly_integer(self) -> None:
        built = build(relu_net(3), 3, vtype="I", low=-7, high=9)
        result = mip_block(split_of(built.problem)).solve(
            np.zeros(3), np.array([1.3, -2.2, 8.9]), np.ones(3)
        )
        assert result.values is not None
        np.testing.assert_array_equal(result.values[:3], [1.0, -2.0, 9.0])

    def test_bounds_between_integers(self) -> None:
        built = build(relu_net(2), 2, vtype="I", low=-1.5, high=2.5)
        block = mip_block(split_of(built.problem))
        for u, expected in (((-9.0, 9.0), [-1.0, 2.0]), ((0.6, -0.4), [1.0, 0.0])):
            result = block.solve(np.zeros(2), np.array(u), np.ones(2))
            assert result.values is not None
            np.testing.assert_array_equal(result.values[:2], expected)

    def test_rows_with_outputs_are_left_out(self) -> None:
        built = build(relu_net(2), 2, vtype="B")
        built.model.addCons(built.y[0, 0] + 10 * built.x.sum() <= -1000)
        result = mip_block(split_of(built.problem)).solve(np.zeros(2), np.ones(2), np.ones(2))
        assert result.values is not None
        np.testing.assert_array_equal(result.values[:2], [1.0, 1.0])

    def test_range_too_wide_for_cuts(self) -> None:
        built = build(relu_net(1), 1, vtype="I", low=0, high=5000)
        with pytest.raises(ProblemError, match="Tighten its bounds"):
            mip_block(split_of(built.problem))

    def test_past_deadline(self) -> None:
        built = build(relu_net(1), 1, vtype="B")
        result = mip_block(split_of(built.problem)).solve(
            np.zeros(1), np.zeros(1), np.ones(1), deadline=0.0
        )
        assert (result.values, result.status) == (None, "time_limit")


class TestQPBlock:
    @pytest.mark.parametrize("seed", range(15))
    def test_point_is_optimal(self, seed: int) -> None:
        """By convexity f(x) - min f <= max over the polytope of <grad f(x), x - y>, which
        is an LP.
        """
        rng = np.random.default_rng(seed)
        p = int(rng.integers(1, 5))
        extra = int(rng.integers(0, 3))
        model = Model()
        model.hideOutput()
        y = model.addVar("y", lb=None)
        x = [model.addVar(f"x{j}", lb=-2.0, ub=2.0) for j in range(p)]
        t = [model.addVar(f"t{j}", lb=-1.0, ub=4.0) for j in range(extra)]
        variables = [*x, *t]
        size = p + extra
        inside = rng.uniform(-1, 1, size)
        c = rng.normal(size=size)
        a = rng.normal(size=(int(rng.integers(0, 2)), size))
        g = rng.normal(size=(3, size))
        top = g @ inside + rng.random(3)
        bottom = g[:1] @ inside - rng.random(1)
        for row, side in zip(a, a @ inside, strict=True):
            model.addCons(sum(k * v for k, v in zip(row, variables, strict=True)) == side)
        for row, side in zip(g, top, strict=True):
            model.addCons(sum(k * v for k, v in zip(row, variables, strict=True)) <= side)
        model.addCons(sum(k * v for k, v in zip(g[0], variables, strict=True)) >= bottom[0])
        model.setObjective(y - sum(k * v for k, v in zip(c, variables, strict=True)), "maximize")
        problem = NeuralMIP(model)
        problem.add_predictor(relu_net(p, seed=seed), x, y)
        split = split_of(problem)
        block = mip_block(split)
        assert isinstance(block, QPBlock)
        names = [v.name for v in model.getVars()]
        order = [names.index(v.name) for v in variables]
        for rho in (0.1, 1.0, 30.0):
            lam = rng.normal(size=p)
            u = 2 * rng.normal(size=p)
            result = block.solve(lam, u, np.full(u.size, rho))
            assert result.values is not None
            v = result.values[order]
            slope = c.copy()
            slope[:p] += rho * (v[:p] - u) - lam
            polytope = {
                "A_ub": np.vstack([g, -g[:1]]),
                "b_ub": np.concatenate([top, -bottom]),
                "A_eq": a if len(a) else None,
                "b_eq": a @ inside if len(a) else None,
                "bounds": [(-2.0, 2.0)] * p + [(-1.0, 4.0)] * extra,
            }
            assert (polytope["A_ub"] @ v <= polytope["b_ub"] + 1e-7).all()
            np.testing.assert_allclose(a @ v, a @ inside, atol=1e-7)
            assert slope @ v - linprog(slope, **polytope).fun <= 1e-5

    def test_infeasible(self) -> None:
        built = build(relu_net(2), 2)
        built.model.addCons(built.x.sum() >= 3)
        result = mip_block(split_of(built.problem)).solve(np.zeros(2), np.zeros(2), np.ones(2))
        assert (result.values, result.status) == (None, "infeasible")


class TestUnboundedBlocks:
    """An objective without a bound over the MIP block is named, never mistaken for a point or for
    infeasibility.
    """

    @pytest.mark.parametrize("vtype", ["B", "C"])
    @pytest.mark.parametrize("rows", [False, True])
    def test_is_refused(self, vtype: str, rows: bool) -> None:
        built = build(relu_net(2), 2, vtype=vtype)
        z = built.model.addVar("z", lb=0, ub=None)
        w = built.model.addVar("w", lb=0, ub=None)
        if rows:
            built.model.addCons(z - w <= built.x[0, 0])
        built.model.setObjective(built.y.sum() - z)
        with pytest.raises(ProblemError, match="unbounded"):
            mip_block(split_of(built.problem))
