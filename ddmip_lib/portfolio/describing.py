"""`describe`: sizes, networks, blocks, plan and proof of a problem, before it is solved."""

from dataclasses import dataclass

from torch import nn

from ..errors import UnsupportedNetworkError
from ..model.blocks import Blocks
from ..model.instance import Instance
from ..model.left_out import LeftOut, left_out
from ..model.problem import NeuralMIP
from ..model.structure import Structure
from ..model.text import counted
from ..pricing.recognition import find_blocks
from .choosing import PlannedMethod, methods_for
from .proving import WITHOUT_PROOF, PlannedProof, planned_proof

MAX_LISTED = 12
"""Layers of a network, and coupling constraints, that a printed description lists."""


@dataclass(frozen=True)
class DescribedNetwork:
    """A network of a problem.

    Attributes
    ----------
    name
        Its class.
    samples, inputs, outputs
        Number of evaluations, and sizes of each.
    free_inputs
        Number of distinct variables among the inputs that are not fixed.
    layers
        Its layers with the number of their outputs, in the order in which they are defined.
    units
        Units with an activation in each evaluation; None if the network cannot be bounded.
    model
        How proofs represent it, or why they cannot.
    """

    name: str
    samples: int
    inputs: int
    outputs: int
    free_inputs: int
    layers: tuple[str, ...]
    units: int | None
    model: str

    def __str__(self) -> str:
        size = f"{self.inputs} inputs ({self.free_inputs} free) -> {self.outputs}"
        head = f"  {self.name}: {counted(self.samples, 'sample')}, {size}"
        return f"{head}\n    {_listed(self.layers)}\n    {self.model}"


@dataclass(frozen=True)
class ProblemDescription:
    """What `describe` returns; it prints as a tree.

    Attributes
    ----------
    sense
        "minimise" or "maximise".
    variables, integers, constraints
        Numbers of variables, of integer ones among them, and of linear constraints.
    networks
        The networks.
    blocks
        Into how many blocks the problem decomposes, and which constraints link them; or why it does
        not.
    plan
        The methods that `solve` runs, in this order, with their reasons.
    proof
        The proof that `solve` runs, or why there is none.
    left_out
        What proofs leave out of the problem.
    """

    sense: str
    variables: int
    integers: int
    constraints: int
    networks: tuple[DescribedNetwork, ...]
    blocks: str
    plan: tuple[PlannedMethod, ...]
    proof: PlannedProof
    left_out: tuple[LeftOut, ...]

    @property
    def provable(self) -> bool:
        """Whether `solve` runs a proof; how far its bound comes is not known before."""
        return self.proof.method not in WITHOUT_PROOF

    def __str__(self) -> str:
        size = f"{counted(self.variables, 'variable')} ({self.integers} integer)"
        parts = {
            "networks": map(str, self.networks),
            "blocks": [f"  {self.blocks}"],
            "search, in this order": [f"  {p.solver.method}: {p.reason}" for p in self.plan],
            "proof": [f"  {self.proof.method}: {self.proof.reason.partition(': they need ')[0]}"],
            "left out of proofs": [f"  {part}" for part in self.left_out] or ["  nothing"],
        }
        lines = [f"{self.sense}, {size}, {counted(self.constraints, 'linear constraint')}"]
        for head, texts in parts.items():
            lines += [head, *texts]
        return "\n".join(lines)


def describe(problem: NeuralMIP) -> ProblemDescription:
    """Describe a problem, and what `solve` will do with it, before any long work.

    Parameters
    ----------
    problem
        The problem.

    Returns
    -------
    ProblemDescription
        Sizes, networks, blocks, the plan of methods, the proof, and what proofs leave out. Printed,
        it is a tree.

    Raises
    ------
    ProblemError
        If the problem has no predictor, or a network input is unbounded.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> found = describe(hand_sized())
    >>> found.variables, found.networks[0].units, found.provable, found.left_out
    (3, 3, True, ())
    >>> print(found)  # doctest: +ELLIPSIS
    minimise, 3 variables (2 integer), ...
    """
    instance = problem.instance()
    stated = instance.stated.milp
    blocks = find_blocks(problem, instance)
    return ProblemDescription(
        sense="minimise" if stated.sign > 0 else "maximise",
        variables=stated.n_variables,
        integers=int(stated.integer.sum()),
        constraints=stated.n_rows,
        networks=tuple(_network(instance, i) for i in range(len(instance.predictors))),
        blocks=_blocks_text(blocks),
        plan=tuple(methods_for(problem, instance)),
        proof=planned_proof(instance, isinstance(blocks, Blocks)),
        left_out=tuple(left_out(instance)),
    )


def _network(instance: Instance, number: int) -> DescribedNetwork:
    predictor, mapping = instance.networks[number]
    free = set(mapping.index.ravel()) & set(instance.free_inputs)
    layers = [layer for layer in predictor.net.modules() if not any(layer.children())]
    samples, inputs = mapping.index.shape
    outputs = mapping.output.shape[1]
    model = _units_and_model(instance, number)
    names = tuple(map(_layer, layers))
    return DescribedNetwork(predictor.name, samples, inputs, outputs, len(free), names, *model)


def _units_and_model(instance: Instance, number: int) -> tuple[int | None, str]:
    try:
        graph = instance.graph(number)
    except UnsupportedNetworkError as error:
        return None, str(error).partition(": they need ")[0]
    units = sum(graph.nodes[index].units for index in graph.activations)
    model = "exact mixed-integer linear model"
    if graph.curved:
        model = f"bounds, without an exact model of {', '.join(sorted(set(graph.curved)))}"
    return units, f"{counted(units, 'unit')} with an activation; {model}"


def _layer(layer: nn.Module) -> str:
    """The class of a layer, and the number of its outputs if it has one."""
    outputs = getattr(layer, "out_features", getattr(layer, "out_channels", ""))
    return f"{type(layer).__name__} {outputs}".rstrip()


def _blocks_text(blocks: Blocks | Structure) -> str:
    """The blocks and what links them, or why there are none."""
    if isinstance(blocks, Blocks):
        names = tuple(blocks.resources)
    elif blocks.obstacle:
        return f"none: {blocks.obstacle}"
    else:
        names = blocks.names
    links = counted(len(names), "constraint")
    return f"{counted(blocks.n, 'block')}, linked by {links}: {_listed(names)}".rstrip(": ")


def _listed(names: tuple[str, ...]) -> str:
    """The first names, and how many there are if they are more."""
    text = ", ".join(names[:MAX_LISTED])
    return f"{text}, ... ({len(names)})" if len(names) > MAX_LISTED else text
