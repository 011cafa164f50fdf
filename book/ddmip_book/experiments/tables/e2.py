"""E2 in tables: which runs satisfy the test, what an iteration costs, and which networks react
at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..grids import E2_NETWORKS
from ..results import Results
from ..rows import Row
from . import Columns, columns, mean, rounded, small, whole

DEVICE_NAMES = {"cpu": "one core", "cuda": "GPU"}
PAPER = ("dd-paper", "dd-paper-float32")
"""Algorithm 1 with the paper's settings, in double and in single precision."""


def met(full: Results) -> Columns:
    """Of each network, how many runs satisfy the paper's test, on each device."""
    rows = []
    for network in E2_NETWORKS:
        own = [full.where(method=PAPER, device=device, network=network) for device in DEVICE_NAMES]
        rows.append(
            [
                network,
                *(f"{int(np.nansum(part.values('converged')))} of {len(part)}" for part in own),
            ]
        )
    return columns(["network", *DEVICE_NAMES.values()], rows)


def costs(mip: Mapping[str, Mapping[str, float]], nn: Mapping[str, Mapping[str, float]]) -> Columns:
    """Milliseconds of an iteration in either block, by network, for each device; arguments: by
    device, by network.
    """
    rows = []
    for network in E2_NETWORKS:
        times = [
            1e3 * part[device][network]
            for device in mip
            for part in (mip, nn)
            if network in part[device]
        ]
        rows.append([network, *(rounded(time) for time in times)])
    names = [
        f"{DEVICE_NAMES[device]}, {block} block, ms" for device in mip for block in ("MIP", "NN")
    ]
    return columns(["network", *names], [row for row in rows if len(row) == len(names) + 1])


def kernels(full: Results, depth_of: Mapping[str, int]) -> Columns:
    """Of the runs on the GPU: seconds, seconds of the NN block, and microseconds for each of its
    kernels.
    """
    rows = []
    for network in E2_NETWORKS:
        own = full.where(device="cuda", method=PAPER, network=network)
        if len(own):
            inner = own.values("seconds_nn")
            each = 1e6 * np.mean(
                inner / (25 * (4 * depth_of[network] + 2) * own.values("iterations"))
            )
            rows.append(
                [network, len(own), mean(own.values("seconds")), mean(inner), rounded(float(each))]
            )
    return columns(["network", "runs", "seconds", "NN block, s", "a kernel, µs"], rows)


def recorded(compared: Sequence[Mapping[str, Any]]) -> Columns:
    """Milliseconds of one NN block: passes recorded, kernel by kernel, and on the processor."""
    taken = {
        (row["network"], row["device"], row["recorded"]): 1e3 * row["nn_seconds"]
        for row in compared
        if row["device"] == "cpu" or row["dtype"] == "float32"
    }
    rows = []
    for network in dict.fromkeys(network for network, *_ in taken):
        played, singly, host = (
            taken[network, *kind] for kind in (("cuda", True), ("cuda", False), ("cpu", False))
        )
        rows.append(
            [network, rounded(played), rounded(singly), rounded(host), rounded(singly / played)]
        )
    return columns(
        ["network", "recorded, ms", "kernel by kernel, ms", "no GPU, ms", "recording gains, times"],
        rows,
    )


def exact(rows: Sequence[Row]) -> Columns:
    """Big-M at n = 100: what it takes to build, and what it holds in the end."""
    lines = [
        [
            f"{row.network}, seed {row.seed}",
            rounded(row.build_seconds),
            whole(row.peak_memory),
            row.status.replace("_", " "),
            *map(whole, (row.untreated, row.objective, row.bound)),
        ]
        for row in rows
    ]
    names = ["network", "build, s", "memory, MiB", "ended by", "untreated", "potable", "bound"]
    return columns(names, lines)


def reactions(runs: Results, seen: Mapping[tuple[str, int], tuple[float, float]]) -> Columns:
    """By network: accuracies, spread and slope (where the weights are stored), and what the runs
    gained.

    `seen` has spread and slope by network and seed.
    """
    lines = []
    for network in E2_NETWORKS:
        rows = list({row.seed: row for row in runs.where(network=network)}.values())
        own = [seen[network, row.seed] for row in rows if (network, row.seed) in seen]
        gained = [(row.objective or 0) - (row.untreated or 0) for row in rows]
        scores = {round(row.test_score, 6) for row in rows if row.test_score is not None}
        lines.append(
            [
                network,
                len(rows),
                mean(list(scores), 3),
                *(
                    rounded(float(np.median([pair[k] for pair in own])), 2) if own else None
                    for k in (0, 1)
                ),
                mean([row.untreated for row in rows if row.untreated is not None], 1),
                mean(gained, 1),
            ]
        )
    names = [
        "network",
        "networks",
        "mean accuracy",
        "spread of logits, median",
        "gradient, median",
        "untreated, mean",
    ]
    return columns([*names, "gained, mean"], lines)


def recipes(full: Results, reacting: Results) -> Columns:
    """The paper's test, the last residual and the samples gained, by how networks were trained, on
    all devices; and what price coordination gains. `reacting` has the plain names.
    """
    lines = []
    for network in E2_NETWORKS:
        parts = [rows.where(network=network, method=PAPER) for rows in (full, reacting)]
        parts.append(reacting.where(network=network, method="prices"))
        met = [f"{int(np.nansum(part.values('converged')))} of {len(part)}" for part in parts[:2]]
        last = [
            small(float(np.median(part.values("primal_residual")))) if len(part) else None
            for part in parts[:2]
        ]
        gained = [mean(part.values("objective") - part.values("untreated"), 1) for part in parts]
        lines.append([network, met[0], last[0], gained[0], met[1], last[1], *gained[1:]])
    own = ("satisfy the test", "median residual", "gained")
    names = [f"{kind}: {name}" for kind in ("protocol of E2", "input-sensitive") for name in own]
    return columns(["network", *names, "input-sensitive: gained by prices"], lines)


def sizes(reacting: Results, parameters_of: Mapping[str, int]) -> Columns:
    """Mean seconds of all iterations on one core and on a GPU, by network with its parameters, and
    where the GPU's went: the NN block, the MIP block, and the remainder (judging points, starting,
    the last verification).
    """
    lines = []
    for network, size in parameters_of.items():
        core, gpu = (
            reacting.where(network=network, method=PAPER, device=device) for device in DEVICE_NAMES
        )
        seconds = gpu.values("seconds")
        inner = gpu.values("seconds_nn")
        outer = gpu.values("seconds_mip")
        spent = [mean(part) for part in (seconds, inner, outer, seconds - inner - outer)]
        lines.append([network, size, mean(core.values("seconds"), 1), *spent])
    return columns(
        [
            "network",
            "parameters",
            "one core, s",
            "GPU, s",
            "NN block, s",
            "MIP block, s",
            "rest, s",
        ],
        lines,
    )
