"""What a process has to wait for: torch imports SymPy and its compiler, for seconds, where one is not careful."""

import subprocess
import sys

from tests.builders.places import ROOT

SCRIPT = """
import sys
from ddmip_lib import DualDecomposition, PriceCoordination, SequentialMIP, certify
from ddmip_lib.data import load_water
from ddmip_lib.predictors import mlp, train
from ddmip_lib.problems import water_potability

problem = water_potability(n=2, net=train(mlp(1, 4, 9), load_water(), epochs=1, cache=False))
for solver in (DualDecomposition(max_iterations=2), SequentialMIP(idle_starts=1), PriceCoordination(max_rounds=1)):
    solution = solver.solve(problem, time_limit=20)
certify(problem, solution, time_limit=20, workers=1)
print([name for name in ("sympy", "torch._dynamo", "torch.distributed.tensor") if name in sys.modules])
"""


def test_no_solver_makes_a_process_wait_for_what_a_plain_network_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
