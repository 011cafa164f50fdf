"""E1 in tables: how runs ended, who holds more on the same instance, and who held the same
sooner.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import binomtest

from ..grids import E1_NETWORKS, E1_SIZES, FIRST
from ..results import Results, qualifying_pairs
from ..rows import Row
from . import NAMES, Columns, columns, mean, rounded, whole


def endings(full: Results, methods: Sequence[str] = ("dd-paper", "dd", "bigm", "sos1")) -> Columns:
    """Of each method, how many runs ended by themselves and how many were ended."""
    rows = []
    for method in methods:
        runs = full.where(method=method)
        own = sum(row.status == "converged" or row.ended for row in runs)
        memory = sum(row.status == "memory_limit" for row in runs)
        rows.append([NAMES[method], len(runs), own, len(runs) - own - memory, memory])
    return columns(
        ["method", "runs", "ended by themselves", "ended by cap or clock", "out of memory"], rows
    )


def stored(cases: Iterable[tuple[str, str]], full: Results) -> Columns:
    """Cases of the grid, given as (method, key), and how many of them are stored."""
    known = {row.key for row in full}
    keys: dict[str, list[str]] = {}
    for method, key in cases:
        keys.setdefault(method, []).append(key)
    rows = [
        [NAMES[method], len(own), sum(key in known for key in own)] for method, own in keys.items()
    ]
    return columns(["method", "cases", "stored"], rows)


def live(rows: Results) -> Columns:
    """Runs of one instance: what they began with, hold, held last, and proved."""
    lines = [
        [
            NAMES[row.method],
            *map(whole, (row.untreated, row.objective, row.objective_last, row.bound)),
            rounded(row.seconds),
        ]
        for row in rows
    ]
    return columns(["method", "untreated", "best", "last", "bound", "seconds"], lines)


def largest(rows: Results) -> Columns:
    """The headline case, and what ended each run."""
    lines = [
        [
            NAMES[row.method],
            *map(whole, (row.untreated, row.objective, row.bound)),
            rounded(row.seconds),
            row.status.replace("_", " ") + ("" if row.why is None else f": {row.why}"),
        ]
        for row in rows
    ]
    return columns(["method", "untreated", "potable", "bound", "seconds", "ended by"], lines)


def signs(full: Results, method: str, network: str | None = None) -> list[int]:
    """For each pair with Big-M: 1 where the method holds more, 0 as much, -1 less.

    A Big-M that was ended without a point counts as the untreated one that it was given.
    """
    exact = full.where(method="bigm", **({} if network is None else {"network": network}))
    pairs = [(other, row) for row in exact if (other := full.beside(row, method)) is not None]
    return [int(np.sign(held(other) - held(row, other.untreated))) for other, row in pairs]


def held(row: Row, otherwise: float | None = None) -> float:
    """The verified objective, or what counts instead where the run has none."""
    return float(row.objective if row.objective is not None else otherwise or 0.0)


def against_exact(full: Results, methods: Sequence[str] = ("dd-paper", "dd")) -> Columns:
    """Pairs with Big-M on the same instance, by settings and network."""
    rows = []
    for method in methods:
        for network in E1_NETWORKS:
            found = signs(full, method, network)
            rows.append(
                [f"{NAMES[method]}, {network}", len(found), *(found.count(s) for s in (1, 0, -1))]
            )
    return columns(["method and network", "pairs", "more than Big-M", "as many", "fewer"], rows)


def shares(full: Results) -> Columns:
    """Mean potable fraction by network: untreated, with the paper's settings, with our defaults."""
    rows = []
    for network in E1_NETWORKS:
        pairs = [
            (row, full.beside(row, "dd")) for row in full.where(method="dd-paper", network=network)
        ]
        values = [
            (row.size, row.untreated or 0.0, held(row), held(ours))
            for row, ours in pairs
            if ours is not None
        ]
        means = [mean([each[k] / each[0] for each in values]) for k in (1, 2, 3)]
        rows.append([network, len(values), *means, sum(each[3] < each[2] for each in values)])
    names = [
        "network",
        "runs",
        "untreated",
        "paper's settings",
        "our defaults",
        "runs in which ours hold fewer",
    ]
    return columns(names, rows)


def of_best(full: Results, market: Results) -> dict[str, list[tuple[float, bool]]]:
    """By network, for every run of the paper's settings: its fraction of the best stored count, and
    whether that is n.
    """
    found: dict[str, list[tuple[float, bool]]] = {network: [] for network in E1_NETWORKS}
    for row in full.where(method="dd-paper", time_limit=300.0):
        instance = {"network": row.network, "size": row.size, "seed": row.seed}
        rivals = [
            *full.where(**instance).values("objective"),
            *market.where(**instance).values("objective"),
        ]
        best = float(np.nanmax(rivals))
        found[row.network].append((held(row) / best, best == row.size))
    return found


def near(portions: dict[str, list[tuple[float, bool]]]) -> Columns:
    """Mean and worst of `of_best`, by network, and on the instances where the best count is the
    optimum.
    """
    rows = [[network, *_span([share for share, _ in runs])] for network, runs in portions.items()]
    proved = [share for runs in portions.values() for share, known in runs if known]
    every = [share for runs in portions.values() for share, _ in runs]
    rows += [["all", *_span(every)], ["optimum known to be n", *_span(proved)]]
    return columns(["network", "runs", "mean fraction", "worst fraction"], rows)


def _span(values: Sequence[float]) -> list[object]:
    return [len(values), mean(values), round(min(values), 2)] if values else [0, None, None]


def ratios(full: Results, method: str) -> Columns:
    """Times to the same objective by network and size: how many runs qualify, their median, how
    many reach 10, 100.
    """
    pairs = qualifying_pairs(full, method)
    rows = []
    for network in E1_NETWORKS:
        for size in E1_SIZES:
            own = [
                ratio for exact, _, ratio in pairs if (exact.network, exact.size) == (network, size)
            ]
            if own:
                rows.append([f"{network}, n = {size}", *_counts(own)])
        own = [ratio for exact, _, ratio in pairs if exact.network == network]
        if own:
            rows.append([f"{network}, all n", *_counts(own)])
    names = ["network and samples", "qualify", "median ratio", "10 or more", "100 or more", "never"]
    return columns(names, rows)


def _counts(own: Sequence[float]) -> list[object]:
    found = np.array(own)
    return [
        len(own),
        round(float(np.median(found))),
        *(int((found >= least).sum()) for least in (10, 100)),
        int((found == 0).sum()),
    ]


def reached(
    full: Results, method: str, network: str, least: float = 100, sizes: Sequence[int] = E1_SIZES
) -> str:
    """How many qualifying runs of a network have at least that ratio, as "17 of 23"."""
    own = [
        r
        for row, _, r in qualifying_pairs(full, method)
        if row.network == network and row.size in sizes
    ]
    return f"{sum(r >= least for r in own)} of {len(own)}"


def reached_by_size(full: Results, method: str, network: str, least: float = 100) -> str:
    """The same size by size, as "3 of 5 at $n = 25$, 5 of 5 at $n = 50$", where runs qualify."""
    own: dict[int, list[bool]] = {size: [] for size in E1_SIZES}
    for row, _, ratio in qualifying_pairs(full.where(network=network), method):
        own[row.size].append(ratio >= least)
    return ", ".join(
        f"{sum(found)} of {len(found)} at $n = {size}$" for size, found in own.items() if found
    )


def exact_models(rows: Iterable[Row]) -> Columns:
    """Size, build, memory, search and bound of Big-M models."""
    order = {network: place for place, network in enumerate(E1_NETWORKS)}
    chosen = sorted(rows, key=lambda row: (order[row.network], row.size))
    lines = [
        [
            f"{row.network}, n = {row.size}",
            row.details.get("model_variables"),
            rounded(row.build_seconds),
            whole(row.peak_memory),
            row.details.get("nodes"),
            whole(row.objective),
            rounded(None if row.bound is None else row.bound / row.size, 3),
            row.status.replace("_", " "),
        ]
        for row in chosen
    ]
    names = [
        "network and samples",
        "variables",
        "build, s",
        "memory, MiB",
        "nodes",
        "potable",
        "bound / n",
        "ended by",
    ]
    return columns(names, lines)


def forms(full: Results) -> Columns:
    """Big-M beside SOS1 on 2x16, by size: mean counts, and in how many pairs SOS1 holds more or
    fewer.
    """
    rows = []
    for size in E1_SIZES:
        pairs = [
            (row, other)
            for row in full.where(method="sos1", size=size)
            if (other := full.beside(row, "bigm")) is not None
        ]
        more = [int(np.sign(held(row) - held(other))) for row, other in pairs]
        means = [mean([held(pair[k]) for pair in pairs], 1) for k in (1, 0)]
        rows.append(
            [
                size,
                len(pairs),
                *means,
                more.count(1),
                more.count(-1),
                sum(row.ended for row, _ in pairs),
            ]
        )
    names = [
        "samples n",
        "pairs",
        "Big-M, mean potable",
        "SOS1, mean potable",
        "SOS1 more",
        "SOS1 fewer",
    ]
    return columns([*names, "SOS1 called optimal"], rows)


def splits(full: Results) -> Columns:
    """The graph split beside the paper's on 2x16."""
    pairs = [
        (row, other)
        for row in full.where(method="dd-graph")
        if (other := full.beside(row, "dd")) is not None
    ]
    rows = [
        [
            row.size,
            whole(other.objective),
            rounded(other.cpu_seconds),
            whole(row.objective),
            rounded(row.cpu_seconds),
        ]
        for row, other in pairs
    ]
    names = [
        "samples n",
        "paper's split, potable",
        "paper's split, s",
        "graph split, potable",
        "graph split, s",
    ]
    return columns(names, rows)


def with_prices(full: Results, market: Results) -> Columns:
    """Price coordination beside Algorithm 1 and Big-M, by network."""
    rows = []
    for network in E1_NETWORKS:
        priced = market.where(network=network)
        triples = [(full.beside(row, "dd-paper"), full.beside(row, "dd"), row) for row in priced]
        means = []
        for k in range(3):
            found = [row for three in triples if (row := three[k])]
            means.append(mean([held(row) / row.size for row in found]))
        pairs = [(row, other) for row in priced if (other := full.beside(row, "bigm")) is not None]
        lead = [int(np.sign(held(row) - held(other, row.untreated))) for row, other in pairs]
        rows.append(
            [
                network,
                *means,
                len(lead),
                lead.count(1),
                lead.count(-1),
                mean(priced.values("seconds"), 0),
            ]
        )
    names = [
        "network",
        "paper's settings",
        "our defaults",
        "prices",
        "pairs with Big-M",
        "prices more",
    ]
    return columns([*names, "prices fewer", "prices, mean s"], rows)


def behind(table: Columns) -> int:
    """In how many pairs prices hold fewer than Big-M."""
    return sum(int(str(count)) for count in table["prices fewer"])


OVERVIEW = ("prices", "dd", "dd-paper", "bigm")
ABLATED = {
    "prices": "price coordination",
    "prices-random": "random columns instead of priced ones",
    "prices-one-round": "one round of prices, one selection",
}
"""What the tables call variants of the experiment ``ablation``."""


def overview(everyone: Results) -> Columns:
    """Median relative gap to the best stored count by method and network, and runs below Big-M.

    A run of Big-M without a point counts as the untreated samples that it was given.
    """
    grid_runs = everyone.where(network=E1_NETWORKS, size=E1_SIZES)
    best: dict[tuple[str, int, int], float] = {}
    for row in grid_runs:
        best[_instance(row)] = max(best.get(_instance(row), 0.0), held(row, row.untreated))
    lines = []
    for method in OVERVIEW:
        own = grid_runs.where(method=method)
        below = None if method == "bigm" else signs(everyone, method)
        medians = [_median_gap(own.where(network=network), best) for network in E1_NETWORKS]
        fewer = None if below is None else f"{below.count(-1)} of {len(below)}"
        lines.append([NAMES[method], *medians, fewer])
    return columns(["method", *E1_NETWORKS, "runs below Big-M"], lines)


def _instance(row: Row) -> tuple[str, int, int]:
    return row.network, row.size, row.seed


def _median_gap(runs: Results, best: dict[tuple[str, int, int], float]) -> str | None:
    gaps = [1 - held(row, row.untreated) / best[_instance(row)] for row in runs]
    return f"{np.median(gaps):.0%}" if gaps else None


def by_seed(everyone: Results, pairs: Sequence[tuple[str, str]]) -> Columns:
    """Pairs of methods over the units, network and seed: where the mean difference
    over the sizes is positive, and the two-sided sign test.
    """
    lines = []
    for first, second in pairs:
        found = list(_differences(everyone, first, second).values())
        more = sum(value > 0 for value in found)
        fewer = sum(value < 0 for value in found)
        p = binomtest(more, more + fewer).pvalue if more + fewer else 1.0
        name = f"{NAMES[first]} against {NAMES[second]}"
        lines.append([name, len(found), more, fewer, float(f"{p:.1g}")])
    return columns(["methods", "units", "first better", "second better", "p"], lines)


def _differences(everyone: Results, first: str, second: str) -> dict[tuple[str, int], float]:
    """Mean difference of the potable fractions over the sizes, by network and seed."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in everyone.where(method=second, size=E1_SIZES):
        if (other := everyone.beside(row, first)) is not None:
            value = (held(other) - held(row, other.untreated)) / row.size
            found.setdefault((row.network, row.seed), []).append(value)
    return {unit: float(np.mean(values)) for unit, values in found.items()}


def by_exact_seed(full: Results, network: str, size: int) -> Columns:
    """Counts on one network and size, seed by seed: untreated, by Big-M and by Algorithm 1."""
    methods = ("bigm", "dd-paper", "dd")
    lines = []
    for exact in full.where(method="bigm", network=network, size=size):
        found = [full.beside(exact, method) for method in methods]
        counts = [whole(row.objective) if row else None for row in found]
        lines.append([exact.seed, whole(exact.untreated), *counts])
    names = ["seed", "untreated", "Big-M", "paper's settings", "our defaults"]
    return columns(names, sorted(lines, key=lambda line: int(str(line[0]))))


def variants(ablated: Results, full: Results, rival: str = "dd") -> Columns:
    """Price coordination, with random columns, and with one round, against Algorithm 1 on the same
    instances.
    """
    lines = []
    for method, name in ABLATED.items():
        runs = ablated.where(method=method)
        pairs = [(row, other) for row in runs if (other := full.beside(row, rival)) is not None]
        sign = [int(np.sign(held(row) - held(other))) for row, other in pairs]
        gain = np.mean([held(row) / held(other) - 1 for row, other in pairs])
        seconds = float(np.median([row.seconds for row, _ in pairs]))
        counts = [f"{sign.count(k)} of {len(pairs)}" for k in (1, -1)]
        lines.append([name, *counts, f"{gain:+.0%}", rounded(seconds)])
    names = ["variant", "better than our defaults", "worse", "mean difference", "median s"]
    return columns(names, lines)


def tools(others: Results) -> Columns:
    """The other tools' models: size, count, bound, seconds, and what ended them."""
    rows = [
        [
            f"{row.network}, n = {row.size}",
            row.method,
            row.details.get("model_variables"),
            whole(row.objective),
            whole(row.bound),
            rounded(row.seconds),
            _why(row),
        ]
        for row in others
    ]
    names = ["network and samples", "tool", "variables", "potable", "bound", "seconds", "ended by"]
    return columns(names, rows)


def _why(row: Row) -> str:
    message = str(row.details.get("message", row.status))
    return "size limit of the licence" if "licence" in message else message.replace("_", " ")


RIVALS = {"bigm": "as it is", "bigm-crown": "with CROWN ranges", "bigm-started": "started"}
"""What the table calls the exact models of the experiment ``rivals``."""


def at_best(
    rivals: Results, full: Results, market: Results, cells: Iterable[tuple[str, int]]
) -> Columns:
    """Three exact models by cell of the grid: what they hold, the lowest of their bounds, and what
    others hold.
    """
    lines = []
    for network, size in dict.fromkeys(cells):
        instance = {"network": network, "size": size, "seed": FIRST}
        own = rivals.where(**instance)
        holds = [
            whole(row.objective) if (row := own.one(method=method)) else "not run"
            for method in RIVALS
        ]
        bounds = [row.bound for row in own if row.bound is not None]
        others = [full.one(method="dd", **instance), market.one(method="prices", **instance)]
        lines.append(
            [
                f"{network}, n = {size}",
                whole(others[0].untreated) if others[0] else None,
                *holds,
                whole(min(bounds)) if bounds else None,
                *(whole(row.objective) if row else None for row in others),
            ]
        )
    names = [
        "network and samples",
        "untreated",
        *RIVALS.values(),
        "lowest bound",
        "our defaults",
        "prices",
    ]
    return columns(names, lines)
