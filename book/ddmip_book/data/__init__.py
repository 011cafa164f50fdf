"""The two benchmark data sets: published files if they are present, else synthetic stand-ins.

Examples
--------
>>> from ddmip_book.data import load_water
>>> load_water().feature_names[:3]
('ph', 'Hardness', 'Solids')
"""

from .dataset import DataError, Dataset, draw_nonpotable, light_range
from .files import cache_dir, download, status
from .load import load_trees, load_water, source, source_line

__all__ = [
    "DataError",
    "Dataset",
    "cache_dir",
    "download",
    "draw_nonpotable",
    "light_range",
    "load_trees",
    "load_water",
    "source",
    "source_line",
    "status",
]
