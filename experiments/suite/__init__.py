"""The suite: models of different shape on which every method is tried, and rivals."""

from torch import nn

from ddmip_book.experiments.case import SUITE, Case
from ddmip_book.experiments.execute import BUILDERS, build
from ddmip_book.experiments.networks import SOURCES, Source
from ddmip_book.experiments.rows import Row, decode
from ddmip_book.experiments.verify import RECOMPUTED_BY, objective_by_model
from ddmip_lib import NeuralMIP
from ddmip_lib.problems import hand_sized
from .looks import Generated, own_check
from .members import build_model


def _suite(case: Case, size: int, nets: list[nn.Module]) -> NeuralMIP:
    return build_model(case.network) if size == case.size else hand_sized()


def _networks(case: Case) -> list[nn.Module]:
    return [predictor.net for predictor in build_model(case.network).predictors]


def _recomputed(row: Row, nets: list[nn.Module]) -> float | str:
    """By the library, and by SCIP with the networks in numpy."""
    found = objective_by_model(row, nets)
    if isinstance(found, str):
        return found
    return own_check(build(row.case, nets), decode(row.point["values"], row.point["dtype"]))


MORE_BUILDERS = {"suite": _suite}
BUILDERS.update(MORE_BUILDERS)
SOURCES[SUITE] = Source(
    data=lambda case: {f"suite_{case.network}.npz": Generated(case.network)}, networks=_networks
)
RECOMPUTED_BY[SUITE] = _recomputed
