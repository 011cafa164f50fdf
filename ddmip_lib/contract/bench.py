"""Calls of a solver on examples: what it returns, what it prints, and what it changes."""

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
from ..model.solution import Solution
from ..model.text import shown
from ..model.verification import Verification, Verifier
from .problems import Example, examples


class NotCheckedError(Exception):
    """A check needs an argument that the solver does not have."""


@dataclass(frozen=True, eq=False)
class SolverCall:
    """One call of a solver.

    Attributes
    ----------
    example
        The problem and its optimum.
    solution
        What the solver returned.
    seconds
        Duration of the call.
    printed
        What it printed.
    changed
        Settings and objects that the call has changed.
    instance
        The problem after the call.
    """

    example: Example
    solution: Solution
    seconds: float
    printed: str
    changed: list[str]
    instance: Instance

    @cached_property
    def verified(self) -> Verification:
        """The solution's point, verified independently."""
        return Verifier(self.instance).check(np.array(self.solution.values, dtype=float))

    @property
    def summary(self) -> str:
        """Status, objective and bound in one line."""
        solution = self.solution
        name = self.example.name
        if not isinstance(solution, Solution):
            return f"{name}: a {type(solution).__name__} instead of a Solution"
        changed = f"; changed {', '.join(self.changed)}" if self.changed else ""
        return (
            f"{name}: {solution.status}, objective {shown(solution.objective)}, bound"
            f" {shown(solution.bound)}, optimum {shown(self.example.best)}{changed}"
        )


@dataclass(eq=False)
class Bench:
    """A solver, its declared abilities, and its calls.

    Attributes
    ----------
    solver
        The solver.
    proves, reports_points
        Whether it proves optima, and whether it supports ``on_point=`` (see `check_solver`).
    seconds
        Time limit of each call.
    with_callback
        Function that returns the solver with a callback; None if it supports none.
    calls
        All calls without progress output.
    last
        The last call, or the call that failed the last check.
    """

    solver: Any
    proves: bool
    reports_points: bool
    seconds: float
    with_callback: Callable[[Callback], Any] | None
    calls: list[SolverCall] = field(default_factory=list)
    last: SolverCall = None  # type: ignore[assignment]  # until the first call

    @cached_property
    def examples(self) -> dict[str, Example]:
        """All examples by name."""
        return {example.name: example for example in examples()}

    def solve(self, name: str, callback: Callback | None = None, **options: Any) -> Solution:
        """Solve an example and store the call.

        Parameters
        ----------
        name
            Name of the example.
        callback
            Callback of the solver, if it supports one.
        **options
            Arguments of the solver; the time limit is `seconds` by default.

        Raises
        ------
        NotCheckedError
            If the solver supports no callback, or no ``on_point=``.
        """
        solver = self.solver
        if callback is not None:
            if self.with_callback is None:
                raise NotCheckedError
            solver = self.with_callback(callback)
        if "on_point" in options and not self.reports_points:
            raise NotCheckedError
        example = self.examples[name]
        before = self._state(example)
        output = io.StringIO()
        began = now()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            arguments = {"time_limit": self.seconds, "seed": 0} | options
            solution: Solution = solver.solve(example.problem, **arguments)
        seconds = now() - began
        after = self._state(example).items()
        changed = [what for what, value in after if value != before[what]]
        instance = example.problem.instance()
        if instance.digest != example.digest:
            changed.append("the model or a network")
        self.last = SolverCall(example, solution, seconds, output.getvalue(), changed, instance)
        if not options.get("progress"):
            self.calls.append(self.last)
        return solution

    def first_solution(self, name: str) -> Solution:
        """Return the solution of the first call on an example."""
        return next(call.solution for call in self.calls if call.example.name == name)

    def holds_always(self, check: Callable[[SolverCall], Any]) -> bool:
        """Return whether a check holds for all calls; the first that fails becomes the last."""
        for call in self.calls:
            self.last = call
            if not check(call):
                return False
        return True

    def _state(self, example: Example) -> dict[str, Any]:
        """What a call must not change."""
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
