"""``python -m ddmip_lib solve model.mps --map map.json --out solution.json``, and other commands.

Exit statuses: 0, the solution is optimal, or within the gap that was asked for, or `verify` found
the point feasible; 1, a feasible point was found, or `verify` found the point infeasible; 2, the
arguments or files are wrong; 3, the problem was proved infeasible; 4, no feasible point was found;
5, a fault of the library. Ctrl-C writes what was found until then.
"""

import argparse
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import ProblemError, UnsupportedNetworkError

# Problem, solution and methods are imported by the commands: --help takes no time.

OPTIMAL, FEASIBLE, WRONG_INPUT, INFEASIBLE, NOTHING_FOUND, FAULT = range(6)
"""Exit statuses."""
CLOSED_GAP = ("optimal", "gap_limit")
"""Statuses of a solution whose gap is proved to be as small as it was asked for."""
DEFAULT_SECONDS = 60.0
"""Time limit of `solve`."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments; by default those of the process.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    SystemExit
        With status 2 if the arguments are wrong, or 0 after ``--help``.

    Examples
    --------
    >>> main(["verify", "nowhere.mps", "nowhere.sol"])  # reports it on stderr
    2
    """
    given = _parser().parse_args(arguments)
    try:
        status: int = given.run(given)
    except (ValueError, UnsupportedNetworkError, OSError, ImportError) as error:
        print(f"ddmip_lib {given.command}: {error}", file=sys.stderr)
        return WRONG_INPUT
    except Exception:
        traceback.print_exc()
        return FAULT
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ddmip_lib",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    solve = _command(commands, "solve", _solve, "solve a problem")
    solve.add_argument("--out", type=Path, help=".json or .sol file; JSON on stdout if left out")
    solve.add_argument("--start", type=Path, help=".json or .sol file with a start")
    solve.add_argument("--time-limit", type=float, default=DEFAULT_SECONDS, help="seconds")
    solve.add_argument("--seed", type=int, default=0)
    solve.add_argument("--gap", type=float, help="relative gap at which the run ends")
    solve.add_argument("--target", type=float, help="objective at which the run ends")
    solve.add_argument("--threads", type=int, help="number of threads")
    solve.add_argument("--quiet", action="store_true", help="no progress on stderr")
    verify = _command(commands, "verify", _verify, "verify a point")
    verify.add_argument("point", type=Path, help=".json or .sol file")
    verify.add_argument("--names", type=Path, help="JSON file of an exported model")
    export = _command(commands, "export", _export, "write a model without networks")
    export.add_argument("--out", type=Path, required=True, help=".mps or .lp file")
    export.add_argument("--relaxation", action="store_true", help="allow more points: a bound")
    _command(commands, "describe", _describe, "print what is in a problem")
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], purpose: str
) -> argparse.ArgumentParser:
    """Add a command that takes the files of a problem."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=purpose, description=purpose)
    command.set_defaults(run=run)
    command.add_argument("model", type=Path, help="MPS, LP or CIP file, possibly .gz")
    command.add_argument("--map", type=Path, help="JSON file: which variables networks connect")
    command.add_argument("--net", type=Path, action="append", help="in place of the map's network")
    command.add_argument("--trust", action="store_true", help="load pickles, which run any code")
    return command


def _problem(given: argparse.Namespace) -> Any:
    from .model.problem import NeuralMIP

    if given.map is None:
        raise ProblemError("no network is named: add --map map.json.")
    return NeuralMIP.read(given.model, given.map, given.net, given.trust)


def _solve(given: argparse.Namespace) -> int:
    from .portfolio import solve

    _require_writable(given.out)
    if not given.quiet:
        logging.basicConfig(format="%(message)s")  # on stderr
        logging.getLogger("ddmip_lib").setLevel(logging.INFO)
    problem = _problem(given)
    if given.start is not None:
        problem.set_start(given.start)
    solution = solve(
        problem,
        given.time_limit,
        given.seed,
        gap=given.gap,
        target=given.target,
        threads=given.threads,
    )
    if not given.quiet:
        print(solution, file=sys.stderr)
        if not solution.found:
            print(solution.report(), file=sys.stderr)
    if given.out is None:
        print(solution.to_json())
    elif given.out.suffix == ".json":
        solution.to_json(given.out)
    elif solution.found:
        solution.to_sol(given.out)
    else:
        print(f"{given.out} was not written: there is no feasible point.", file=sys.stderr)
    if not solution.found:
        return INFEASIBLE if solution.status == "infeasible" else NOTHING_FOUND
    return OPTIMAL if solution.status in CLOSED_GAP else FEASIBLE


def _require_writable(out: Path | None) -> None:
    """Raise an error before the run if its result could not be written."""
    if out is None:
        return
    if out.suffix not in (".json", ".sol"):
        raise ProblemError(f"--out {out} must end in .json or .sol.")
    if not out.resolve().parent.is_dir():
        raise ProblemError(f"--out {out}: there is no such folder; make it first.")


def _verify(given: argparse.Namespace) -> int:
    from .model.solution import Solution
    from .proofs.export import verify_values

    values = given.point
    if given.point.suffix == ".json":
        values = Solution.from_json(given.point).by_name()
    check = verify_values(_problem(given), values, given.names)
    print(check)
    return 0 if check.feasible else 1


def _export(given: argparse.Namespace) -> int:
    from .proofs.export import export_model

    about = export_model(_problem(given), given.out, given.relaxation)
    print(f"{given.out}: {about['kind']} model", *about["relaxed"], sep="\n  ", file=sys.stderr)
    return OPTIMAL


def _describe(given: argparse.Namespace) -> int:
    from .portfolio import describe

    print(describe(_problem(given)))
    return OPTIMAL


if __name__ == "__main__":
    sys.exit(main())
