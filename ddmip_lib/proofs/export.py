"""A problem as a file for other solvers, with its networks written into the model."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from pyscipopt import Model

from ..errors import ProblemError, UnsupportedNetworkError
from ..model.instance import Instance
from ..model.point_files import read_sol
from ..model.predictor import LOGIT_MARGIN
from ..model.problem import NeuralMIP
from ..model.restated import reformulated
from ..model.scaling import Units
from ..model.verification import TOLERANCE, Verification
from ..programs.program import Program
from ..programs.scip import MILP
from ..programs.scip_program import joined_sides, write_milp
from .exact import exact_program

VALID_NAMES = {
    ".mps": re.compile(r"[^\s$*\"]\S*"),
    ".lp": re.compile(r"[A-Za-z_][A-Za-z0-9_.]*"),
}
"""Names that a format may hold, by the ending of the file."""
RESERVED_NAME = re.compile(
    r"e\d.*|(obj|gen|bin|int|max|min|subject|such|sos|inf|bound).*|st|end|free", re.IGNORECASE
)
"""Names that have a meaning in LP files."""
MAX_NAME_LENGTH = 100


def export_model(
    problem: NeuralMIP, path: str | os.PathLike[str], relaxation: bool = False
) -> dict[str, Any]:
    """Write the mixed-integer linear model of a problem, networks included, for other solvers.

    Beside the model a JSON file of the same name is written: the kind of the model, the names of
    the variables in it, and what the model leaves out. `verify_values` verifies the
    answer of a solver by the networks themselves.

    Parameters
    ----------
    problem : NeuralMIP
        The problem, which is not changed.
    path : str or os.PathLike
        A name that ends in .mps or .lp.
    relaxation : bool, default: False
        Whether a model may be written that has more points than the problem: activations such as
        tanh between linear bounds, without constraints that are not linear. Its optimal value is a
        bound, and its points must be verified.

    Returns
    -------
    dict
        What the JSON file contains.

    Raises
    ------
    ProblemError
        If the path ends otherwise, a constraint is not linear and `relaxation` is False, or bounds
        show that there is no feasible point.
    UnsupportedNetworkError
        If a network has no linear bounds, or no exact model and `relaxation` is False; the message
        names the layer.

    Examples
    --------
    >>> import tempfile
    >>> from ddmip_lib.problems import hand_sized
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     about = export_model(hand_sized(), f"{folder}/m.mps")
    >>> about["kind"], about["relaxed"]
    ('exact', [])
    """
    path = Path(path)
    if path.suffix not in VALID_NAMES:
        raise ProblemError(
            f"{path} must end in {' or '.join(VALID_NAMES)}: choose one of the formats."
        )
    instance = reformulated(problem.stated_instance(), tables=False)
    relaxed = _relaxed_parts(instance)
    if relaxed and not relaxation:
        kind = ProblemError if " constraint " in relaxed[0] else UnsupportedNetworkError
        raise kind(
            f"{relaxed[0]} has no exact mixed-integer linear model: pass relaxation=True for a"
            " model that contains all points of the problem, and others."
        )
    program = exact_program(
        instance,
        Units(instance, TOLERANCE),
        tolerance=0.0,
        margin=LOGIT_MARGIN,
        max_table_size=1,
    )
    if (program.lower > program.upper).any():
        raise ProblemError(
            "the problem has no feasible point, as bounds show: no model is written."
        )
    milp = _with_names(instance, program, path.suffix)
    about = {"model": path.name, **_about(instance, milp, relaxed)}
    model = Model(f"{about['kind']}_model_of_{problem.name or 'problem'}".replace(" ", "_"))
    model.hideOutput()
    write_milp(model, milp)
    model.addObjoffset(milp.offset)
    model.writeProblem(str(path), verbose=False)
    path.with_suffix(".json").write_text(json.dumps(about, indent=1))
    return about


def _relaxed_parts(instance: Instance) -> list[str]:
    """What no linear model represents exactly: activations by their layers, and constraints."""
    parts = []
    for predictor, graph in zip(instance.predictors, instance.graphs, strict=True):
        for index, kind in zip(graph.activations, graph.kinds, strict=True):
            if kind in graph.curved:
                layer = f" of layer {graph.layers[index]}" if graph.layers else ""
                parts.append(f"{kind}{layer} of network {predictor.name}")
    return parts + [f"{other.kind} constraint {other.name}" for other in instance.milp.others]


def _with_names(instance: Instance, program: Program, ending: str) -> MILP:
    """A program as a maximisation or minimisation of variables and constraints with names."""
    milp = instance.milp
    columns = len(program.cost)
    # sides may differ by the rounding errors of a network only
    lower, upper = joined_sides(program, 1e-9)
    names = [*milp.names, *(f"network_{k}" for k in range(columns - len(milp.names)))]
    rows = len(program.row_lower)
    row_names = [*milp.row_names, *(f"network_row_{k}" for k in range(rows - milp.n_rows))]
    return replace(
        milp,
        cost=milp.sign * program.cost,
        lower=program.lower,
        upper=program.upper,
        integer=program.integer,
        names=valid_names(names, ending),
        rows=program.rows.matrix(columns),
        row_lower=lower,
        row_upper=upper,
        row_names=valid_names(row_names, ending),
        others=(),
    )


def valid_names(names: list[str], ending: str) -> list[str]:
    """Return unique names that a file may hold, changed where that is necessary.

    Parameters
    ----------
    names : list of str
        Any names.
    ending : {".mps", ".lp"}
        The format.

    Examples
    --------
    >>> valid_names(["x[1]", "e1", "x", "x", "a b"], ".lp")
    ['x_1_', 'v_e1', 'x', 'x_2', 'a_b']
    """
    allowed = VALID_NAMES[ending]
    taken = set(names)
    used: set[str] = set()
    found = []
    for name in names:
        valid = name
        if not allowed.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
            valid = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:MAX_NAME_LENGTH]
        if not allowed.fullmatch(valid) or RESERVED_NAME.fullmatch(valid):
            valid = f"v_{valid}"
        if valid in used or (valid != name and valid in taken):
            valid = next(new for k in count(2) if (new := f"{valid}_{k}") not in used | taken)
        used.add(valid)
        found.append(valid)
    return found


def verify_values(
    problem: NeuralMIP,
    values: Mapping[str, float] | str | os.PathLike[str],
    names: str | os.PathLike[str] | None = None,
) -> Verification:
    """Verify the answer of another solver, given by the names of the variables.

    Outputs of networks are replaced by what the networks predict, since solvers satisfy the
    equations of a network up to their tolerances only.

    Parameters
    ----------
    problem : NeuralMIP
        The problem.
    values : dict of str to float, str or os.PathLike
        Values by name, or a .sol file of SCIP, HiGHS or Gurobi, in which missing variables are 0.
    names : str or os.PathLike, optional
        The JSON file that `export_model` wrote, if the names are those of its model.

    Returns
    -------
    Verification
        Objective and violations, by the networks and the constraints of the problem.

    Raises
    ------
    ProblemError
        If a name is unknown, or a variable has no value; the message names it.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> point = {name: 0.0 for name in problem.instance().milp.names}
    >>> verify_values(problem, point).feasible
    True
    """
    missing = np.nan
    if not isinstance(values, Mapping):
        values = read_sol(values)
        missing = 0.0
    instance = problem.instance()
    stated = instance.stated
    keys = stated.variables.keys
    if names is not None:
        translated = json.loads(Path(names).read_text())["variables"]
        values = {key: values[name] for name, key in translated.items() if name in values}
    unknown = values.keys() - set(keys)
    if unknown:
        raise ProblemError(
            f"no variable of the problem is called {min(unknown)!r}: give names of its variables,"
            " or the JSON file of the exported model."
        )
    point = np.array([values.get(key, missing) for key in keys], dtype=float)
    point[stated.is_output] = 0.0
    return problem.verify(instance.restrict(instance.with_outputs(instance.extend(point))))


def _about(instance: Instance, milp: MILP, relaxed: list[str]) -> dict[str, Any]:
    """What the JSON file states about a model."""
    stated = instance.stated
    keys = stated.variables.keys
    names = np.array(milp.names, dtype=object)[getattr(instance, "place", slice(None))][: len(keys)]
    predictors = []
    for predictor, mapping in stated.networks:
        inputs = mapping.constant.astype(object)
        inputs[mapping.index >= 0] = names[mapping.index[mapping.index >= 0]]
        predictors.append(
            {
                "network": predictor.name,
                "output": predictor.kind,
                "inputs": inputs.tolist(),
                "outputs": names[mapping.output].tolist(),
            }
        )
    return {
        "kind": "relaxation" if relaxed else "exact",
        "relaxed": relaxed,
        "logit_margin": LOGIT_MARGIN if instance.classes.any() else 0.0,
        "variables": dict(zip(names, keys, strict=True)),
        "predictors": predictors,
    }
