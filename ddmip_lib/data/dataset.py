"""What a loader returns, and the two quantities that the benchmark instances take from it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


class DataError(ValueError):
    """A data file is missing or damaged; the message names file, column and row."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table of raw features with one 0/1 label per row.

    A network sees ``(features - mean) / std`` where `standardise` is true, else the raw features.

    >>> tiny = Dataset(
    ...     "tiny",
    ...     "stand-in",
    ...     "0" * 64,
    ...     np.array([[1.0], [3.0]]),
    ...     np.array([0.0, 1.0]),
    ...     ("ph",),
    ...     np.array([0, 1]),
    ...     "classification",
    ...     True,
    ... )
    >>> tiny
    Dataset 'tiny' (stand-in, sha256 00000000): 2 rows, 1 features, 50.0 % label 1, classification
    >>> tiny.mean, tiny.std
    (array([2.]), array([1.]))
    """

    name: str
    source: str  #: ``"real"`` or ``"stand-in"``.
    sha256: str  #: Of the file, or of the generated content for the stand-in.
    features: np.ndarray  #: float64, raw units, (rows, p).
    labels: np.ndarray  #: float64 in {0, 1}, (rows,).
    feature_names: tuple[str, ...]
    row_numbers: (
        np.ndarray
    )  #: Zero-based data-row numbers in the CSV file (in the generated table for the stand-in).
    # : ``"classification"`` (one logit, cross-entropy) or ``"regression"`` (linear output, squared
    # error).
    task: str
    standardise: bool

    def __post_init__(self) -> None:
        rows = len(self.features)
        if self.features.shape != (rows, len(self.feature_names)):
            raise ValueError(
                f"features has shape {self.features.shape}, but there are {len(self.feature_names)}"
                " feature names: pass one column per name"
            )
        if self.labels.shape != (rows,) or self.row_numbers.shape != (rows,):
            raise ValueError(
                f"labels and row_numbers must have one entry for each of the {rows} rows"
            )
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task must be 'classification' or 'regression', not {self.task!r}")

    @property
    def mean(self) -> np.ndarray:
        """Mean of each feature over these rows."""
        return self.features.mean(axis=0)

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation (divisor: number of rows) of each feature over
        these rows.
        """
        return self.features.std(axis=0)

    @property
    def provenance(self) -> dict[str, str | int]:
        """What a stored result must say about its data; no path, no values."""
        return {
            "name": self.name,
            "source": self.source,
            "sha256": self.sha256,
            "rows": len(self.features),
        }

    def __repr__(self) -> str:
        rows, width = self.features.shape
        return (
            f"Dataset {self.name!r} ({self.source}, sha256 {self.sha256[:8]}): {rows} rows, "
            f"{width} features, {100 * self.labels.mean():.1f} % label 1, {self.task}"
        )


def draw_nonpotable(data: Dataset, n: int, seed: int, repeat: bool = False) -> np.ndarray:
    """The first `n` label-0 rows in the order of a seeded permutation, as indices into
    ``data.features``.

    Draws of the same seed are nested: a smaller instance is a prefix of a larger one. With `repeat`
    rows are drawn with replacement, so that `n` may exceed their number.

    >>> tiny = Dataset(
    ...     "tiny",
    ...     "stand-in",
    ...     "0" * 64,
    ...     np.zeros((4, 1)),
    ...     np.array([0.0, 1.0, 0.0, 0.0]),
    ...     ("ph",),
    ...     np.arange(4),
    ...     "classification",
    ...     True,
    ... )
    >>> sorted(draw_nonpotable(tiny, n=3, seed=42).tolist())
    [0, 2, 3]
    """
    candidates = np.flatnonzero(data.labels == 0)
    if n < 1 or (n > len(candidates) and not repeat):
        remedy = "choose n from 1 to that, or repeat=True to draw them with replacement"
        raise ValueError(f"n = {n}: {data.name!r} has {len(candidates)} label-0 rows; {remedy}")
    # RandomState, whose stream numpy guarantees for ever: stored instances must stay reproducible
    draw = np.random.RandomState(seed)
    return draw.choice(candidates, n) if repeat else draw.permutation(candidates)[:n]


def light_range(trees: Mapping[str, Dataset]) -> tuple[float, float]:
    """Smallest and largest light value over all species.

    >>> from ddmip_lib.data import load_trees
    >>> low, high = light_range(load_trees())
    >>> 0 < low < high < 1
    True
    """
    light = np.concatenate(
        [data.features[:, data.feature_names.index("light")] for data in trees.values()]
    )
    return float(light.min()), float(light.max())
