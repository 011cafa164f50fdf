"""Full profiles of the small experiments, run from nothing into a scratch folder: `make nightly`.

Every row is verified with the networks that it was made with, and the means stand beside those that
are stored. Networks are trained anew, and on another machine they come out a little different: the
means are to be read, not asserted. It fails where a run fails or a row does not hold.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ddmip_book.experiments import Results, load
from ddmip_book.experiments.verify import verify_rows
from experiments import run
from experiments.worker import CaseFailed
from tools.notebooks import BUILD

# An experiment, and what the keys of the chosen cases contain: together about a quarter of an hour.
SMALL = (("e3", "/ssg"), ("e3", "/dd"), ("e5", "/enumeration"), ("e5", "/dd"), ("e4", "/fc/"))


def compared(here: Results, stored: Results) -> list[str]:
    """For each method: how many cases ran, and the mean objective of those that both have, here and
    there.
    """
    lines = []
    for method in here.distinct("method"):
        new = {row.key: row.objective for row in here.where(method=method)}
        old = {row.key: row.objective for row in stored.where(method=method)}
        shared = [key for key in new if key in old]
        now = mean([new[key] for key in shared])
        before = mean([old[key] for key in shared])
        lines.append(f"{method:<20}{len(new):>4} runs, mean objective {now} here, {before} stored")
    return lines


def mean(values: Sequence[float | None]) -> str:
    """The mean of those that are there.

    >>> mean([1.0, None, 2.0]), mean([None])
    ('1.5', 'none')
    """
    found = [value for value in values if value is not None]
    return f"{sum(found) / len(found):.4g}" if found else "none"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run small experiments in full.")
    parser.add_argument("--folder", type=Path, default=BUILD / "nightly")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    wrong = 0
    for experiment, only in SMALL:
        try:
            rows = run(experiment, "full", folder=folder, only=only)
        except CaseFailed as problem:
            print(problem, file=sys.stderr)
            return 1
        chosen = Results([row for row in rows if only in row.key])
        good, bad, skipped = verify_rows(list(chosen), folder / "networks")
        wrong += bad
        print(
            f"\n{experiment}, cases with {only!r}: {good} records hold, {bad} are wrong, {skipped}"
            " were not checked"
        )
        print("\n".join(compared(chosen, load(experiment))), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
