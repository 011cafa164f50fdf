"""The same runs by two states of the code: `python -m tools.compare_runs run FILE`, then `compare
BEFORE AFTER`.

`run` repeats a sample of the stored rows, and every method on small problems with the reference
networks, and writes what came out. The sample is drawn by a rule, not by hand: of the stored runs
that other code than today's made and that ended by themselves, quickly and on a CPU, one for each
method, problem, network and state of the code, the one whose key hashes lowest. `compare` lists
every run whose status, iterations, objective or bound differ; a run that reached its time limit on
either side shows nothing and is only counted. `record` writes both sides and what follows from them
for stored rows into ``data/results`` (see `experiments.equivalence`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ddmip_book.experiments.case import Case
from ddmip_book.experiments.execute import build
from ddmip_book.experiments.grids import EXPERIMENTS
from ddmip_book.experiments.methods import METHODS, solver_of
from ddmip_book.experiments.networks import networks_of
from ddmip_book.experiments.results import load
from ddmip_book.experiments.rows import Row
from ddmip_book.networks import load_npz
from experiments.code_hash import method_hash
from experiments.equivalence import FILE, is_todays, kind_of, made_by, read_known

QUICK = 20.0
"""Seconds that a stored run may have taken to be repeated, and the limit of exact runs on the
reference networks.
"""
PLENTY = 120.0
"""The limit of all others: they end by themselves, also on a busy machine."""
AT_A_LIMIT = ("time_limit", "memory_limit", "killed")
PEERS = ("gurobi-ml", "omlt-highs")
"""Not compared: their packages are an extra."""
WATER = ("2x16", "4x32", "6x64", "6x128")
NETWORKS = Path("data/networks")
STORED = Path("data/results")
TOLERANCE = 1e-9
COMPARED = ("status", "iterations", "objective", "bound")
PROCESSOR = "processor:"
Outcome = Mapping[str, Any]


def sample() -> list[Row]:
    """The stored rows that are repeated, quickest first."""
    cells: dict[tuple[str, ...], list[Row]] = {}
    known = read_known(STORED)
    for row in (row for experiment in EXPERIMENTS for row in load(experiment)):
        quick = row.seconds is not None and row.seconds <= min(QUICK, row.time_limit / 2)
        here = row.device == "cpu" and row.method not in PEERS and row.weights.get("files")
        if row.status not in AT_A_LIMIT and quick and here and not is_todays(row, known):
            cell = (row.method, row.problem, row.network, str(made_by(row)))
            cells.setdefault(cell, []).append(row)
    chosen = [
        min(rows, key=lambda row: hashlib.sha256(row.key.encode()).hexdigest())
        for rows in cells.values()
    ]
    return sorted(chosen, key=lambda row: (row.seconds or 0.0, row.key))


def reference_cases() -> Iterator[Case]:
    """Every method on every reference network; what proves something on the smallest ones alone."""
    for method in (name for name in METHODS if name not in PEERS):
        proves = METHODS[method].exact or method == "certificate"
        size, limit = (2, QUICK) if proves else (6, PLENTY)
        for network in WATER[:1] if proves else WATER:
            yield Case("reference", "water", network, size, 42, method, limit)
        for problem, network in (("trees", "2x16"), ("trees", "8x32"), ("site_care", "2x16")):
            if network == "2x16" or not proves:
                yield Case("reference", problem, network, 3, 42, method, limit)


def reference_networks(case: Case, folder: Path) -> list[nn.Module]:
    """One for water, one for each species (in the order of their names) for trees."""
    pattern = (
        f"water_{case.network}.npz" if case.problem == "water" else f"tree_{case.network}_*.npz"
    )
    return [load_npz(path) for path in sorted(folder.glob(pattern))]


def outcome(case: Case, nets: list[nn.Module]) -> dict[str, Any]:
    """What is compared, and the processor time that it took. That a method refuses a problem is an
    outcome too.
    """
    cpu = time.process_time()
    try:
        found = solver_of(case.method).solve(
            build(case, nets), time_limit=case.time_limit, seed=case.seed
        )
    except (TypeError, ValueError) as refused:
        return {
            "status": f"refused: {type(refused).__name__}",
            "iterations": None,
            "objective": None,
            "bound": None,
        }
    steps = len(found.history) or found.details.get("steps")
    return {
        "status": found.status,
        "iterations": steps,
        "objective": found.objective,
        "bound": found.bound,
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }


def cases(like: Path | None) -> list[tuple[Case, bool]]:
    """The runs of the sample, or those that another file holds; True for the stored ones."""
    if like is None:
        stored = [row.case for row in sample()]
    else:
        wanted = json.loads(like.read_text())
        rows = (row for experiment in EXPERIMENTS for row in load(experiment))
        stored = list({row.key: row.case for row in rows if row.key in wanted}.values())
    return [(case, True) for case in stored] + [(case, False) for case in reference_cases()]


def run_case(case: Case, stored: bool) -> dict[str, Any]:
    """The outcome of one run, and the hash of the code that made it."""
    torch.set_num_threads(1)
    nets = networks_of(case, STORED / "networks") if stored else reference_networks(case, NETWORKS)
    return {"code": method_hash(case.method, case.problem), **outcome(case, nets)}


def run(file: Path, like: Path | None = None, processes: int = 1) -> None:
    """Run what `file` does not hold yet, in so many processes; it is rewritten after every run, so
    that a call continues where the one before was stopped.
    """
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    jobs = [job for job in cases(like) if job[0].key not in found]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_case, *job): job[0].key for job in jobs}
        for number, ended in enumerate(as_completed(running), 1):
            key = running[ended]
            found[key] = ended.result()
            part = file.with_suffix(".part")
            part.write_text(json.dumps(found, indent=1) + "\n")
            part.replace(file)
            print(f"{number} of {len(jobs)}  {key}: {found[key]}", flush=True)


def differences(before: Outcome, after: Outcome) -> dict[str, list[Any]]:
    """By field: both values, where they are not the same; objectives and bounds but for the last
    digits.

    >>> differences(
    ...     {"status": "converged", "iterations": 4, "objective": 2.0, "bound": None},
    ...     {"status": "converged", "iterations": 5, "objective": 2.0 + 1e-12, "bound": None},
    ... )
    {'iterations': [4, 5]}
    """
    found = {}
    for name in COMPARED:
        one = before[name]
        other = after[name]
        if (
            isinstance(one, float)
            and isinstance(other, float)
            and abs(one - other) <= TOLERANCE * max(1.0, abs(one))
        ):
            continue
        if one != other:
            found[name] = [one, other]
    return found


def at_a_limit(*runs: Outcome) -> bool:
    return any(run["status"] in AT_A_LIMIT for run in runs)


def compare(
    before: dict[str, Outcome], after: dict[str, Outcome]
) -> dict[str, dict[str, list[Any]]]:
    """By key: what differs between two sides; runs that only one of them has are an error."""
    if set(before) != set(after):
        alone = sorted(set(before) ^ set(after))
        raise SystemExit(
            f"{len(alone)} runs are on one side alone, such as {alone[0]}: let both sides run to"
            " their end"
        )
    ended = [key for key in before if not at_a_limit(before[key], after[key])]
    return {key: found for key in ended if (found := differences(before[key], after[key]))}


def record(before: dict[str, Outcome], after: dict[str, Outcome], name: str) -> list[str]:
    """Store both sides as ``data/results/comparisons/NAME.json`` and what they show in
    ``code.json``.

    Code that made stored rows is entered as the same as today's where every run repeated from it
    ended as it is stored, before and after; the code before, on which rests what was shown earlier,
    where every run of it ended as after. Differences keep the cause that someone wrote beside them;
    one between a stored row and its repetition does not count against the code where the cause
    begins with `PROCESSOR`: the row's own commit, run here, ends as today's does. Returns a line
    for each difference.
    """
    file = STORED / "comparisons" / f"{name}.json"
    rows = {row.key: row for row in sample()}
    stored: dict[str, Outcome] = {}
    for key, row in rows.items():
        stored[key] = {field: getattr(row, field) for field in COMPARED}
    found = {
        "before and after": compare(before, after),
        "stored and before": compare(stored, {key: before[key] for key in rows}),
    }
    listed = with_causes(found, file)
    sides = {"stored": stored, "before": before, "after": after}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"differences": listed, **sides}, indent=1) + "\n")

    changed = set(found["before and after"])
    by_code = set(found["stored and before"]) - by_processor(listed["stored and before"])
    evidence = gather_evidence(rows, before, changed, changed | by_code)
    known = {kind: dict(codes) for kind, codes in read_known(STORED).items()}
    for (kind, code), differs in evidence.items():
        ended = [key for key in differs if not at_a_limit(stored[key], before[key], after[key])]
        now = {after[key]["code"] for key in ended}
        if now and code not in now and not any(differs[key] for key in ended):
            known.setdefault(kind, {})[code] = {
                "same_as": now.pop(),
                "runs": len(ended),
                "shown_by": f"comparisons/{file.name}",
            }
    (STORED / FILE).write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return [f"{pair}  {key}: {what}" for pair, keys in listed.items() for key, what in keys.items()]


def with_causes(found: dict[str, dict[str, Any]], file: Path) -> dict[str, dict[str, Any]]:
    """Add to each difference the cause that someone wrote beside it in the file of before."""
    causes = json.loads(file.read_text())["differences"] if file.is_file() else {}
    listed: dict[str, dict[str, Any]] = {}
    for pair, differing in found.items():
        written = causes.get(pair, {})
        listed[pair] = {}
        for key, what in differing.items():
            listed[pair][key] = {**what, "cause": written.get(key, {}).get("cause", "")}
    return listed


def by_processor(differing: dict[str, Any]) -> set[str]:
    """Return the runs whose difference comes from another processor."""
    return {key for key, what in differing.items() if what["cause"].startswith(PROCESSOR)}


def gather_evidence(
    rows: dict[str, Row], before: dict[str, Outcome], changed: set[str], counted: set[str]
) -> dict[tuple[str, str], dict[str, bool]]:
    """Return the runs that speak of each state of the code, and whether each speaks against it."""
    evidence: dict[tuple[str, str], dict[str, bool]] = {}
    for key, row in rows.items():
        kind = kind_of(row)
        evidence.setdefault((kind, str(made_by(row))), {})[key] = key in counted
        evidence.setdefault((kind, before[key]["code"]), {}).setdefault(key, key in changed)
    return evidence


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--like", type=Path, help="repeat the runs of this file")
    running.add_argument("--processes", type=int, default=1, help="runs side by side")
    for name in ("compare", "record"):
        command = commands.add_parser(name)
        command.add_argument("before", type=Path)
        command.add_argument("after", type=Path)
        if name == "record":
            command.add_argument("name", help="of the comparison, such as the commit before")
    options = parser.parse_args()
    if options.command == "run":
        run(options.file, options.like, options.processes)
        return 0
    before, after = (json.loads(file.read_text()) for file in (options.before, options.after))
    if options.command == "record":
        print("\n".join(record(before, after, options.name)) or "no difference")
        return 0
    found = compare(before, after)
    print("\n".join(f"{key}: {what}" for key, what in found.items()) or "no difference")
    limits = sum(at_a_limit(before[key], after[key]) for key in before)
    print(f"{len(before)} runs, {limits} of them at a limit and not compared, {len(found)} differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
