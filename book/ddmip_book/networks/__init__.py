"""Networks of the benchmarks: architectures, training on tabular data, and files of weights.

>>> from ddmip_book.networks import describe, mlp
>>> describe(mlp(depth=2, width=16, n_in=9))
'2x16 ReLU MLP, 449 parameters'
"""

from .architectures import attention, conv1d, lstm, mlp, resnet
from .describe import describe
from .npz import load_npz, save_npz
from .training import train

__all__ = [
    "attention",
    "conv1d",
    "describe",
    "load_npz",
    "lstm",
    "mlp",
    "resnet",
    "save_npz",
    "train",
]
