"""The numbers that the moving figures show are those that the library computes now."""

from __future__ import annotations

from bisect import bisect
from typing import Any

import numpy as np
import pytest

from ddmip_book.examples.hand_phase import quick_prox
from ddmip_book.examples.hand_steps import hand_prox
from ddmip_book.figures import moving
from ddmip_lib.problems import hand_sized
from tests.builders.multipliers import multiplier_path
from tools.moving_figures import FOLDER, PICTURES, stored


def assert_same(left: Any, right: Any, place: str = "") -> None:
    if isinstance(left, dict):
        assert set(left) == set(right), place
        for key in left:
            assert_same(left[key], right[key], f"{place}.{key}")
    elif isinstance(left, str):
        assert left == right, place
    elif isinstance(left, list) and left and isinstance(left[0], dict):
        for number, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{place}[{number}]")
    else:
        np.testing.assert_allclose(left, right, atol=1e-3, err_msg=place)


def test_the_committed_numbers_are_current() -> None:
    ours = moving.moving_data()
    committed = stored()
    runs = ours["algorithm-steps"].pop("runs"), committed["algorithm-steps"].pop("runs")  # type: ignore[attr-defined]
    assert_same(ours, committed)
    for mine, theirs in zip(*runs, strict=True):
        assert_same(mine, theirs, f"run with rho = {mine['rho']}")


def test_multiplier_path_is_the_method_of_multipliers() -> None:
    path = multiplier_path(rho=2.0, steps=40)
    assert path["x"][-1] == pytest.approx(0.5)
    assert path["lam"][-1] == pytest.approx(1.5)
    errors = np.abs(np.array(path["lam"][:10]) - 1.5)
    np.testing.assert_allclose(errors[1:] / errors[:-1], 1 / 3)


def test_phases_of_the_hand_sized_example() -> None:
    """The quick step is the exact one, and the three phases have the borders 17/3 and 22/3."""
    rng = np.random.default_rng(0)
    for v, rho in zip(rng.uniform(-2, 3, (30, 2)), rng.uniform(0.3, 12, 30), strict=True):
        np.testing.assert_allclose(quick_prox(v, rho), hand_prox(v, rho).astype(float), atol=1e-9)
    found, borders = moving.endings()
    np.testing.assert_allclose(borders, [17 / 3, 22 / 3], atol=1e-6)
    for end in found:
        wanted = ("cycle", "optimum", "frozen")[bisect([17 / 3, 22 / 3], end.rho)]
        assert end.kind == wanted, end.rho
        assert (hand_sized_optimum() in end.costs) == (wanted != "frozen"), (
            "a cycle visits the optimum"
        )


def test_root_bound_is_a_bound_and_falls_with_looseness() -> None:
    bounds = [moving.root_bound(t) for t in moving.LOOSENESS]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] < 0.5, "the relaxation of the hand-sized model is not exact"


def test_stepping_multiplies_prices_by_the_disagreement() -> None:
    run = moving.stepping(3.0)
    x, u, lam = (np.array(run[name]) for name in ("x", "u", "lam"))
    before = np.vstack([np.zeros(2), lam[:-1]])
    np.testing.assert_allclose(lam, before + 3.0 * (u - x), atol=1e-3)
    assert min(run["total"]) == hand_sized_optimum()


def hand_sized_optimum() -> float:
    corners = np.array([[a, b] for a in (0, 1) for b in (0, 1)])
    return float(moving.landscape(hand_sized(), corners).min())


def test_every_moving_figure_has_its_script_and_picture() -> None:
    for name, draw in PICTURES.items():
        assert (FOLDER / f"{name}.js").exists()
        assert (FOLDER / f"{name}.svg").exists()
        assert draw().get_lines()
