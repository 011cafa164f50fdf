"""Everything that `make test` runs after set-up, stage by stage, with the seconds of each at the end.

    python -m tools.run_tests [--only STAGE]

The first stage that fails ends the run with its exit code.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["-m", "pytest", "-q", "-m", "not long", "-n", "2", "--dist", "worksteal", "--durations", "10"]
STAGES: dict[str, list[list[str]]] = {
    "lint": [["-m", "ruff", "check", "."], ["-m", "ruff", "format", "--check", "."], ["-m", "mypy"]],
    "unit": [[*PYTEST, "--doctest-modules", "tests/unit", "tests/project", "ddmip_lib", "book/ddmip_book", "tools"]],
    "notebooks": [[*PYTEST, "tests/notebooks"]],
    "book": [["-m", "tools.build_book"]],
    "pages": [[*PYTEST, "tests/book"]],
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests stage by stage.")
    parser.add_argument("--only", choices=list(STAGES))
    parser.add_argument("--setup-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    seconds, code = {"set-up": arguments.setup_seconds}, 0
    for stage in [arguments.only] if arguments.only else STAGES:
        print(f"\n== {stage}", flush=True)
        start = time.perf_counter()
        for command in STAGES[stage]:
            code = code or subprocess.run([sys.executable, *command], cwd=ROOT).returncode
        seconds[stage] = time.perf_counter() - start
        if code:
            break
    print("\nseconds: " + ", ".join(f"{stage} {spent:.0f}" for stage, spent in seconds.items()))
    print(f"total {sum(seconds.values()):.0f} s: " + (f"FAILED in {stage}" if code else "all passed"))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
