"""How solvers are asked: what they return, what they print, and what they leave behind."""

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..clock import now
from ..methods.run import Callback
from ..model.instance import Instance
from ..model.solution import Solution, shown
from ..model.verification import Verification, Verifier
from .problems import Example, examples


@dataclass(frozen=True, eq=False)
class SolverCall:
    """One call of a solver: its answer, and what a bystander saw."""

    example: Example
    solution: Solution
    seconds: float
    printed: str
    moved: list[str]  #: What is not as it was before.
    instance: Instance  #: The problem as it is now.

    @cached_property
    def verified(self) -> Verification:
        return Verifier(self.instance).check(np.array(self.solution.values, dtype=float))

    @property
    def seen(self) -> str:
        s = self.solution
        e = self.example
        if not isinstance(s, Solution):
            return f"{e.name}: a {type(s).__name__} instead of a Solution"
        said = (
            f"{s.status}, objective {shown(s.objective)}, bound {shown(s.bound)}, where"
            f" {shown(e.best)} is best"
        )
        return f"{e.name}: {said}" + f"; changed {', '.join(self.moved)}" * bool(self.moved)


@dataclass(eq=False)
class Bench:
    """A solver, what it says it can do, and its runs."""

    solver: Any
    proves: bool
    visits: bool
    seconds: float
    with_callback: Callable[[Callback], Any] | None
    runs: list[SolverCall] = field(default_factory=list)
    last: SolverCall = None  # type: ignore[assignment]  # until the first run

    @cached_property
    def examples(self) -> dict[str, Example]:
        return {example.name: example for example in examples()}

    def answer(
        self, name: str, time_limit: Any = None, seed: Any = 0, callback: Any = None, **options: Any
    ) -> Solution:
        """What the solver says of an example; where it is an answer, it must keep what is promised
        of all.
        """
        example = self.examples[name]
        limit = self.seconds if time_limit is None else time_limit
        out = io.StringIO()
        before = self._state(example)
        _ = example.digest
        began = now()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            solver = (
                self.with_callback(callback) if callback and self.with_callback else self.solver
            )
            solution: Solution = solver.solve(
                example.problem, time_limit=limit, seed=seed, **options
            )
        seconds = now() - began
        after = self._state(example)
        instance = example.problem.instance()
        moved = [what for what in before if before[what] != after[what]]
        moved += ["the model or a network"] * (instance.digest != example.digest)
        self.last = SolverCall(example, solution, seconds, out.getvalue(), moved, instance)
        if not options.get("progress"):
            self.runs.append(self.last)
        return solution

    def known(self, name: str) -> Solution:
        """What the solver said of an example when it was asked first."""
        return next(run.solution for run in self.runs if run.example.name == name)

    def always(self, check: Callable[[SolverCall], Any]) -> bool:
        """Whether a check holds of all answers; the first of which it does not is the last run."""
        for run in self.runs:
            self.last = run
            if not check(run):
                return False
        return True

    def _state(self, example: Example) -> dict[str, Any]:
        """What a run must leave as it is."""
        problem = example.problem
        random = np.random.get_state(legacy=False)  # noqa: NPY002 - what others may use
        return {
            "the problem's start": (repr(problem.start), problem.start_point, problem.blocks),
            "the solver's settings": repr(getattr(self.solver, "__dict__", None)),
            "a global random state": (repr(random), torch.random.get_rng_state().tolist()),
            "torch's settings": (
                torch.is_grad_enabled(),
                torch.get_default_dtype(),
                torch.get_num_threads(),
            ),
        }
