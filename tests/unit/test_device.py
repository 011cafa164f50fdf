"""Networks on another device or in another precision, and their recorded passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ddmip_book.networks import attention, conv1d, lstm, mlp, resnet
from ddmip_book.problems import water_potability
from ddmip_lib import DualDecomposition, LogBarrier, NeuralMIP, SequentialMIP, Solution
from ddmip_lib.decomposition import ADMMState
from ddmip_lib.device import BothWays, PlacedNetwork, Recorded, place
from ddmip_lib.errors import ProblemError
from ddmip_lib.linearisation import linearise
from ddmip_lib.methods import Run
from ddmip_lib.model import Incumbent
from tests.builders.clocks import LONG

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DOUBLE = torch.float64


class RecordedByHand(Recorded):
    """Computes its passes again instead of playing kernels, into the same buffers and from the last
    point played.
    """

    def _record(self, like: Tensor) -> None:
        self.ahead = self._ahead
        self.back = self._back  # type: ignore[assignment]
        self._buffers(like.shape, self._values(like.to(self.dtype, copy=True)).shape, pinned=False)

    def _replay(self, graph: Callable[[], None]) -> None:  # type: ignore[override]
        graph()

    def _ahead(self) -> None:
        self.point = self.x.to(self.dtype, copy=True).requires_grad_(True)
        with torch.enable_grad():
            self.values = self._values(self.point.clone())
        self.y.copy_(self.values.detach())

    def _back(self) -> None:
        (slope,) = torch.autograd.grad(
            self.values, self.point, self.along.to(self.dtype), retain_graph=True
        )
        self.slope.copy_(slope)


class Writes(nn.Module):
    """Writes on its own input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.mul_(2.0)).tanh()


class Reads(nn.Module):
    """Asks a tensor for its value, which no recording can."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(9, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) if x.sum().item() < 1e9 else self.head(-x)


class Recurrent(nn.Module):
    """As people write one, with no thought of what cuDNN wants."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(1, 6, batch_first=True)
        self.head = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x.unsqueeze(-1))[0][:, -1])


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: mlp(3, 8, 9, seed=1),
    "conv1d": lambda: conv1d(2, 4, 9, seed=1),
    "resnet": lambda: resnet(2, 8, 9, seed=1),
    "lstm": lambda: lstm(1, 4, 9, seed=1),
    "attention": lambda: attention(1, 4, 9, seed=1),
    "recurrent": Recurrent,
    "writes": Writes,
}


def frozen(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double().eval().requires_grad_(False)


def points(count: int, seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(5, 9, dtype=DOUBLE, generator=draw) for _ in range(count)]


def slope(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.clone().requires_grad_(True)
    y = f(x.clone())
    return torch.autograd.grad(y, x, torch.ones_like(y))[0]


def recorded(net: nn.Module, dtype: torch.dtype = DOUBLE, device: str = "cpu") -> Recorded:
    kind = RecordedByHand if device == "cpu" else Recorded
    return kind(net, device, dtype, points(1)[0])


devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])


@devices
@pytest.mark.parametrize("name", NETS)
class TestEveryNetwork:
    def test_values_and_slopes_are_the_networks_own(self, device: str, name: str) -> None:
        net = frozen(NETS[name])
        for f in (recorded(net, device=device), PlacedNetwork(net, device, DOUBLE)):
            for x in points(3, seed=2):
                torch.testing.assert_close(f(x.clone()), net(x.clone()), rtol=1e-9, atol=1e-9)
                torch.testing.assert_close(slope(f, x), slope(net, x), rtol=1e-9, atol=1e-9)

    def test_single_precision_is_close_and_comes_back_double(self, device: str, name: str) -> None:
        net = frozen(NETS[name])
        f = recorded(net, torch.float32, device)
        (x,) = points(1, seed=3)
        assert f(x.clone()).dtype == slope(f, x).dtype == DOUBLE
        torch.testing.assert_close(f(x.clone()), net(x.clone()), rtol=1e-4, atol=1e-4)
        assert not torch.equal(f(x.clone()), net(x.clone()))
        torch.testing.assert_close(slope(f, x), slope(net, x), rtol=1e-3, atol=1e-4)


@devices
class TestPlayback:
    def test_a_slope_asked_for_late_is_of_its_own_point(self, device: str) -> None:
        net = frozen(NETS["attention"])
        f = recorded(net, device=device)
        (a, b) = points(2)
        a.requires_grad_(True), b.requires_grad_(True)
        value_a = f(a).sum()
        value_b = f(b).sum()
        for value, x in ((value_a, a), (value_b, b), (value_a, a)):
            found = torch.autograd.grad(value, x, retain_graph=True)[0]
            torch.testing.assert_close(found, slope(net, x.detach()), rtol=1e-9, atol=1e-9)

    def test_values_do_not_change_when_another_point_is_played(self, device: str) -> None:
        f = recorded(frozen(NETS["mlp"]), device=device)
        (a, b) = points(2)
        first = f(a)
        kept = first.clone()
        f(b)
        assert torch.equal(first, kept)

    def test_second_derivatives_are_the_networks_own(self, device: str) -> None:
        net = frozen(NETS["attention"])

        def curvature(of: Callable[[Tensor], Tensor]) -> Tensor:
            x = points(1, seed=4)[0].requires_grad_(True)
            (once,) = torch.autograd.grad((of(x) ** 2).sum(), x, create_graph=True)
            return torch.autograd.grad((once * points(1, seed=5)[0]).sum(), x)[0]

        torch.testing.assert_close(
            curvature(recorded(net, device=device)), curvature(net), rtol=1e-8, atol=1e-9
        )

    def test_no_gradient_is_followed_where_none_is_wanted(self, device: str) -> None:
        f = recorded(frozen(NETS["mlp"]), device=device)
        with torch.no_grad():
            assert not f(points(1)[0].requires_grad_(True)).requires_grad


def test_linear_layers_both_ways_are_the_same_layers() -> None:
    (x,) = points(1, seed=6)
    for name, layers in (("mlp", 4), ("attention", 5), ("recurrent", 1)):
        net = frozen(NETS[name])
        both = BothWays()

        def turned(x: Tensor, net: nn.Module = net, both: BothWays = both) -> Tensor:
            with both:
                return net(x)

        torch.testing.assert_close(turned(x), net(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(slope(turned, x), slope(net, x), rtol=1e-12, atol=1e-12)
        assert len(both.turned) == layers
    without = nn.Linear(9, 2, bias=False).double().requires_grad_(False)
    with BothWays():
        torch.testing.assert_close(without(x), x @ without.weight.T)


def test_the_cpu_is_left_as_it_is() -> None:
    net = frozen(NETS["mlp"])
    like = torch.zeros(5, 9)
    assert type(place(net, "cpu", torch.float32, like)) is PlacedNetwork
    problem = water_potability(n=3, net=mlp(2, 8, 9, seed=1), seed=42)
    run = DualDecomposition(restarts=0).start(problem)
    assert run.split.nets == [p.net for p in run.split.instance.predictors]


@cuda
class TestCuda:
    def test_a_network_that_reads_its_values_runs_unrecorded_and_says_so(self) -> None:
        net = frozen(Reads)
        like = points(1)[0]
        with pytest.warns(UserWarning, match="cannot be recorded"):
            placed = place(net, "cuda", torch.float32, like)
        assert type(placed) is PlacedNetwork
        torch.testing.assert_close(slope(placed, like), slope(net, like), rtol=1e-4, atol=1e-5)
        assert (
            type(place(frozen(NETS["mlp"]), "cuda", torch.float32, like)) is Recorded
        )  # nothing is left broken

    def test_a_network_without_gradient_is_refused_as_on_the_cpu(self) -> None:
        class Detached(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.head = nn.Linear(9, 1)

            def forward(self, x: Tensor) -> Tensor:
                return self.head(x.detach())

        problem = water_potability(n=3, net=Detached().eval(), seed=42)
        with (
            pytest.warns(UserWarning, match="cannot be recorded"),
            pytest.raises(ProblemError, match="no gradient"),
        ):
            DualDecomposition(device="cuda").solve(problem)

    @pytest.mark.parametrize("split", ["paper", "graph"])
    @pytest.mark.parametrize("block", [None, LogBarrier()])
    def test_runs_go_as_on_the_cpu(self, split: str, block: LogBarrier | None) -> None:
        problem = water_potability(n=4, net=frozen(NETS["attention"]), seed=42)
        here, there = (
            DualDecomposition(block, penalty=1.0, split=split, max_iterations=5, device=d).solve(
                problem, seed=1
            )
            for d in ("cpu", "cuda")
        )
        assert problem.verify(there).feasible
        torch.testing.assert_close(
            *(torch.tensor(s.history["primal_residual"]) for s in (here, there)),
            rtol=1e-3,
            atol=1e-5,
        )


def screened(problem: NeuralMIP, place_on: str) -> ADMMState:
    """A run whose points are judged by networks elsewhere."""
    run = DualDecomposition(max_iterations=15).start(problem, seed=1)
    run.incumbent = Incumbent(run.split.instance, run.call.began, screen_on=torch.device(place_on))
    run.incumbent.consider_start(problem.start, 60.0)
    return run


def ended(solver: DualDecomposition, state: ADMMState) -> Solution:
    """The solution of a call that was stopped in this state."""
    state.call.best = state.incumbent
    state.call.state = [state]
    return solver._solution(state.call, cut_short="stopped")


@pytest.mark.parametrize("place_on", ["cpu", pytest.param("cuda", marks=cuda)])
def test_points_judged_elsewhere_are_verified_here_once(
    place_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    solver = DualDecomposition(max_iterations=15)
    problem = water_potability(n=8, net=mlp(2, 16, 9, seed=3))
    runs = (solver.start(problem, seed=1), screened(problem, place_on))
    seen = list[int]()
    last = runs[1].incumbent.verifier
    check = last.check
    monkeypatch.setattr(last, "check", lambda values: seen.append(1) or check(values))
    for run in runs:
        for _ in range(15):
            solver.step(run)
    assert not seen
    assert len(runs[1].incumbent.found) > 1
    here, there = (ended(solver, run) for run in runs)
    assert len(seen) == 1, "the CPU is asked about the last one alone"
    assert here.objective == there.objective == problem.verify(there).objective
    assert [value for _, value in here.details["incumbents"]] == [
        value for _, value in there.details["incumbents"]
    ]
    assert runs[0].history["objective"].tolist() == runs[1].history["objective"].tolist()


@pytest.mark.parametrize("shift", [0.2, 1e3])
def test_what_another_device_gets_wrong_is_not_reported(shift: float) -> None:
    """Networks there that call more samples potable than there are: the answer is what the CPU says
    of the points.
    """
    problem = water_potability(n=8, net=mlp(2, 16, 9, seed=3))
    run = screened(problem, "cpu")
    for predictor in run.incumbent._screen.instance.predictors:
        predictor.net.net[-1].bias += shift
    run.incumbent.check = run.incumbent.values = None
    run.incumbent.found.clear()
    run.incumbent._screened.clear()
    solver = DualDecomposition(max_iterations=15)
    for _ in range(15):
        solver.step(run)
    claimed = run.incumbent.objective
    solution = ended(solver, run)
    assert claimed is not None
    assert solution.objective is not None
    assert solution.objective < claimed
    assert problem.verify(solution).feasible
    assert problem.verify(solution).objective == solution.objective
    assert solution.details["incumbents"][-1][1] == solution.objective


def test_other_numbers_of_rows_pass_a_recorded_network_kernel_by_kernel() -> None:
    net = frozen(NETS["mlp"])
    recorded = RecordedByHand(net, "cpu", DOUBLE, torch.zeros(5, 9, dtype=DOUBLE))
    more = torch.rand(7, 9, dtype=DOUBLE)
    torch.testing.assert_close(recorded(more), net(more))
    torch.testing.assert_close(slope(recorded, more), slope(net, more))


@pytest.mark.parametrize("place_on", ["cpu", pytest.param("cuda", marks=cuda)])
def test_slopes_computed_elsewhere_are_the_same(place_on: str) -> None:
    instance = water_potability(n=4, net=frozen(NETS["mlp"]), seed=42).instance()
    values = 0.5 * (instance.milp.lower + instance.milp.upper)
    here = linearise(instance, values)
    there = linearise(instance.on_device(torch.device(place_on)), values)
    assert there.values == pytest.approx(here.values, rel=1e-9, abs=1e-12)
    assert there.jacobian.toarray() == pytest.approx(here.jacobian.toarray(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("place_on", ["cpu", pytest.param("cuda", marks=cuda)])
def test_sequential_steps_elsewhere_end_in_a_point_verified_here(
    place_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = water_potability(n=4, net=frozen(NETS["mlp"]), seed=42)
    incumbent = Run.incumbent
    here = SequentialMIP(max_failed_starts=2).solve(problem, time_limit=LONG, seed=1)
    monkeypatch.setattr(
        Run, "incumbent", lambda begun, **_: incumbent(begun, screen_on=torch.device(place_on))
    )
    there = SequentialMIP(max_failed_starts=2, device=place_on).solve(
        problem, time_limit=LONG, seed=1
    )
    assert problem.verify(there).feasible
    assert problem.verify(there).objective == there.objective == here.objective


def test_a_network_elsewhere_that_is_not_finite_is_named() -> None:
    instance = water_potability(n=2, net=frozen(NETS["mlp"]), seed=42).instance()
    there = instance.on_device(torch.device("cpu"))
    for net in (instance.predictors[0].net, there.predictors[0].net.net):
        net[0].weight.data.fill_(1e308)
    with pytest.raises(ProblemError, match=r"layer 0 \(Linear\) is NaN or infinite"):
        linearise(there, instance.milp.upper.clip(-1e3, 1e3))
