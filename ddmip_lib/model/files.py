"""Problems in files: a model that SCIP reads, and a map of names that connects its networks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyscipopt import Model

from ..errors import ProblemError
from .exported import Network, load_network
from .point_files import read_json

File = str | os.PathLike[str]
REQUIRED = {"network", "inputs"}
OPTIONAL = {"outputs", "output"}


def require_file(path: Path) -> None:
    """Raise an error if there is no such file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give the path of a file.")


def read_model_file(path: File) -> Model:
    """Read a model by SCIP, which recognises the format by the ending of the name.

    Parameters
    ----------
    path : str or os.PathLike
        An MPS, LP or CIP file, which may be compressed by gzip.

    Returns
    -------
    pyscipopt.Model
        The model, which prints nothing.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ProblemError
        If SCIP cannot read it, or finds no variable in it.
    """
    path = Path(path)
    require_file(path)
    model = Model()
    model.hideOutput()
    remedy = "pass an MPS, LP or CIP file, which may be compressed by gzip."
    try:
        model.readProblem(str(path))
    except Exception as error:  # PySCIPOpt has no class of its own for them
        raise ProblemError(f"SCIP cannot read {path} ({error}) {remedy}") from error
    if not model.getVars():
        raise ProblemError(f"SCIP finds no variable in {path}: {remedy}")
    return model


def read_map(
    given: File | Mapping[str, Any],
    networks: Sequence[Network] | None = None,
    trust: bool = False,
) -> list[dict[str, Any]]:
    """Read a map of names: which variables the networks of a model connect.

    Parameters
    ----------
    given : str, os.PathLike or dict
        A JSON file, or its content (see `NeuralMIP.read`).
    networks : sequence of Network, optional
        Networks in the place of those that the map names.
    trust : bool
        Whether pickles may be loaded.

    Returns
    -------
    list of dict
        The arguments of `NeuralMIP.add_predictor` for each network.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ProblemError
        If the map has another form, or another number of networks; the message names the entry.

    Examples
    --------
    >>> from torch import nn
    >>> entry = {"inputs": [["x"]], "outputs": [["y"]]}
    >>> read_map({"predictors": [entry]}, [nn.ReLU()])
    [{'net': ReLU(), 'inputs': [['x']], 'outputs': [['y']]}]
    """
    folder = Path()
    if not isinstance(given, Mapping):
        require_file(Path(given))
        folder = Path(given).parent
        given = read_json(given)
    entries = given.get("predictors")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ProblemError(
            'the map has no list "predictors": write {"predictors": [{"network": "net.pt2",'
            ' "inputs": [["x1", "x2"]], "outputs": [["y"]]}]}.'
        )
    if networks is not None:
        folder = Path()
        if len(networks) != len(entries):
            raise ProblemError(
                f"the map has {len(entries)} predictors, but {len(networks)} networks were given:"
                " give one for each, in order."
            )
        pairs = zip(entries, networks, strict=True)
        entries = [{**entry, "network": network} for entry, network in pairs]
    return [_arguments(number, entry, folder, trust) for number, entry in enumerate(entries)]


def _arguments(number: int, entry: dict[str, Any], folder: Path, trust: bool) -> dict[str, Any]:
    """The arguments of `add_predictor` for one entry of a map, whose paths begin at a folder."""
    missing = REQUIRED - entry.keys()
    unknown = entry.keys() - REQUIRED - OPTIONAL
    if missing or unknown:
        fault = f"lacks {min(missing)!r}" if missing else f"has an unknown key {min(unknown)!r}"
        raise ProblemError(
            f"predictor {number} of the map {fault}: its keys are 'network', 'inputs', and"
            " optionally 'outputs' and 'output'."
        )
    rest = {key: value for key, value in entry.items() if key != "network"}
    network = entry["network"]
    if isinstance(network, str):
        network = folder / network
    return {"net": load_network(network, trust), **rest}
