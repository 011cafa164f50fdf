"""The experiments as data: each profile is a list of cases, seed 42 of every setting first."""

from collections.abc import Callable, Iterable
from itertools import product

from .case import RAW, SEEDS, SENSES, SUITE, Case
from .networks import REACTING

FIRST = SEEDS[0]
CERTIFICATE = 480.0
"""Seconds for a solution and its certificate."""
E1_NETWORKS = ("2x16", "4x32", "6x64", "6x128")
E1_SIZES = (25, 50, 100, 200, 400)
E2_NETWORKS = ("2x16", "4x32", "8x64", "16x128", "32x256", "64x512")
E3_SIZES = (20, 40, 60, 80, 32, 64, 128)
"""The sizes of the paper's results, then those that its text announces."""
HARD_CELLS = {"4x32": (50,), "6x64": (100,), "6x128": (50, 100, 200, 400)}
"""Some cells of E1 where two cores leave many blocks of a certificate open: a GPU is tried as well.
"""
E4_NETWORKS = ("fc", "conv1d", "resnet", "lstm", "attention")
E4_SIZES = (60, 100, 200)
E5_NETWORKS = ("8x32", "16x64", "24x128")
LARGEST = "64x4096"
"""1.06e9 parameters."""
ABLATION = (
    "prices",
    "prices-one-round",
    "prices-no-smoothing",
    "prices-no-scarcity",
    "prices-random",
)
BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)
BUDGET_SIZES = (20, 40, 60, 80, 128)
E7_SEEDS = SEEDS[:3]
E7_RANDOM = ("solve", "sequential", "dd", "dd-graph", "random-points")
"""Methods of E7 that a seed changes: three seeds each."""
E7_FIXED = ("prices", "dd-paper", "ssg", "bigm", "enumeration")
"""Methods of E7 that run once: a seed changes nothing or little in them."""
E7_WALKS = ("relax-walk", "gradient-walk")
E7_PEERS = ("omlt-highs", "gurobi-ml")
MODELS = {
    "blend": 8,
    "ladder": 4,
    "commit": 36,
    "diet": 15,
    "adversarial": 64,
    "sites": 24,
    "integers": 6,
    "jobs": 6,
    "order": 36,
    "wine": 18,
    "city": 45,
    "car": 6,
    "workload": 12,
    "surface": 4,
    "ocean": 64,
    "approvals": 45,
    "knapsack": 12,
    "units": 10,
    "whole": 8,
    "switches": 30,
    "balance": 6,
    "chain": 9,
    "shared": 8,
    "sequence": 12,
    "strip": 16,
    "departments": 30,
    "tiny": 4,
    "box": 10,
    "deep_box": 20,
}
"""The models of the suite, which `experiments.suite` of the project builds, and their free network
inputs.
"""
MINIMISED = (
    "blend",
    "commit",
    "diet",
    "adversarial",
    "integers",
    "jobs",
    "surface",
    "units",
    "whole",
    "balance",
    "shared",
    "tiny",
)
BOXES = ("surface", "box", "deep_box")
"""Models of one ReLU network in a box, as walks through linear regions require."""


def _water(
    experiment: str,
    networks: Iterable[str],
    sizes: Iterable[int],
    seeds: Iterable[int],
    methods: Iterable[str],
    time_limit: float = 300.0,
    device: str = "cpu",
    budget: float | None = None,
) -> list[Case]:
    return [
        Case(experiment, "water", network, size, seed, method, time_limit, device, budget)
        for network, size, seed, method in product(networks, sizes, seeds, methods)
    ]


def e1(profile: str) -> list[Case]:
    """Against the exact model: four networks, five sizes; the exact model of the two large ones on
    seed 42 alone.
    """
    if profile == "quick":
        return _water("e1", ["2x16", "4x32"], [10, 25], [FIRST], ["dd-paper", "dd"], 10.0) + _water(
            "e1", ["2x16"], [10], [FIRST], ["bigm"], 2.0
        )
    decompositions = ("dd-paper", "dd")
    first = _water("e1", E1_NETWORKS, E1_SIZES, [FIRST], decompositions)
    first += _water("e1", E1_NETWORKS, E1_SIZES, [FIRST], ["bigm"])
    first += _water("e1", ["2x16"], E1_SIZES, [FIRST], ["sos1", "dd-graph"])
    first += _water("e1", ["6x128"], [500], [FIRST], ["dd-paper", "dd", "bigm"], 900.0)
    others = SEEDS[1:]
    rest = _water("e1", E1_NETWORKS, E1_SIZES, others, decompositions)
    for seed in others:
        rest += _water("e1", ["2x16", "4x32"], E1_SIZES, [seed], ["bigm"])
        rest += _water("e1", ["2x16"], E1_SIZES, [seed], ["sos1"])
    return first + rest


def e2(profile: str) -> list[Case]:
    """Deeper and wider networks at n = 100, on the CPU and on a GPU."""
    if profile == "quick":
        return _water("e2", ["2x16", "4x32", "8x64"], [20], [FIRST], ["dd-paper"], 120.0)
    cpu = [c for seed in SEEDS for c in _water("e2", E2_NETWORKS[:-1], [100], [seed], ["dd-paper"])]
    exact = _water("e2", ["8x64", "16x128"], [100], [FIRST], ["bigm"])
    last = _water("e2", E2_NETWORKS[-1:], [100], SEEDS, ["dd-paper"])
    gpu = [
        c
        for seed in SEEDS
        for c in _water("e2", E2_NETWORKS, [100], [seed], ["dd-paper-float32"], device="cuda")
    ]
    return cpu + exact + last + gpu


def e3(profile: str) -> list[Case]:
    """The gradient heuristic, and Algorithm 1 with and without multipliers."""
    methods = ("ssg-printed", "ssg", "dd-paper", "dd-no-multipliers", "dd")
    if profile == "quick":
        return _water("e3", ["2x16"], [8, 12], [FIRST], methods, 60.0) + _water(
            "e3", ["2x16"], [8], [FIRST], ["bigm"], 5.0
        )
    heuristics = [c for seed in SEEDS for c in _water("e3", ["2x16"], E3_SIZES, [seed], methods)]
    return heuristics + _water("e3", ["2x16"], E3_SIZES, [FIRST], ["bigm"])


def e4(profile: str) -> list[Case]:
    """Other architectures, the solver unchanged."""
    methods = ("dd-paper", "dd")
    if profile == "quick":
        return _water("e4", E4_NETWORKS, [15], [FIRST], ["dd-paper"], 120.0)
    return [c for seed in SEEDS for c in _water("e4", E4_NETWORKS, E4_SIZES, [seed], methods)]


def e5(profile: str) -> list[Case]:
    """Tree Planting: the two NN blocks, the exact model, enumeration, chance; and the harder
    variant.
    """

    def trees(
        problem: str,
        networks: Iterable[str],
        grid: int,
        seed: int,
        methods: Iterable[str],
        time_limit: float,
    ) -> list[Case]:
        return [
            Case("e5", problem, net, grid, seed, m, time_limit)
            for net, m in product(networks, methods)
        ]

    if profile == "quick":
        quick = trees("trees", ["2x16"], 3, FIRST, ["dd-paper", "dd-barrier", "dd", "random"], 60.0)
        return quick + trees("trees", ["2x16"], 3, FIRST, ["enumeration"], 60.0)
    fast = ("enumeration", "random", "dd-paper", "dd-barrier", "dd")
    found: list[Case] = []
    for seed in SEEDS:
        found += trees("trees", E5_NETWORKS, 6, seed, fast, 300.0)
        found += trees(
            "site_care", ["2x16", "8x32"], 6, seed, ["grid-search", "random", "dd"], 300.0
        )
    for seed in SEEDS:
        found += trees("trees", ["8x32"], 6, seed, ["bigm"], 900.0)
    found += trees("trees", ["16x64", "24x128"], 6, FIRST, ["bigm"], 900.0)
    found += trees("site_care", ["2x16", "8x32"], 6, FIRST, ["bigm"], 300.0)
    return found


def e6(profile: str) -> list[Case]:
    """Beyond the paper: recovery, price coordination and certificates on the instances of E1, E4
    and E5, prices also on those of E3; then n from 100 to 5,000 with samples drawn again and again.
    """
    if profile == "quick":
        quick = _water("e6", ["2x16", "4x32"], [10, 25], [FIRST], ["dd-recover", "prices"], 20.0)
        quick.append(Case("e6", "water", "2x16", 10, FIRST, "certificate", 20.0))
        return [*quick, Case("e6", "trees", "2x16", 3, FIRST, "prices", 20.0)]
    cells = (E1_NETWORKS, E1_SIZES)
    found = _water("e6", *cells, [FIRST], ["prices"], 60.0)
    found += _water("e6", *cells, [FIRST], ["dd-paper-recover", "dd-recover"])
    found += _water("e6", E4_NETWORKS, [100], [FIRST], ["prices"], 60.0)
    found += _water("e6", *cells, [FIRST], ["certificate"], CERTIFICATE)
    for network, sizes in HARD_CELLS.items():
        found += _water(
            "e6", [network], sizes, [FIRST], ["certificate"], CERTIFICATE, device="cuda"
        )
    found += [Case("e6", "trees", net, 6, FIRST, "certificate", CERTIFICATE) for net in E5_NETWORKS]
    found += [
        Case("e6", "site_care", net, 6, FIRST, "certificate", CERTIFICATE)
        for net in ("2x16", "8x32")
    ]
    many = (100, 200, 500, 1000, 2000, 5000)
    found += [Case("e6", "water_repeated", "6x64", n, FIRST, "prices", 600.0) for n in many]
    for seed in SEEDS:
        if seed != FIRST:
            found += _water("e6", *cells, [seed], ["prices"], 60.0)
        found += _water("e6", ["2x16"], E3_SIZES, [seed], ["prices"], 60.0)
        found += [Case("e6", "trees", net, 6, seed, "prices", 60.0) for net in E5_NETWORKS]
        found += [Case("e6", "site_care", net, 6, seed, "prices", 60.0) for net in ("2x16", "8x32")]
    return found


def peers(profile: str) -> list[Case]:
    """Exact models by other libraries, which the extra ``peers`` installs; 2x16 with 20 samples is
    the largest instance here that Gurobi's size-limited licence takes.
    """
    methods = ("gurobi-ml", "omlt-highs", "bigm")
    if profile == "quick":
        return _water("peers", ["2x16"], [2], [FIRST], ["bigm"], 5.0)
    small = _water("peers", ["2x16"], [5, 10, 20, 25], [FIRST], methods, 60.0)
    return small + _water("peers", ["4x32"], [5, 25], [FIRST], methods, 60.0)


def e7(profile: str) -> list[Case]:
    """The suite: every method on every model, 20 s each; walks on networks in a box alone."""

    def case(name: str, seed: int, method: str, seconds: float = 20.0) -> Case:
        sense = SENSES[name in MINIMISED]
        return Case("e7", SUITE, name, MODELS[name], seed, method, seconds, sense=sense)

    if profile == "quick":
        return [
            case(name, FIRST, method, 2.0)
            for name in ("blend", "tiny", "box")
            for method in ("solve", "dd")
        ]
    found = []
    for seed in E7_SEEDS:
        found += [case(name, seed, method) for name, method in product(MODELS, E7_RANDOM)]
        found += [case(name, seed, method) for name, method in product(BOXES, E7_WALKS)]
        if seed == FIRST:
            found += [case(name, seed, method) for name, method in product(MODELS, E7_FIXED)]
    return found + [case(name, FIRST, method) for name, method in product(MODELS, E7_PEERS)]


def reacting(profile: str) -> list[Case]:
    """The grids of E2 and E5 again, with networks trained to be input-sensitive; and one of a
    billion parameters.
    """
    if profile == "quick":
        return _water("reacting", ["8x64" + REACTING], [20], [FIRST], ["dd-paper"], 120.0)
    networks = [network + REACTING for network in E2_NETWORKS]
    found = []
    fast = ("enumeration", "random", "dd-paper", "dd-barrier", "dd")
    for seed in SEEDS[:3]:
        found += _water("reacting", networks, [100], [seed], ["dd-paper"])
        found += _water("reacting", networks[:-1], [100], [seed], ["prices"], 60.0)
        for net, method in product(E5_NETWORKS, fast):
            found.append(Case("reacting", "trees", net + REACTING, 6, seed, method, 300.0))
    found += _water("reacting", networks[2:4], [100], [FIRST], ["bigm"])
    found.append(Case("reacting", "trees", E5_NETWORKS[0] + REACTING, 6, FIRST, "bigm", 300.0))
    gpu = [
        c
        for s in SEEDS
        for c in _water("reacting", networks, [100], [s], ["dd-paper-float32"], device="cuda")
    ]
    return (
        found
        + gpu
        + _water(
            "reacting", [LARGEST + REACTING], [100], [FIRST], ["dd-paper-float32"], device="cuda"
        )
    )


def rivals(profile: str) -> list[Case]:
    """The exact model at its best on the cells of E1 with the two small networks: as it is, with
    ranges by CROWN, and started from the point of price coordination.
    """
    methods = ("bigm", "bigm-crown", "bigm-started")
    if profile == "quick":
        return _water("rivals", ["2x16"], [5], [FIRST], methods, 5.0)
    return _water("rivals", ["2x16", "4x32"], E1_SIZES, [FIRST], methods)


def ablation(profile: str) -> list[Case]:
    """Price coordination without one of its parts."""
    if profile == "quick":
        return _water("ablation", ["2x16"], [10], [FIRST], ABLATION, 10.0)
    networks = E1_NETWORKS[1:3]
    sizes = E1_SIZES[1:3]
    return [
        c for seed in SEEDS[:3] for c in _water("ablation", networks, sizes, [seed], ABLATION, 60.0)
    ]


def budgets(profile: str) -> list[Case]:
    """Sizes of E3 under other budgets, and once under those of SurrogateLIB's own test."""
    methods = ("ssg", "dd-paper", "dd", "prices")
    if profile == "quick":
        return [
            c
            for budget in BUDGETS[::4]
            for c in _water("budgets", ["2x16"], [8], [FIRST], methods, 10.0, budget=budget)
        ]
    found = []
    for seed in SEEDS[:3]:
        for budget in BUDGETS:
            found += _water("budgets", ["2x16"], BUDGET_SIZES, [seed], methods, 60.0, budget=budget)
        found += [
            Case("budgets", RAW, "2x16", n, seed, m, 60.0)
            for n, m in product((20, 50, 100), methods)
        ]
    return found


EXPERIMENTS: dict[str, Callable[[str], list[Case]]] = {
    "e1": e1,
    "e2": e2,
    "e3": e3,
    "e4": e4,
    "e5": e5,
    "e6": e6,
    "e7": e7,
    "peers": peers,
    "reacting": reacting,
    "rivals": rivals,
    "ablation": ablation,
    "budgets": budgets,
}
PROFILES = ("quick", "full")


def grid(experiment: str, profile: str = "full") -> list[Case]:
    """All cases of an experiment, in the order in which they are run.

    >>> len(grid("e2", "quick"))
    3
    """
    if experiment not in EXPERIMENTS:
        raise ValueError(
            f"experiment {experiment!r} is unknown; choose one of {', '.join(EXPERIMENTS)}."
        )
    if profile not in PROFILES:
        raise ValueError(f"profile {profile!r} is unknown; choose 'quick' or 'full'.")
    cases = EXPERIMENTS[experiment](profile)
    assert len({case.key for case in cases}) == len(cases)
    return cases
