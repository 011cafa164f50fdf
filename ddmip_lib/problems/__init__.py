"""Two small problems for examples: the running example, and blocks that share a budget."""

from ..renamed import renamed_names
from .hand_sized import hand_sized, hand_sized_net
from .shared_budget import shared_budget

__all__ = ["hand_sized", "hand_sized_net", "shared_budget"]

BOOK_PROBLEMS = ("SiteCare", "site_care", "tree_planting", "water_potability")
__getattr__ = renamed_names(
    __name__, **{name: f"ddmip_book.problems.{name}" for name in BOOK_PROBLEMS}
)
