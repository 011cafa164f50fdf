"""Predictors besides networks of PyTorch: fitted estimators and functions without gradients."""

from ..renamed import renamed_names
from .black_box import black_box
from .scikit import from_sklearn

__all__ = ["black_box", "from_sklearn"]

BOOK_NETWORKS = (
    "attention",
    "conv1d",
    "describe",
    "load_npz",
    "lstm",
    "mlp",
    "resnet",
    "save_npz",
    "train",
)
__getattr__ = renamed_names(
    __name__, **{name: f"ddmip_book.networks.{name}" for name in BOOK_NETWORKS}
)
