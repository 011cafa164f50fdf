"""Solutions and histories for other programs: JSON, and tables by pandas where it is installed."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np


def as_json(fields: Mapping[str, Any]) -> str:
    """A readable JSON object; numbers that JSON does not have, NaN and infinity, are null.

    >>> print(as_json({"objective": np.float64(2.5), "bound": -np.inf}))
    {
     "objective": 2.5,
     "bound": null
    }
    """

    def plain(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {str(key): plain(value) for key, value in part.items()}
        if isinstance(part, (list, tuple, np.ndarray)):
            return [plain(value) for value in part]
        part = part.item() if isinstance(part, np.generic) else part
        return None if isinstance(part, float) and not np.isfinite(part) else part

    return json.dumps(plain(fields), indent=1, allow_nan=False)


def as_frame(columns: Mapping[str, Any]) -> Any:
    """A pandas.DataFrame of these columns."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError("to_frame() needs pandas, which ddmip_lib does not install: pip install pandas.") from error
    return pandas.DataFrame(dict(columns))
