"""``python -m experiments run|status|table|verify|prove|add``."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from ddmip_book.experiments.cluster import cluster_client
from ddmip_book.experiments.grids import EXPERIMENTS, PROFILES, grid
from ddmip_book.experiments.results import Results
from ddmip_book.experiments.rows import Row
from ddmip_book.experiments.runner import missing
from ddmip_book.experiments.store import Store, results_folder
from ddmip_book.experiments.verify import verify_rows
from .equivalence import account, read_known
from .proofs import prove_rows
from .runner import expected_seconds, run
from .worker import CaseFailed


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser(
        "run", help="run what is missing of an experiment, and resume where it was stopped"
    )
    one.add_argument("experiment", choices=EXPERIMENTS)
    one.add_argument("--profile", choices=PROFILES, default="quick")
    one.add_argument(
        "--workers", type=int, default=1, help="runs side by side; timed runs want one"
    )
    one.add_argument("--device", default="cpu")
    one.add_argument("--memory", type=float, default=8192.0, help="MiB that one run may hold")
    one.add_argument("--only", default="", help="only cases whose key contains this")
    where = one.add_mutually_exclusive_group()
    where.add_argument(
        "--scheduler", default="", metavar="ADDRESS", help="of a Dask cluster that runs the cases"
    )
    where.add_argument(
        "--dask", choices=["local"], help="a Dask cluster of --workers processes on this machine"
    )
    for name, what in (("ca", "authority"), ("cert", "certificate"), ("key", "key")):
        one.add_argument(
            f"--tls-{name}",
            default="",
            metavar="FILE",
            help=f"{what}, for a scheduler at tls://...",
        )
    status = commands.add_parser("status", help="what is done, what is missing, which code made it")
    status.add_argument("--missing", action="store_true", help="name every missing case")
    table = commands.add_parser("table", help="means over the seeds, one line for each setting")
    table.add_argument("experiment", choices=EXPERIMENTS)
    check = commands.add_parser(
        "verify", help="recompute stored objectives from points and weights"
    )
    check.add_argument("experiments", nargs="*", help="some of " + ", ".join(EXPERIMENTS))
    prove = commands.add_parser(
        "prove", help="prove what enumeration called optimal, outside the solver that said it"
    )
    prove.add_argument("--seconds", type=float, default=600.0, help="for each row")
    add = commands.add_parser("add", help="take over rows of a file that another machine wrote")
    add.add_argument("file", type=Path)
    for each in (one, status, table, check, prove, add):
        each.add_argument("--folder", type=Path, default=None, help="instead of data/results")
    options = parser.parse_args(argv)
    unknown = [name for name in getattr(options, "experiments", []) if name not in EXPERIMENTS]
    if unknown:
        parser.error(
            f"there is no experiment {', '.join(unknown)}: choose among {', '.join(EXPERIMENTS)}"
        )
    return options


def _status(folder: Path, name_missing: bool) -> None:
    known = read_known(folder)
    for experiment in EXPERIMENTS:
        cases = grid(experiment, "full")
        content = Store(experiment, folder).content()
        rows = content.rows
        left = missing(cases, rows)
        keys = {case.key for case in cases}
        hours = sum(expected_seconds(case, rows) for case in left) / 3600
        word = "complete" if not left else f"{len(left)} missing, about {hours:.1f} h one at a time"
        print(f"{experiment}  {len(cases) - len(left)} of {len(cases)} cases: {word}")
        for line in [*account(rows, known), *content.problems]:
            print(f"    {line}")
        extra = sum(row.key not in keys for row in rows)
        if extra:
            print(f"    {extra} records belong to no case of the full profile")
        for (method, device), number in Counter(
            (case.method, case.device) for case in left
        ).items():
            print(f"    missing: {number} x {method} on {device}")
        if name_missing:
            for case in left:
                print(f"      {case.key}")


def _table(rows: list[Row]) -> None:
    results = Results(rows)
    names = ("problem", "network", "size", "method", "device")
    columns = {"objective": 11, "objective_last": 16, "bound": 9, "seconds": 9, "converged": 11}
    heads = "".join(f"{name:>{width}}" for name, width in columns.items())
    print(f"{'setting':<28}{'method':<20}{'runs':>5}{heads}")
    for setting in dict.fromkeys(tuple(getattr(row, name) for name in names) for row in rows):
        cell = results.where(**dict(zip(names, setting, strict=True)))
        numbers = "".join(
            f"{cell.values(name).mean():>{width}.4g}" for name, width in columns.items()
        )
        problem, network, size, method, device = setting
        name = f"{problem} {network} {size}" + ("" if device == "cpu" else f" {device}")
        print(f"{name:<28}{method:<20}{len(cell):>5}{numbers}")


def main(argv: list[str] | None = None) -> int:
    """Carry out one command; the exit status is 1 where something failed or a stored row is
    wrong.
    """
    try:
        return _carry_out(_arguments(argv))
    except (CaseFailed, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 1


def _carry_out(options: argparse.Namespace) -> int:
    folder = options.folder or results_folder(writing=options.command in ("run", "prove", "add"))
    if options.command == "run":
        local = max(1, options.workers) if options.dask else 0
        with cluster_client(
            options.scheduler, local, options.tls_ca, options.tls_cert, options.tls_key
        ) as client:
            found = run(
                options.experiment,
                options.profile,
                options.workers,
                options.device,
                options.folder,
                options.memory,
                only=options.only,
                client=client,
            )
        print(f"{len(found)} rows in {Store(options.experiment, folder).path}")
    elif options.command == "status":
        _status(folder, options.missing)
    elif options.command == "table":
        _table(Store(options.experiment, folder).rows())
    elif options.command == "verify":
        known = [row for name in EXPERIMENTS for row in Store(name, folder).rows()]
        rows = [row for row in known if row.experiment in (options.experiments or EXPERIMENTS)]
        good, bad, skipped = verify_rows(rows, folder / "networks", known=known)
        print(f"{good} records hold, {bad} are wrong, {skipped} could not be checked here")
        return int(bad > 0)
    elif options.command == "prove":
        prove_rows(
            [row for name in EXPERIMENTS for row in Store(name, folder).rows()],
            folder,
            options.seconds,
        )
    else:
        _add(options.file, folder)
    return 0


def _add(file: Path, folder: Path) -> None:
    found = Store(file.stem, file.parent).rows()
    for experiment in {row.experiment for row in found}:
        store = Store(experiment, folder)
        with store.writing():
            known = {row.key for row in store.rows()}
            new = [row for row in found if row.experiment == experiment and row.key not in known]
            for row in new:
                store.append(row)
        print(f"{len(new)} records added to {store.path}")


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: `... table e1 | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
