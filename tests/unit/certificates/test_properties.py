"""The mathematics under certificates: every bound against a linear program, an exact model or a
fine grid, which know nothing of how it was found.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyscipopt import Model, quicksum
from scipy.optimize import linprog
from torch import Tensor

from ddmip_book.examples.embed import embed
from ddmip_lib import BigM
from ddmip_lib.bounds import Ball, Box, Graph, crown, network_graph, optimised_crown
from ddmip_lib.certificates import unit_search
from ddmip_lib.certificates.ascent import Ascent
from ddmip_lib.certificates.bounding import evaluate, propagated, ranges_in_balls
from ddmip_lib.certificates.cut_ball import CutBall
from ddmip_lib.certificates.leaf import solve_leaves
from ddmip_lib.certificates.losses import Losses, least_loss, losses_at
from ddmip_lib.certificates.nodes import concatenated, fresh, halved, roots, switched
from ddmip_lib.certificates.unit_search import ReLUBranchAndBound
from ddmip_lib.pricing import Blocks
from tests.builders.blocks import grid, random_mode
from tests.builders.instances import build, relu_net
from tests.builders.networks import KINDS, double, random_net, relu_layers, shifted

torch.set_num_threads(1)
seeds = st.integers(0, 2**32 - 1)

Draw = np.random.Generator


@contextmanager
def few_steps() -> Iterator[None]:
    """Fewer gradient steps: bounds that are less tight, so that tiny networks branch too, and
    sooner done.
    """
    few = lambda *parts: evaluate(*parts[:4], steps=2)  # noqa: E731
    with patch.multiple(unit_search, evaluate=few, POINT_SEARCH_STEPS=3, REFINED_RANGES_NODES=2):
        yield


EXACT = ["one layer", "two layers", "three layers", "residual", "convolution", "leaky"]


def random_rates(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Prices of a step: mostly ordinary, some zero, tiny or huge."""
    rates = draw.uniform(0.02, 2.0, shape) * draw.choice([1.0, 1.0, 1.0, 1e-7, 1e5])
    return rates * draw.choice([0.0, 1e-11, 1.0], shape, p=[0.1, 0.05, 0.85])


@dataclass
class Rows:
    """Some rows of one network at given prices, with the least loss of many of their points."""

    graph: Graph
    losses: Losses
    possible: Tensor
    sampled: np.ndarray


def random_rows(draw: Draw, kind: str, classes: bool, k: int = 2, p: int | None = None) -> Rows:
    p = int(draw.integers(1, 4)) if p is None else p
    net = random_net(draw, p, kind)
    base = draw.normal(size=(k, p))
    wide = draw.random((2, k, p)) < 0.85  # some boxes have no room on a side, or none at all
    lower = base - 2 * draw.random((k, p)) * wide[0]
    upper = base + 2 * draw.random((k, p)) * wide[1]
    points = [grid(*ends) for ends in zip(lower, upper, base, strict=True)]
    if (
        classes and kind != "ends in ReLU"
    ):  # so that some points have the class, but few or none do at the base
        outputs = net(double(np.concatenate(points))).numpy()
        net = shifted(net, -np.quantile(outputs, draw.uniform(0.5, 1.0)) - 0.01)
    graph = network_graph(net, p)
    gain = np.full(k, np.inf) if classes else draw.uniform(0.1, 3.0, k)
    level = np.zeros(k)
    if not classes:
        highest = crown(graph, Box(double(lower), double(upper))).upper[:, 0].numpy()
        level = np.minimum(highest, draw.choice([np.inf, draw.normal()]))
    rates = random_rates(draw, (k, p)), random_rates(draw, (k, p))
    parts = map(double, (lower, upper, base, *rates, gain, level, np.ones(k)))
    losses = Losses(*parts)
    possible = (
        double(draw.uniform(0.2, 2.0, k))
        if classes
        else losses.at(losses.base, graph(losses.base)[:, 0])
    )
    sampled = []
    for i, u in enumerate(map(double, points)):
        sampled.append(float(plain_loss(losses, i, u, net(u)[:, 0]).min()))
    return Rows(graph, losses, possible, np.minimum(sampled, possible.numpy()))


def plain_loss(losses: Losses, i: int, u: Tensor, output: Tensor) -> np.ndarray:
    """The loss of points of row i, written out again."""
    move = (u - losses.base[i]).numpy()
    cost = (
        np.maximum(move, 0) @ losses.up[i].numpy() + np.maximum(-move, 0) @ losses.down[i].numpy()
    )
    if losses.gain[i].isinf():
        return np.where(output.numpy() > 0, cost, np.inf)
    return cost + losses.gain[i].item() * np.maximum(losses.level[i].item() - output.numpy(), 0)


def exact_loss(rows: Rows, i: int) -> float:
    """The least loss of row i by SCIP on the exact model; a class counts from 0 on, infinite where
    out of reach.
    """
    losses = rows.losses[torch.tensor([i])]
    model = Model()
    model.hideOutput()
    for name in ("feastol", "dualfeastol"):
        model.setParam(f"numerics/{name}", 1e-7)
    lower, upper, base, up, down = (
        getattr(losses, name)[0].tolist() for name in ("lower", "upper", "base", "up", "down")
    )
    x = [model.addVar(lb=a, ub=b) for a, b in zip(lower, upper, strict=True)]
    above = [model.addVar() for _ in x]
    below = [model.addVar() for _ in x]
    for v, w, a, b in zip(x, base, above, below, strict=True):
        model.addCons(v == w + a - b)
    (output,) = embed(model, x, rows.graph, crown(rows.graph, Box(losses.lower, losses.upper)))
    cost = quicksum(r * a for r, a in zip(up + down, above + below, strict=True))
    if losses.gain.isinf().item():
        model.addCons(output >= 0)
    else:
        missed = model.addVar()
        model.addCons(missed >= losses.level.item() - output)
        cost = cost + losses.gain.item() * missed
    model.setObjective(cost)
    model.optimize()
    return np.inf if model.getStatus() == "infeasible" else model.getObjVal()


def random_ball(draw: Draw, p: int) -> tuple[np.ndarray, ...]:
    base = draw.normal(size=p) * draw.choice([0.0, 1.0, 100.0])
    room = draw.random((2, p)) * (draw.random((2, p)) < 0.9) * draw.choice([0.1, 1.0, 10.0])
    return base - room[0], base + room[1], base, random_rates(draw, (p,)), random_rates(draw, (p,))


def in_ball(draw: Draw, ball: tuple[np.ndarray, ...], radius: float, count: int = 40) -> np.ndarray:
    """Corners of a ball: the radius is spent on the coordinates in some order, in some
    directions.
    """
    points = np.tile(ball[2], (count, 1))
    for point in points:
        move_to_corner(draw, point, ball, radius)
    return points


def move_to_corner(
    draw: Draw, point: np.ndarray, ball: tuple[np.ndarray, ...], left: float
) -> None:
    lower, upper, base, up, down = ball
    for j in draw.permutation(len(base)):
        rises = draw.random() < 0.5
        room, price = (upper[j] - base[j], up[j]) if rises else (base[j] - lower[j], down[j])
        step = room if price * room <= left else left / price
        point[j] += step if rises else -step
        left = max(0.0, left - price * step)


def in_front(points: np.ndarray, cut: np.ndarray, level: float) -> np.ndarray:
    """The points in front of a plane, and where the lines to those behind it cross the plane."""
    height = points @ cut + level
    front = points[height >= 0]
    back = points[height < 0]
    share = (height[height >= 0][:, None] / (height[height >= 0][:, None] - height[height < 0]))[
        ..., None
    ]
    crossing = front[:, None] + share * (back - front[:, None])
    return np.concatenate([front, crossing.reshape(-1, points.shape[1])])


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 4))
def test_a_cut_ball_bounds_every_form_and_no_worse_than_the_ball(seed: int, p: int) -> None:
    draw = np.random.default_rng(seed)
    ball = random_ball(draw, p)
    radius = draw.choice([0.0, 0.1, 1.0]) * draw.random()
    cut = draw.normal(size=p) * (draw.random(p) < 0.8) * draw.choice([1e-8, 1.0, 1e6])
    forms = draw.normal(size=(3, p)) * (draw.random((3, p)) < 0.8) * draw.choice([1e-6, 1.0, 1e4])
    # in front of the plane lies the centre, or only a part of the ball, or nothing
    level = -cut @ ball[2] + draw.uniform(-1.0, 0.5) * np.abs(cut).sum()
    parts = [double(part)[None] for part in (*ball, radius, cut, level)]
    found = CutBall(*parts).smallest(double(forms)[None])[0].numpy()
    assert (found >= Ball(*parts[:6]).smallest(double(forms)[None])[0].numpy()).all()
    points = in_front(in_ball(draw, ball, radius), cut, level)
    smallest = (points @ forms.T).min(axis=0, initial=np.inf)
    assert (found <= smallest + 1e-9 * np.abs(forms).max() * (1 + np.abs(ball[2]).max())).all()


def test_the_plane_of_a_cut_ball_helps() -> None:
    """The radius alone lets $u_1$ fall to -0.5, the plane to -0.2; it does nothing for $u_2$."""
    one = torch.ones(1, 2)
    plane = torch.tensor([[1.0, 0.0]]), torch.tensor([0.2])
    region = CutBall(-one, one, 0 * one, 2.0, 2.0, 1.0, *plane)
    form = double([[[1.0, 0.0], [0.0, 1.0]]])
    assert Ball.smallest(region, form)[0].tolist() == pytest.approx([-0.5, -0.5])
    assert region.smallest(form)[0].tolist() == pytest.approx([-0.2, -0.5])


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 4), st.booleans())
def test_a_form_gives_the_best_bound_of_its_linear_program(
    seed: int, p: int, classes: bool
) -> None:
    r"""With $q^\top u + \kappa \le -f(u)$: $\min$ cost $+\ g\,(h + q^\top u + \kappa)_+$ over the
    box.
    """
    draw = np.random.default_rng(seed)
    lower, upper, base = random_ball(draw, p)[:3]
    up, down = draw.uniform(0.02, 2.0, (2, p)) * (draw.random((2, p)) < 0.9)
    coef = draw.normal(size=p) * (draw.random(p) < 0.9)
    const = draw.normal()
    gain, level = (np.inf, 0.0) if classes else (draw.uniform(0.1, 5.0), draw.normal())
    const = const - coef @ base  # so that the base point is no special case
    parts = [double(part)[None] for part in (lower, upper, base, up, down, gain, level, 0.0)]
    losses = Losses(*parts)
    zero = torch.zeros(1, p)
    region = CutBall(*parts[:5], double([1.0]), zero, zero[:, 0])
    form = double(coef)[None], double([const])
    least = least_loss(losses, region, *form)
    costs = np.concatenate([up, down])
    ends = [(0, r) for r in (*(upper - base), *(base - lower))]
    row = np.concatenate([coef, -coef])
    need = level + coef @ base + const
    if classes:
        exact = linprog(costs, row[None], [-need], bounds=ends)
    else:  # one more column for what is missed
        exact = linprog([*costs, gain], [[*row, -1.0]], [-need], bounds=[*ends, (0, None)])
    value = least.value.item()
    size = 1e-6 * (1 + np.abs(coef).sum())
    if exact.status == 2:  # out of reach: the bound is beyond the radius
        assert value > 1.0
    else:
        assert value <= exact.fun + size
        assert max(value, 0.0) >= min(exact.fun, 1.0) - size
    inside = least.point[0].numpy()
    assert (inside >= lower - 1e-9).all()
    assert (inside <= upper + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([*KINDS]), st.booleans())
def test_the_derivatives_of_a_step_are_those_of_automatic_differentiation(
    seed: int, kind: str, classes: bool
) -> None:
    """With any slopes and any multipliers of any splits, at the multiplier and the point that
    belong to the form; and where the bound rises or falls the same way on both sides, by so much.
    """
    draw = np.random.default_rng(seed)
    rows = random_rows(draw, kind, classes, k=3)
    nodes = roots(rows.graph, rows.losses)
    nodes.splits = torch.from_numpy(draw.integers(-1, 2, nodes.splits.shape)).to(torch.int8)
    with torch.no_grad():
        sweep = propagated(rows.graph, rows.losses, nodes, rows.possible)
    region = sweep.region
    lines = [sweep.lines[index] for index in rows.graph.activations]
    slopes = [
        torch.where(line.free, torch.from_numpy(draw.random(line.free.shape)), line.below)
        for line in lines
    ]
    duals = [torch.from_numpy(draw.exponential(0.1, line.free.shape)) for line in lines]
    ascent = Ascent.of(sweep, rows.losses, region, nodes.splits)
    start = [concatenated(each, region.centre) for each in (slopes, duals)]
    value, *found = ascent.step(*start)
    moving = [part.requires_grad_() for part in (*slopes, *duals)]
    last = len(rows.graph.nodes) - 1
    minus = -torch.ones(1, 1, 1, dtype=torch.float64)
    sweep.errors = [torch.zeros_like(error) for error in sweep.errors]  # no rounding
    sweep.vanished = 0.0
    coef, const = (part[:, 0] for part in sweep.follow_back(last, minus, slopes, duals))
    least = least_loss(rows.losses, region, coef.detach(), const.detach())
    assert value.numpy() == pytest.approx(least.value.numpy(), rel=1e-7, abs=1e-9)
    assert (least.multiplier > 0)[region.radius > 0].all(), (
        "with 0 all derivatives vanish, also where nothing is proven yet"
    )
    form = least.multiplier * ((coef * least.point).sum(-1) + const)
    if not moving:
        return
    tape = torch.autograd.grad(form.sum(), moving, materialize_grads=True, allow_unused=True)
    wanted = [concatenated(tape[k : k + len(lines)], region.centre) for k in (0, len(lines))]
    size = 1.0 + max(float(part.abs().max()) for part in (*wanted, coef.detach()))
    for mine, other in zip(found, wanted, strict=True):
        assert mine.numpy() == pytest.approx(other.numpy(), rel=1e-7, abs=1e-9 * size)
    ways = [torch.from_numpy(draw.normal(size=part.shape)) * (part != 0) for part in found]
    far = 1e-6

    def shifted_bound(length: float) -> Tensor:
        moved = [part + length * way for part, way in zip(start, ways, strict=True)]
        return ascent.step(*moved)[0]

    up = shifted_bound(far)
    down = shifted_bound(-far)
    slope = sum((part * way).sum(1) for part, way in zip(found, ways, strict=True))
    smooth = ((up - value) - (value - down)).abs() <= 1e-4 * (up - down).abs()
    inside = (value > 1e-3) & (
        value < region.radius
    )  # elsewhere the multiplier is not the best one
    counts = smooth & inside & (slope.abs() > 1e-3) & (least.multiplier < 1e6)
    event(f"{int(counts.sum())} rows are smooth")
    assert ((up - down) / (2 * far))[counts].numpy() == pytest.approx(
        slope[counts].numpy(), rel=1e-2
    )


@settings(max_examples=40, deadline=None)
@given(seeds, st.booleans(), st.integers(1, 3))
def test_profit_is_the_top_less_the_loss(seed: int, classes: bool, m: int) -> None:
    """At any prices: worth, caps, fixed use and use by value, from the definition of `Blocks`
    alone.
    """
    draw = np.random.default_rng(seed)
    p = int(draw.integers(1, 4))
    n = 3
    mode = random_mode(
        draw,
        n,
        p,
        m,
        worth=float(draw.uniform(0.3, 4)),
        cap=float(draw.choice([np.inf, draw.normal()])),
    )
    blocks = Blocks([mode], np.ones(m))
    pi = draw.exponential(size=m) * draw.choice([0.0, 1.0, 1e4], m)
    net = random_net(draw, p, "one layer")
    rows = np.array([2, 0])
    losses = losses_at(blocks, pi, rows, network_graph(net, p), classes)
    u = draw.uniform(blocks.lower[rows], blocks.upper[rows])
    output = net(double(u))[:, 0]
    counted = (output > 0).double() if classes else output.clamp(max=mode.cap)
    value = mode.worth * counted.numpy()
    profit = value - blocks.use(rows, u, value) @ pi
    found = (losses.top - losses.at(double(u), output)).numpy()
    reached = np.ones(2, dtype=bool) if not classes else output.numpy() > 0
    assert found[reached] == pytest.approx(profit[reached], rel=1e-9, abs=1e-9 * (1 + pi.sum()))
    assert np.isneginf(found[~reached]).all()


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from(sorted(KINDS)))
def test_ranges_in_a_ball_hold_everywhere_in_it(seed: int, kind: str) -> None:
    draw = np.random.default_rng(seed)
    rows = random_rows(draw, kind, classes=True)
    radius = rows.losses.top * torch.from_numpy(draw.uniform(0.1, 1.0, len(rows.losses.top)))
    found = ranges_in_balls(rows.graph, rows.losses, radius)
    for i in range(len(radius)):
        one = rows.losses[torch.tensor([i])]
        points = double(grid(one.lower[0].numpy(), one.upper[0].numpy(), one.base[0].numpy()))
        points = points[rows.losses[torch.full((len(points),), i)].cost(points) <= radius[i]]
        values = rows.graph.values(points)
        low, high = found
        before = concatenated((values[index] for index in rows.graph.hidden), points)
        assert (before >= low[i]).all()
        assert (before <= high[i]).all()


def test_hard_rows_get_better_ranges_and_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(np.random.default_rng(5), "three layers", classes=True, p=3)
    found = {}
    for hard in (0, 10**9):
        monkeypatch.setattr(unit_search, "REFINED_RANGES_NODES", hard)
        search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4)
        nodes = search._refined(search._take())
        assert bool(search.low.isfinite().all()) == (hard == 0)
        assert bool(nodes.low.isfinite().all()) == (hard == 0)
        search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4)
        assert search.run(np.inf)
        found[hard] = search.progress().loss_bound
    assert torch.allclose(found[0], found[10**9], atol=2e-4)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(sorted(KINDS)), st.booleans())
def test_what_children_inherit_still_holds(seed: int, kind: str, classes: bool) -> None:
    """Down a random path of splits and halves, with radii that shrink: no point of a node that
    loses less than the radius loses less than the node's bound, lies behind its plane or outside
    its ranges.
    """
    draw = np.random.default_rng(seed)
    rows = random_rows(draw, kind, classes, k=1)
    nodes = roots(rows.graph, rows.losses)
    radius = rows.possible * draw.uniform(0.5, 1.0)
    u = double(
        grid(*(getattr(rows.losses, name)[0].numpy() for name in ("lower", "upper", "base")))
    )
    loss = plain_loss(rows.losses, 0, u, rows.graph(u)[:, 0])
    values = rows.graph.values(u)
    before = concatenated((values[index] for index in rows.graph.hidden), u)
    inside = np.ones(len(u), dtype=bool)
    for _ in range(4):
        found = evaluate(rows.graph, rows.losses, nodes, radius, steps=2)
        nodes = found.nodes
        near = inside & (loss < radius.item() * (1 - 1e-9))
        assert nodes.least.item() <= loss[near].min(initial=np.inf) + 1e-9
        cut, level = nodes.cut[0].numpy(), nodes.level[0].numpy()
        front = u[near].numpy() @ cut + level
        assert front.min(initial=0.0) >= -1e-9 * (1 + np.abs(cut).max(initial=0.0))
        assert (before[near] >= nodes.low - 1e-9).all()
        assert (before[near] <= nodes.high + 1e-9).all()
        best, unit = found.scores.max(1)
        sign = int(draw.choice([-1, 1]))
        if best.item() >= 0 and draw.random() < 0.8:
            nodes = switched(nodes, unit, sign)
            inside &= sign * before[:, unit.item()].numpy() >= 0
        else:
            coordinate = int(draw.integers(rows.graph.n_in))
            middle = 0.5 * (nodes.lower + nodes.upper)[0, coordinate].item()
            nodes = halved(nodes, torch.tensor([coordinate]), sign)
            inside &= sign * (u[:, coordinate].numpy() - middle) >= 0
        radius = radius * draw.choice([1.0, draw.uniform(0.3, 1.0)])


@settings(max_examples=25, deadline=None)
@given(seeds, st.booleans(), st.integers(1, 3))
def test_a_node_without_free_units_is_settled_exactly(seed: int, classes: bool, p: int) -> None:
    """There the network is linear, so that the least loss is a linear program, written here from
    one point's slopes.
    """
    draw = np.random.default_rng(seed)
    rows = random_rows(draw, "one layer", classes, k=1, p=p)
    losses = rows.losses
    lower, upper, base, up, down = (
        getattr(losses, name)[0].numpy() for name in ("lower", "upper", "base", "up", "down")
    )
    losses.up.copy_(losses.up.clamp(0.0, 10.0)), losses.down.copy_(losses.down.clamp(0.0, 10.0))
    u = draw.uniform(lower, upper)
    first, last = (rows.graph.nodes[index] for index in (1, 3))
    hidden = first.weight.numpy() @ u + first.bias.numpy()
    sign = np.where(hidden >= 0, 1, -1)
    slope = (last.weight.numpy()[0] * (sign > 0)) @ first.weight.numpy()
    output = float(rows.graph(double(u)[None]))
    # columns: ways up, ways down, what is missed
    ways = np.vstack([np.eye(p), -np.eye(p)])
    zero = np.zeros((len(sign), 1))
    stays = np.hstack([-(sign[:, None] * first.weight.numpy()) @ ways.T, zero])
    counts = np.append(-slope @ ways.T, -1.0)
    at_base = output + slope @ (base - u) - losses.level.item()
    sides = sign * (hidden + first.weight.numpy() @ (base - u))
    gain = 0.0 if classes else losses.gain.item()
    ends = [(0, r) for r in (*(upper - base), *(base - lower))] + [(0, 0 if classes else None)]
    exact = linprog(
        [*up, *down, gain], np.vstack([stays, counts]), np.append(sides, at_base), bounds=ends
    )
    expected = np.inf if exact.status == 2 else exact.fun
    radius = rows.possible
    splits = torch.from_numpy(sign[None]).to(torch.int8)
    node = fresh(torch.zeros(1, dtype=torch.long), losses.lower, losses.upper, splits)
    node = evaluate(rows.graph, losses, node, radius, steps=0).nodes
    least, point = solve_leaves(rows.graph, losses, node, radius)
    assert min(least.item(), radius.item()) == pytest.approx(min(expected, radius.item()), abs=1e-5)
    assert ((point >= losses.lower) & (point <= losses.upper)).all()


def check_steps(rows: Rows, tolerance: float, most: int = 40) -> ReLUBranchAndBound:
    """Let a search work step by step; what it has proven must hold at every moment."""
    search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, tolerance)
    for _ in range(most):
        progress = search.progress()
        known = np.minimum(rows.sampled, progress.loss_known.numpy())
        assert (progress.loss_bound.numpy() <= known + 1e-9 * (1 + known)).all()
        assert (progress.loss_bound >= 0).all()
        if search.finished:
            break
        search.step()
    return search


@settings(max_examples=20, deadline=None)
@given(
    seeds,
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([1e-2, 1e-4]),
)
def test_a_search_never_proves_too_much(
    seed: int, kind: str, classes: bool, k: int, tolerance: float
) -> None:
    with few_steps():
        check_steps(random_rows(np.random.default_rng(seed), kind, classes, k), tolerance, most=12)


@pytest.mark.parametrize("classes", [True, False], ids=["class", "output"])
@pytest.mark.parametrize("kind", EXACT)
def test_a_finished_search_has_the_exact_loss(kind: str, classes: bool) -> None:
    """Against SCIP on the exact model: closed rows are closed, and their bounds are those of the
    model.
    """
    draw = np.random.default_rng(EXACT.index(kind) + 10 * classes)
    for _ in range(2):
        rows = random_rows(draw, kind, classes, p=2)
        with few_steps():
            search = check_steps(rows, tolerance=1e-4, most=200)
        assert search.finished
        least, possible, _ = search.progress()
        for i in range(len(least)):
            exact = min(exact_loss(rows, i), rows.possible[i].item())
            assert least[i].item() <= exact + 1e-5
            # a class is found with a margin of 1e-6 only, which can cost more than the tolerance
            assert least[i].item() >= exact - 1.1e-4
            assert possible[i].item() >= exact - 1e-5


def test_a_search_that_is_stuck_says_what_it_has() -> None:
    """Logits of 1e-8 are no class to the search, which wants 1e-6; the bound must count them
    nevertheless.
    """
    net = relu_layers(([[1.0], [1.0]], [-0.2, -0.6]), ([[1e-8, -1e-8]], [-1e-9]))
    one = torch.ones(1, 1, dtype=torch.float64)
    losses = Losses(-one, one, 0 * one, one, one, one[0] * torch.inf, 0 * one[0], one[0])
    search = ReLUBranchAndBound(network_graph(net, 1), losses, one[0], 1e-6)
    for _ in range(50):
        if not search.finished:
            search.step()
    assert search.finished
    assert 0.2 < search.progress().loss_bound.item() <= 0.3 + 1e-9  # class 1 from 0.3 on
    assert search.possible.item() == 1.0


def test_nodes_for_the_next_radius_hold_nothing_of_the_last() -> None:
    rows = random_rows(np.random.default_rng(1), "two layers", True)
    nodes = evaluate(rows.graph, rows.losses, roots(rows.graph, rows.losses), rows.possible).nodes
    kept = nodes.kept()
    assert kept.least.abs().max() == 0
    assert all(part.abs().max() == 0 for part in (kept.cut, kept.level))
    assert (kept.low == -torch.inf).all()
    assert (kept.high == torch.inf).all()
    again = fresh(nodes.row, nodes.lower, nodes.upper, nodes.splits)
    assert (again.least == kept.least).all()


@pytest.mark.parametrize("seed", range(3))
def test_crown_contains_what_the_exact_model_of_pyscipopt_ml_attains(seed: int) -> None:
    """Largest and smallest outputs of random networks by another library's exact model."""
    net = relu_net(2, width=5, q=2, seed=seed)
    graph = network_graph(net, 2)
    box = Box(-torch.ones(1, 2), torch.ones(1, 2))
    both = crown(graph, box), optimised_crown(graph, box)
    for output, sense in itertools.product(range(2), ("minimize", "maximize")):
        built = build(net, 2, low=-1.0, high=1.0, sense=sense)
        built.model.setObjective(built.y[0, output] + 0.0, sense)
        solution = BigM().solve(built.problem)
        assert solution.status == "optimal"
        for bounds in both:
            low = bounds.lower[0, output].item()
            high = bounds.upper[0, output].item()
            assert low - 1e-9 <= solution.objective <= high + 1e-9
            assert low > solution.objective - 20 or high < solution.objective + 20


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes take part in each gradient step from now on."""
    taken = []
    step = Ascent.step

    def counting(ascent: Ascent, *parts: Tensor) -> object:
        taken.append(len(ascent.free))
        return step(ascent, *parts)

    monkeypatch.setattr(Ascent, "step", counting)
    return taken


def test_a_node_that_is_proven_or_empty_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes of one row: the whole ball, which is hard; one whose first bound reaches the
    radius; one of which that was known before; and one on no side of its first unit.
    """
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    losses = rows.losses[torch.zeros(4, dtype=torch.long)]
    zero = torch.zeros(1, dtype=torch.long)
    root = roots(rows.graph, losses)
    first = evaluate(rows.graph, losses, root, rows.possible[zero].expand(4), steps=0).nodes.least[
        0
    ]
    radius = torch.stack([rows.possible[0], 0.9 * first, rows.possible[0], rows.possible[0]])
    assert 0 < first < rows.possible[0]
    root.least[2] = rows.possible[0]
    low = evaluate(rows.graph, losses, root, radius, steps=0).nodes.low
    unit = int((low[3] > 0).to(torch.int8).argmax())
    assert low[3, unit] > 0, "a unit that is always on, which this node wants off"
    root.splits[3, unit] = -1
    taken = counted_steps(monkeypatch)
    found = evaluate(rows.graph, losses, root, radius, steps=7)
    assert taken == [1] * 7
    assert (found.nodes.least[1:] >= radius[1:]).all()
    assert found.nodes.least[3] == torch.inf
    alone = evaluate(rows.graph, losses[zero], root[zero], radius[zero], steps=7)
    assert found.nodes.least[0] == pytest.approx(alone.nodes.least[0].item(), rel=1e-9)


def test_each_node_takes_its_own_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    taken = counted_steps(monkeypatch)
    evaluate(
        rows.graph,
        rows.losses,
        roots(rows.graph, rows.losses),
        100 * rows.possible,
        torch.tensor([3, 5]),
    )
    assert taken == [2, 2, 2, 1, 1]


def test_the_whole_ball_is_asked_first_and_what_one_node_proves_of_it_is_kept() -> None:
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4, steps=4)
    assert (search.radius == search.target).all()
    whole = evaluate(
        rows.graph, rows.losses, roots(rows.graph, rows.losses), search.target, steps=4
    ).nodes.least
    search.step()
    assert (search.work > 0).all()
    assert torch.allclose(search.floor, whole.minimum(search.target), atol=1e-12)
    assert (search.radius[~search.closed] > search.floor[~search.closed]).all()


def test_balls_grow_faster_after_few_nodes_and_end_with_the_whole_one() -> None:
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    shares = {}
    for floor, work in (
        (0.0, 1),
        (0.5, 1),
        (0.5, unit_search.FAST_GROWTH_NODES),
        (0.82, 1),
        (0.82, unit_search.FAST_GROWTH_NODES),
        (0.9, 99),
    ):
        search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4)
        search.floor = floor * search.target
        search.work = torch.full_like(search.work, work)
        search.work_in_ball = search.work.clone()
        search._next_ball(torch.ones_like(search.active))
        shares[floor, work] = (search.radius / search.target).numpy()
        assert search.active.all()
    for found, expected in zip(shares.values(), (0.4, 0.7, 0.6, 1.0, 0.92, 1.0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_points_are_looked_for_when_the_work_of_a_row_has_doubled() -> None:
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    search = ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4)
    looked = []
    found = evaluate(
        rows.graph, rows.losses, roots(rows.graph, rows.losses), search.target, steps=0
    )
    with patch.object(
        ReLUBranchAndBound, "_submit", lambda self, row, points: looked.append(row.tolist())
    ):
        for work in (1, 1, 2, 3, 4):
            search.work[:] = work
            search.work[0] = 1
            search._search_points(found)
    every = [*range(len(rows.possible))]
    assert [sorted(each) for each in looked] == [every, every[1:], every[1:]]


def test_a_turn_of_a_search_ends_after_a_number_of_batches_and_can_go_on() -> None:
    rows = random_rows(np.random.default_rng(17), "three layers", classes=True, p=3)
    whole, turns = (
        ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-4, steps=2) for _ in range(2)
    )
    assert whole.run(np.inf)
    ended = torch.full_like(rows.possible, torch.inf)
    count = 1
    while not turns.run(np.inf, batches=1):
        state = turns
        before = state.progress()
        over = state.unfathomed() == 0
        ended[over] = ended[over].minimum(before.loss_bound[over])
        turns = state.part(0, 1)
        assert (turns.progress().loss_bound[over] == torch.inf).all()
        turns.step()  # the state that it came from stays as it was
        again = state.part(0, 1).progress()
        for was, kept, part in zip(before, state.progress(), again, strict=True):
            assert torch.equal(was, kept)
            assert torch.equal(was[~over], part[~over])
        count += 2
    assert count > 1
    ended = ended.minimum(turns.progress().loss_bound)
    assert (ended == whole.progress().loss_bound).all()
    assert (turns.work == whole.work).all()


@settings(max_examples=4, deadline=None)
@given(seeds, st.sampled_from(["two layers", "three layers"]), st.booleans(), st.integers(2, 4))
def test_parts_of_a_search_share_its_nodes_and_prove_together_what_it_proves(
    seed: int, kind: str, classes: bool, count: int
) -> None:
    rows = random_rows(np.random.default_rng(seed), kind, classes=classes, p=3)
    whole, search = (
        ReLUBranchAndBound(rows.graph, rows.losses, rows.possible, 1e-2, steps=2) for _ in range(2)
    )
    whole.run(np.inf, 40)
    for _ in range(20):
        if search.run(np.inf, 1) or search.unfathomed().sum() >= 2 * count:
            break
    ended = search.progress().loss_bound  # of rows that are done
    if search.finished:
        event("too easy")
        return
    parts = [search.part(k, count) for k in range(count)]
    assert sum(part.unfathomed().sum() for part in parts) == search.unfathomed().sum()
    assert sum(len(leaves) for part in parts for leaves in part.leaves) == sum(
        map(len, search.leaves)
    )
    ended[search.unfathomed() > 0] = torch.inf
    for part in parts:
        own = part.unfathomed() > 0
        assert own.any()
        begun = part.progress().loss_bound
        assert (begun[~own] == torch.inf).all()
        assert (begun >= search.progress().loss_bound).all()
        part.run(np.inf, 40)
        ended = ended.minimum(part.progress().loss_bound)
    assert (ended <= rows.possible + 1e-9).all()
    if whole.finished and all(part.finished for part in parts):
        event("compared")
        assert torch.allclose(ended, whole.progress().loss_bound, atol=2e-2)
