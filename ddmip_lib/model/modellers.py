"""Models of Pyomo and gurobipy as problems, whose variables are looked up by the user's own ones.

Neither package is imported before it is used.
"""

import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pyscipopt import ExprCons, Model, quicksum
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
    standard = of_extra("pyomo.repn.standard_repn", "pyomo", "from_pyomo")
    environment = of_extra("pyomo.environ", "pyomo", "from_pyomo")
    kinds = {kind.__name__ for kind in model.collect_ctypes(active=True, descend_into=True)}
    unknown = sorted(kinds - PYOMO_COMPONENTS)
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
    reader = _PyomoReader(str(model.name), standard.generate_standard_repn)
    for variable in model.component_data_objects(environment.Var, descend_into=True):
        reader.add_variable(variable)
    for constraint in model.component_data_objects(environment.Constraint, active=True):
        reader.add_constraint(constraint)
    minimises = objectives[0].sense == environment.minimize
    reader.set_objective(objectives[0], "minimize" if minimises else "maximize")
    problem = NeuralMIP(reader.model, str(model.name))
    problem.translated = reader.own
    return problem


class _PyomoReader:
    """A model of SCIP that gets the variables, constraints and objective of one of Pyomo."""

    def __init__(self, name: str, standard: Any) -> None:
        self.model = Model(name)
        self.model.hideOutput()
        self.standard = standard
        self.pairs: dict[int, tuple[Any, Any]] = {}  # keeps the user's objects, and so their ids

    def add_variable(self, variable: Any) -> None:
        lower, upper = (variable.value,) * 2 if variable.fixed else variable.bounds
        kind = "C"
        if not variable.is_continuous():
            kind = "B" if (lower, upper) == (0, 1) else "I"
        own = self.model.addVar(variable.name, vtype=kind, lb=lower, ub=upper)
        self.pairs[id(variable)] = (variable, own)

    def add_constraint(self, constraint: Any) -> None:
        body = self._expression(constraint.body, f"constraint {constraint.name}")
        if constraint.lb is not None or constraint.ub is not None:
            condition = ExprCons(body, constraint.lb, constraint.ub)
            self.model.addCons(condition, name=constraint.name)

    def set_objective(self, objective: Any, sense: Literal["minimize", "maximize"]) -> None:
        expression = self._expression(objective.expr, f"objective {objective.name}")
        if expression.degree() > 1:
            set_nonlinear_objective(self.model, expression, sense)
        else:
            self.model.setObjective(expression, sense)

    def _expression(self, body: Any, name: str) -> Any:
        """A linear or quadratic expression of Pyomo in variables of SCIP."""
        form = self.standard(body, compute_values=True, quadratic=True)
        if form.nonlinear_expr is not None:
            raise ProblemError(
                f"{name} of the Pyomo model is neither linear nor quadratic: write it so, or as a"
                " network."
            )
        linear = zip(form.linear_coefs, form.linear_vars, strict=True)
        terms = [weight * self._term(variable, name) for weight, variable in linear]
        for weight, (one, two) in zip(form.quadratic_coefs, form.quadratic_vars, strict=True):
            terms.append(weight * self._term(one, name) * self._term(two, name))
        return quicksum(terms) + form.constant

    def _term(self, variable: Any, name: str) -> Any:
        """The variable of SCIP for one in an expression."""
        own = self.own(variable)
        if own is None:
            raise ProblemError(
                f"{name} of the Pyomo model has the variable {variable.name}, which is on no active"
                " block of the model: add it there."
            )
        return own

    def own(self, variable: Any) -> Any:
        """The variable of SCIP for one of Pyomo; None for any other object."""
        return self.pairs.get(id(variable), (None, None))[1]


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
