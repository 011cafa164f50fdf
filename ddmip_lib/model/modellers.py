"""Models of Pyomo and gurobipy as problems, whose variables are looked up by the user's own ones.

Neither package is imported before it is used.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pyscipopt import ExprCons, Model, Variable, quicksum
from pyscipopt.recipes.nonlinear import set_nonlinear_objective

from ..errors import ProblemError, of_extra
from .files import read_model_file
from .problem import NeuralMIP

PYOMO_COMPONENTS = {
    "Block",
    "BuildAction",
    "BuildCheck",
    "Constraint",
    "Expression",
    "Objective",
    "Param",
    "RangeSet",
    "Set",
    "Suffix",
    "Var",
}
"""Components of Pyomo that a linear or quadratic model consists of."""


def from_pyomo(model: Any) -> NeuralMIP:
    """Translate a model of Pyomo with linear and quadratic expressions.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        The model, which is not changed. Fixed variables keep their values; inactive components are
        left out, as Pyomo's own solvers do.

    Returns
    -------
    NeuralMIP
        A problem without predictors. With a variable ``v`` of the model, ``problem[v]`` is the one
        of the problem, and ``solution[problem[v]]`` its value. `NeuralMIP.add_predictor` takes
        Pyomo's variables too.

    Raises
    ------
    ImportError
        If Pyomo is not installed.
    ProblemError
        If the model has another component, an expression that is not quadratic, or not one
        objective; the message names it.
    """
    environment = of_extra("pyomo.environ", "pyomo", "from_pyomo")
    components = model.collect_ctypes(active=True, descend_into=True)
    unknown = sorted({kind.__name__ for kind in components} - PYOMO_COMPONENTS)
    if unknown:
        raise ProblemError(
            f"the Pyomo model has components {', '.join(unknown)}: transform them to constraints"
            " first, or deactivate them."
        )
    objectives = list(model.component_data_objects(environment.Objective, active=True))
    if len(objectives) != 1:
        raise ProblemError(
            f"the Pyomo model has {len(objectives)} active objectives: activate one."
        )
    scip = Model(str(model.name))
    scip.hideOutput()
    own = environment.ComponentMap()
    for variable in model.component_data_objects(environment.Var, descend_into=True):
        own[variable] = _add_variable(scip, variable)
    for constraint in model.component_data_objects(environment.Constraint, active=True):
        body = _expression(constraint.body, f"constraint {constraint.name}", own)
        if constraint.lb is not None or constraint.ub is not None:
            scip.addCons(ExprCons(body, constraint.lb, constraint.ub), name=constraint.name)
    sense: Any = "minimize" if objectives[0].sense == environment.minimize else "maximize"
    cost = _expression(objectives[0].expr, f"objective {objectives[0].name}", own)
    if cost.degree() > 1:
        set_nonlinear_objective(scip, cost, sense)
    else:
        scip.setObjective(cost, sense)
    problem = NeuralMIP(scip, str(model.name))
    problem.translated = own.get
    return problem


def _add_variable(scip: Model, variable: Any) -> Variable:
    """Add a variable of Pyomo to a model of SCIP."""
    lower, upper = (variable.value,) * 2 if variable.fixed else variable.bounds
    kind = "C"
    if not variable.is_continuous():
        kind = "B" if (lower, upper) == (0, 1) else "I"
    return scip.addVar(variable.name, vtype=kind, lb=lower, ub=upper)


def _expression(body: Any, name: str, own: Mapping[Any, Any]) -> Any:
    """A linear or quadratic expression of Pyomo in variables of SCIP."""
    standard = of_extra("pyomo.repn.standard_repn", "pyomo", "from_pyomo")
    form = standard.generate_standard_repn(body, compute_values=True, quadratic=True)
    if form.nonlinear_expr is not None:
        raise ProblemError(
            f"{name} of the Pyomo model is neither linear nor quadratic: write it so, or as a"
            " network."
        )
    terms = [(weight, [v]) for weight, v in zip(form.linear_coefs, form.linear_vars, strict=True)]
    terms += zip(form.quadratic_coefs, form.quadratic_vars, strict=True)
    expression = []
    for weight, factors in terms:
        for variable in factors:
            if variable not in own:
                raise ProblemError(
                    f"{name} of the Pyomo model has the variable {variable.name}, which is on no"
                    " active block of the model: add it there."
                )
            weight = weight * own[variable]
        expression.append(weight)
    return quicksum(expression) + form.constant


def from_gurobi(model: Any) -> NeuralMIP:
    """Translate a model of gurobipy, through an MPS file that Gurobi writes and SCIP reads.

    Parameters
    ----------
    model : gurobipy.Model
        The model: linear and quadratic constraints, indicators, and special ordered sets.

    Returns
    -------
    NeuralMIP
        A problem without predictors. With a variable ``v`` of the model, ``problem[v]`` is the one
        of the problem, and ``solution[problem[v]]`` its value. `NeuralMIP.add_predictor` takes
        Gurobi's variables too.

    Raises
    ------
    ProblemError
        If a name is not unique or holds white space, or the model has parts that MPS files lose.
    """
    model.update()
    variables = model.getVars()
    for name, uses in Counter(variable.VarName for variable in variables).items():
        if uses > 1 or len(name.split()) != 1:
            raise ProblemError(
                f"the Gurobi model has {uses} variables named {name!r}: give each a name of its own"
                " without white space, by addVar(name=...)."
            )
    indicator = import_module(type(model).__module__.partition(".")[0]).GRB.GENCONSTR_INDICATOR
    others = [c.GenConstrName for c in model.getGenConstrs() if c.GenConstrType != indicator]
    if others or model.NumPWLObjVars or model.NumObj > 1:
        what = f"general constraint {others[0]}" if others else "several or piecewise objectives"
        raise ProblemError(
            f"the Gurobi model has {what}, which SCIP cannot read: write it by linear constraints."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mps"
        model.write(str(path))
        problem = NeuralMIP(read_model_file(path), model.ModelName)
    own = {variable.VarName: problem[variable.VarName] for variable in variables}
    kind = type(variables[0])

    def translated(variable: Any) -> Any:
        return own.get(variable.VarName) if isinstance(variable, kind) else None

    problem.translated = translated
    return problem
