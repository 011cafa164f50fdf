"""Methods that only the grids use: peers, rivals on the suite, variants with a part exchanged."""

from ddmip_book.experiments.methods import METHODS, Method
from ddmip_lib import BigM
from .ablation import RandomOptions
from .certified import Certified
from .peers import GurobiML, OmltHighs
from .started import Started
from .suite.rivals import GradientWalk, RandomPoints, RelaxAndWalk

MORE_METHODS: dict[str, Method] = {
    "prices-random": Method(lambda device: RandomOptions(), False, "prices, random options"),
    "certificate": Method(
        lambda device: Certified(device), False, "price coordination with certificate"
    ),
    "random-points": Method(lambda device: RandomPoints(), False, "random feasible points"),
    "relax-walk": Method(lambda device: RelaxAndWalk(), False, "relax-and-walk"),
    "gradient-walk": Method(lambda device: GradientWalk(), False, "gradient walk"),
    "bigm-started": Method(
        lambda device: Started(BigM(check=False)), True, "Big-M from our best point"
    ),
    "gurobi-ml": Method(lambda device: GurobiML(), True, "gurobi-machinelearning"),
    "omlt-highs": Method(lambda device: OmltHighs(), True, "OMLT with HiGHS"),
}
METHODS.update(MORE_METHODS)
