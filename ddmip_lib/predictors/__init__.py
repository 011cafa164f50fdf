"""Predictors on tabular data: architectures, training, and files of weights.

>>> from ddmip_lib.predictors import describe, mlp
>>> describe(mlp(depth=2, width=16, n_in=9))
'2x16 ReLU MLP, 449 parameters'
"""

from .architectures import attention, conv1d, lstm, mlp, resnet
from .black_box import black_box
from .describe import describe
from .npz import load_npz, save_npz
from .scikit import from_sklearn
from .training import train

__all__ = [
    "attention",
    "black_box",
    "conv1d",
    "describe",
    "from_sklearn",
    "load_npz",
    "lstm",
    "mlp",
    "resnet",
    "save_npz",
    "train",
]
