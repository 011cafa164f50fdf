"""Does a test fail when the library is wrong? Each mutation breaks one formula in a copy of the
library.

    python tests/mutations.py [--list] [--only NAME]

The tests named with a mutation must pass on the library as it is and fail, by an assertion, on the
mutated copy. The working tree is never touched. Exit code 1 where a mutation survives or breaks
more than a formula.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("ddmip_lib", "book/ddmip_book", "experiments", "tests", "data", "pyproject.toml")
# an installed package must not stand in for the copy: whoever runs the tests says what was imported
CONFTEST = (
    "from pathlib import Path\nimport ddmip_lib\nPath('imported').write_text(ddmip_lib.__file__)\n"
)
GUARDS = "tests/unit/model/test_guards.py::"
THEORY = "tests/unit/decomposition/test_theory.py::TestIdentities::"
STEP = (
    GUARDS
    + "TestMultiplierStep::test_adds_the_penalty_of_both_steps_times_the_residual_and_nothing_else"
)
ORDER = GUARDS + "TestMultiplierStep::test_each_block_takes_the_latest_point_of_the_other"


@dataclass(frozen=True)
class Mutation:
    """Replace `snippet`, which must occur once in `file`, by `replacement`; one of `tests` must
    notice.
    """

    name: str
    file: str
    snippet: str
    replacement: str
    tests: tuple[str, ...]


PROGRAM_TESTS = "tests/unit/programs/test_program.py::"
NARROWING = "tests/unit/programs/test_bound_tightening.py::"
WRONG = "tests/unit/proofs/test_wrong_proofs.py::"

DERIVATIVES = "tests/unit/certificates/test_properties.py::test_the_derivatives_of_a_step_are_those_of_automatic_differentiation"
STALE = "tests/unit/certificates/test_certify_on_cluster.py::test_rows_that_a_part_turns_out_not_to_have_are_not_left_open"

MUTATIONS = [
    Mutation(
        "a-proof-is-given-up-by-what-it-gained-once",
        "ddmip_lib/programs/branch_and_bound.py",
        "rise = -GAIN_FACTOR * gained * np.log2(passed)",
        "rise = GAIN_FACTOR * gained",
        (
            "tests/unit/programs/test_branch_and_bound.py::test_it_is_given_up_where_several_times_the_last_gain_is_not_enough",
        ),
    ),
    Mutation(
        "exact-models-in-vain-cost-no-more",
        "ddmip_lib/linearisation/sequential.py",
        "min(MAX_EXACT_COST_FACTOR, EXACT_COST_GROWTH * self.exact_cost_factor)",
        "self.exact_cost_factor",
        ("tests/unit/linearisation/test_sequential.py::test_exact_models_in_vain_become_rarer",),
    ),
    Mutation(
        "slopes-follow-the-form-and-not-the-network",
        "ddmip_lib/certificates/ascent.py",
        "self._coefs(taken).clamp(min=0.0)",
        "self._coefs(taken)",
        (DERIVATIVES,),
    ),
    Mutation(
        "point-moves-beyond-its-multiplier",
        "ddmip_lib/certificates/losses.py",
        "self.proves & self.reaches & (self.critical <= multiplier)",
        "self.proves & self.reaches",
        (DERIVATIVES,),
    ),
    Mutation(
        "no-direction-where-free-moves-reach-the-class",
        "ddmip_lib/certificates/losses.py",
        "self.proves = (need > 0) & (~self.reaches | (self.critical > 0))",
        "self.proves = need > 0",
        (DERIVATIVES,),
    ),
    Mutation(
        "rows-that-a-part-never-had-stay-open",
        "ddmip_lib/certificates/cluster.py",
        "self._record(rows)",
        "self._record(rows[np.isfinite(loss_bound)])",
        (STALE,),
    ),
    Mutation(
        "what-was-cut-off-taken-for-empty",
        "ddmip_lib/programs/branch_and_bound.py",
        "return max(self.first_bound, min(self.open.bound, self.excluded_cost))",
        "return max(self.first_bound, self.open.bound)",
        (NARROWING + "test_what_is_cut_off_is_not_taken_for_empty",),
    ),
    Mutation(
        "range-too-narrow",
        "ddmip_lib/programs/bound_tightening.py",
        "min(value, -self.bounds[1 - side, index])",
        "0.5 * (value - self.bounds[1 - side, index])",
        (NARROWING + "test_no_point_of_a_network_is_lost",),
    ),
    Mutation(
        "row-fits-the-wrong-value-of-its-binary",
        "ddmip_lib/programs/presolve.py",
        "self.change[better] = (2 * value - 1) * slack[better]",
        "self.change[better] = (1 - 2 * value) * slack[better]",
        (NARROWING + "test_no_point_of_a_network_is_lost",),
    ),
    Mutation(
        "dual-value-without-rounding",
        "ddmip_lib/programs/program.py",
        "total = float(parts.sum() - rounding - UNDERFLOW_ERROR)",
        "total = float(parts.sum() + rounding)",
        (PROGRAM_TESTS + "test_a_value_is_below_the_exact_one_and_near_it",),
    ),
    Mutation(
        "side-of-a-row",
        "ddmip_lib/programs/program.py",
        "side = np.where(mu > 0, self.row_lower, self.row_upper)",
        "side = np.where(mu > 0, self.row_upper, self.row_lower)",
        (PROGRAM_TESTS + "test_a_value_is_below_the_exact_one_and_near_it",),
    ),
    Mutation(
        "rounded-row-too-strong",
        "ddmip_lib/programs/presolve.py",
        "needed = float(np.ceil(limit / unit * (1 - OUTWARD)))",
        "needed = float(np.ceil(limit / unit * (1 - OUTWARD))) + 1",
        ("tests/unit/programs/test_program.py::test_rounded_rows_on_switches",),
    ),
    Mutation(
        "bound-of-another-problem",
        "ddmip_lib/certificates/certificate.py",
        "if proof.problem != incumbent.instance.digest:",
        "if not proof.problem:",
        (
            WRONG
            + "TestABoundBelongsToItsProblem::test_a_bound_of_another_problem_is_not_taken_over",
        ),
    ),
    Mutation(
        "vanished-products-forgotten",
        "ddmip_lib/bounds/rounding.py",
        "UNDERFLOW = 1e-180",
        "UNDERFLOW = 0.0",
        ("tests/unit/bounds/test_reader.py::test_products_that_vanish_leave_the_bounds_sound",),
    ),
    Mutation(
        "no-number-is-class-0",
        "ddmip_lib/model/predictor.py",
        "np.where(np.isfinite(raw), raw > 0, np.nan)",
        "(raw > 0).astype(float)",
        ("tests/unit/model/test_conduct.py::test_no_number_is_no_class",),
    ),
    Mutation(
        "multiplier-sign",
        "ddmip_lib/decomposition/solver.py",
        "state.lam + rho * r",
        "state.lam - rho * r",
        (THEORY + "test_all", STEP),
    ),
    Mutation(
        "u-step-with-the-old-x",
        "ddmip_lib/decomposition/solver.py",
        "NNSubproblem(state.split, state.w, state.lam,",
        "NNSubproblem(state.split, (state if before.x is None else before).w, state.lam,",
        (ORDER,),
    ),
    Mutation(
        "u-step-before-the-x-step",
        "ddmip_lib/decomposition/solver.py",
        "block = state.mip_block.solve(state.lam, state.copies, rho, state.deadline)",
        "block = state.mip_block.solve(state.lam, state.copies if state.x is None else"
        " state.split.copies(state.nn_block.minimise(NNSubproblem(state.split, state.w, state.lam, state.rho,"
        " state.deadline), state.u)), rho, state.deadline)",
        (ORDER,),
    ),
    Mutation(
        "multiplier-before-u",
        "ddmip_lib/decomposition/solver.py",
        "r = state.copies - state.w\n        state.lam",
        "r = before.copies - state.w\n        state.lam",
        (STEP, ORDER),
    ),
    Mutation(
        "multiplier-rescaled-with-rho",
        "ddmip_lib/decomposition/solver.py",
        "state.rho = following",
        "state.lam, state.rho = state.lam * following.inputs / state.rho.inputs, following",
        (STEP,),
    ),
    Mutation(
        "penalty-of-outputs-ignored",
        "ddmip_lib/decomposition/split.py",
        "np.full(self.coupled.size, rho.outputs)",
        "np.full(self.coupled.size, rho.inputs)",
        (STEP,),
    ),
    Mutation(
        "penalty-of-outputs-ignored-in-the-nn-block",
        "ddmip_lib/decomposition/nn_block.py",
        "of_outputs = self._lam_y + self.rho.outputs * (y - self._y)",
        "of_outputs = self._lam_y + self.rho.inputs * (y - self._y)",
        (GUARDS + "TestNNSubproblem::test_value_and_gradient_are_those_of_the_formula",),
    ),
    Mutation(
        "groups-mixed-up",
        "ddmip_lib/decomposition/split.py",
        ".index_add(0, where, values)",
        ".index_add(0, where.flip(0), values)",
        (GUARDS + "TestNNSubproblem::test_value_and_gradient_are_those_of_the_formula",),
    ),
    Mutation(
        "no-projection-on-the-box",
        "ddmip_lib/decomposition/nn_block.py",
        "return np.minimum(np.maximum(u, self.lower.numpy()), self.upper.numpy())",
        "return u",
        (GUARDS + "TestNNSubproblem::test_every_iterate_stays_in_the_box",),
    ),
    Mutation(
        "budget-met-by-scaling",
        "book/ddmip_book/examples/projections.py",
        "return np.maximum(v - theta, 0.0)",
        "return positive * budget / positive.sum()",
        ("tests/unit/ddmip_book/examples/test_projections.py::TestCappedSum",),
    ),
    Mutation(
        "tightening-sign",
        "ddmip_lib/decomposition/paper_split.py",
        "self.tightening + h +",
        "self.tightening - h +",
        (
            GUARDS
            + "TestNNSubproblem::test_tightening_grows_where_the_point_violates_and_shrinks_where_it_leaves_room",
        ),
    ),
    Mutation(
        "budget-row-dropped",
        "book/ddmip_book/problems/water.py",
        "b[:, j].sum() <= budget",
        "b[:-1, j].sum() <= budget",
        (GUARDS + "test_every_budget_of_water_binds",),
    ),
    Mutation(
        "margin-ignored",
        "ddmip_lib/model/predictor.py",
        "below + (margin - below) * y",
        "below + (0.0 - below) * y",
        (GUARDS + "TestGraphSplitBlock::test_a_class_needs_a_logit_with_margin",),
    ),
    Mutation(
        "class-zero-not-tied",
        "ddmip_lib/model/predictor.py",
        "if not milp.is_monotone(at):",
        "if False:",
        ("tests/unit/baselines/test_bigm.py::test_a_minimised_class_must_follow_the_network",),
    ),
    Mutation(
        "incumbent-not-verified",
        "ddmip_lib/model/incumbent.py",
        "if check.feasible and self.better(check.objective):",
        "if self.better(check.objective):",
        (GUARDS + "TestIncumbent::test_only_a_better_verified_point_takes_the_place",),
    ),
    Mutation(
        "worse-is-better",
        "ddmip_lib/model/verification.py",
        "milp.sign * (new - old) <",
        "milp.sign * (old - new) <",
        (GUARDS + "TestIncumbent::test_only_a_better_verified_point_takes_the_place",),
    ),
    Mutation(
        "listing-forgets-what-comes-later",
        "ddmip_lib/model/assignments.py",
        "slack)[:, None] - _sums_of_later(minimum)",
        "slack)[:, None] + 0.0 * minimum",
        ("tests/unit/model/test_listing.py::test_all_that_rows_allow_and_nothing_else",),
    ),
    Mutation(
        "lines-turned-round",
        "ddmip_lib/linearisation/elastic.py",
        "self.outputs_and_slack - _widened(",
        "self.outputs_and_slack + _widened(",
        (
            "tests/unit/linearisation/test_elastic.py::test_a_step_is_exact_where_the_network_is_linear",
        ),
    ),
    Mutation(
        "whole-inputs-leap",
        "ddmip_lib/linearisation/elastic.py",
        "max(2.0, 2.0 * float((radius * self.integer).sum()))",
        "max(2.0, 20.0 * float((radius * self.integer).sum()))",
        (
            "tests/unit/linearisation/test_elastic.py::test_whole_inputs_move_at_most_as_far_as_they_may",
        ),
    ),
    Mutation(
        "walks-uphill",
        "ddmip_lib/linearisation/multistart.py",
        "at - length * direction",
        "at + length * direction",
        ("tests/unit/linearisation/test_walks.py::test_walks_end_far_below_random_points",),
    ),
    Mutation(
        "walks-without-rows",
        "ddmip_lib/linearisation/multistart.py",
        "gradient = elastic.cost + price * (np.sign(excess) / self.norm) @ elastic.milp.rows",
        "gradient = elastic.cost + 0.0 * (np.sign(excess) / self.norm) @ elastic.milp.rows",
        ("tests/unit/linearisation/test_walks.py::test_slopes_are_those_of_the_merit",),
    ),
    Mutation(
        "descents-that-crawl",
        "ddmip_lib/linearisation/trust_region.py",
        "if self.poor_steps == MAX_POOR_STEPS:",
        "if self.poor_steps < 0:",
        (
            "tests/unit/linearisation/test_sequential.py::test_a_descent_does_not_crawl_along_a_kink",
        ),
    ),
    Mutation(
        "completion-ignores-outputs",
        "ddmip_lib/model/completion.py",
        "        fixed |= instance.determined\n",
        "",
        (GUARDS + "TestCompletion",),
    ),
    Mutation(
        "tangents-too-low",
        "ddmip_lib/decomposition/scip_block.py",
        "z - 2.0 * a * sigma + a**2 * b >= 0",
        "z - 2.0 * a * sigma + 2.0 * a**2 * b >= 0",
        (GUARDS + "TestGraphSplitBlock::test_x_step_agrees_with_enumeration_up_to_its_tangents",),
    ),
    Mutation(
        "on-off-row-without-its-switch",
        "ddmip_lib/model/onoff.py",
        "on=side - at_switch,",
        "on=side,",
        (GUARDS + "TestCompletion", GUARDS + "TestGraphSplitBlock"),
    ),
    Mutation(
        "square-cut-missing",
        "ddmip_lib/decomposition/scip_block.py",
        "for k in range(lower, upper)]",
        "for k in range(lower, upper - 1)]",
        (
            "tests/unit/decomposition/test_mip_block.py::TestSquareCuts",
            "tests/unit/decomposition/test_mip_block.py::TestMILPBlock",
        ),
    ),
    Mutation(
        "table-swapped",
        "ddmip_lib/proofs/tables.py",
        "[1.0, one - two]",
        "[1.0, two - one]",
        (
            "tests/unit/baselines/test_enumeration.py::test_tree_planting_equals_the_exact_model[3-1]",
        ),
    ),
    Mutation(
        "descent-test-decreases",
        "ddmip_lib/decomposition/penalty.py",
        "progress.descends(self.sigma) else progress.rho.times(self.factor)",
        "progress.descends(self.sigma) else progress.rho.times(1 / self.factor)",
        (GUARDS + "TestPenaltyRules::test_descent_test_only_increases_and_ends_above_need",),
    ),
    Mutation(
        "no-fraction-to-the-boundary",
        "ddmip_lib/decomposition/central_path.py",
        "ratio = (1 - MIN_SLACK_FRACTION) * at.slack",
        "ratio = 1e9 * at.slack",
        (GUARDS + "test_barrier_steps_keep_a_share_of_every_slack",),
    ),
    Mutation(
        "dual-test-left-out",
        "ddmip_lib/decomposition/stopping.py",
        "return dual < self.dual_tolerance and self._stationary(state)",
        "return True",
        ("tests/unit/decomposition/test_theory.py::TestStoppingRule",),
    ),
]


def mutate(text: str, mutation: Mutation) -> str:
    """The text with the snippet replaced, or an end to the script that says what to do."""
    if text.count(mutation.snippet) != 1:
        what = "not found" if mutation.snippet not in text else "not unique"
        sys.exit(f"{mutation.name}: snippet {what} in {mutation.file}: update tests/mutations.py")
    return text.replace(mutation.snippet, mutation.replacement)


def run_tests(copy: Path, tests: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests inside the copy, and make sure that they imported the library from there."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        *options,
        *tests,
    ]
    environment = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'book'}",
        "COLUMNS": "400",
    }
    (copy / "imported").unlink(missing_ok=True)
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    expected = copy / "ddmip_lib" / "__init__.py"
    imported = (copy / "imported").read_text() if (copy / "imported").exists() else "nothing"
    if imported != str(expected):
        sys.exit(f"the tests imported {imported}, not {expected}:\n{result.stdout}{result.stderr}")
    return result


def verdict(result: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    """Whether a test failed by an assertion, and which; an error of another kind is no catch."""
    found = re.search(r"^(FAILED|ERROR) (\S+)(?: - (.*))?$", result.stdout, re.MULTILINE)
    if result.returncode == 0:
        return False, "SURVIVED"
    if result.returncode != 1 or found is None:
        return (
            False,
            f"pytest ended with {result.returncode}: {result.stdout[-300:]}{result.stderr[-300:]}",
        )
    kind, test, reason = found.groups()
    asserted = kind == "FAILED" and re.match(
        r"assert|AssertionError|Failed: DID NOT RAISE", reason or ""
    )
    where = test.rpartition("/")[2]
    return bool(asserted), where if asserted else f"no assertion: {where}: {reason}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Break the library on purpose; a test must notice."
    )
    parser.add_argument("--only", choices=[m.name for m in MUTATIONS], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the mutations and stop")
    return parser.parse_args()


def copy_project(folder: Path) -> None:
    """Copy what tests need, with the `conftest.py` that records which library they import."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    (folder / "conftest.py").write_text(CONFTEST)


def tried(copy: Path, mutation: Mutation, mutant: str) -> tuple[bool, str]:
    """The verdict on one mutation, in a copy that is as before afterwards."""
    file = copy / mutation.file
    original = file.read_text()
    file.write_text(mutant)
    found = verdict(run_tests(copy, list(mutation.tests), "-x"))
    file.write_text(original)
    return found


def main() -> int:
    arguments = parsed()
    chosen = [m for m in MUTATIONS if arguments.only in (None, m.name)]
    mutants = [mutate((ROOT / m.file).read_text(), m) for m in chosen]
    if arguments.list:
        print("\n".join(f"{m.name:<44} {m.file}" for m in chosen))
        return 0
    began = time.perf_counter()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        copy_project(copy)
        sound = run_tests(copy, sorted({test for m in chosen for test in m.tests}))
        if sound.returncode != 0:
            print(sound.stdout + sound.stderr)
            sys.exit("the tests fail on the library as it is: mend that first")
        print(
            f"unmutated: {sound.stdout.strip().splitlines()[-1]}, imported from the copy",
            flush=True,
        )
        for mutation, mutant in zip(chosen, mutants, strict=True):
            caught, why = tried(copy, mutation, mutant)
            missed += not caught
            print(f"{'caught' if caught else 'MISSED'}  {mutation.name:<44} {why}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught in {time.perf_counter() - began:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
