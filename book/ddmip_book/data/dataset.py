"""Data sets as the loaders return them, and two quantities of the benchmark instances."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray


class DataError(ValueError):
    """A data file is missing or damaged."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table of features with one 0/1 label for each record.

    Attributes
    ----------
    name
        Name of the data set.
    source
        "real" or "stand-in".
    sha256
        Checksum of the file, or of the generated content of the stand-in.
    features
        (records, p) features in their units.
    labels
        (records,) labels 0 and 1.
    feature_names
        Names of the p features.
    row_numbers
        (records,) numbers of the records in the CSV file or the generated table, from 0.
    task
        "classification" (one logit, cross-entropy) or "regression" (linear output, squared error).
    standardise
        Whether networks are trained on ``(features - mean) / std``, and not on the features.

    Raises
    ------
    ValueError
        If shapes do not fit, or the task is unknown.

    Examples
    --------
    >>> tiny = Dataset(
    ...     name="tiny",
    ...     source="stand-in",
    ...     sha256="0" * 64,
    ...     features=np.array([[1.0], [3.0]]),
    ...     labels=np.array([0.0, 1.0]),
    ...     feature_names=("ph",),
    ...     row_numbers=np.array([0, 1]),
    ...     task="classification",
    ...     standardise=True,
    ... )
    >>> tiny
    Dataset 'tiny' (stand-in, sha256 00000000): 2 rows, 1 features, 50.0 % label 1, classification
    >>> tiny.mean, tiny.std
    (array([2.]), array([1.]))
    """

    name: str
    source: str
    sha256: str
    features: ndarray
    labels: ndarray
    feature_names: tuple[str, ...]
    row_numbers: ndarray
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
    def mean(self) -> ndarray:
        """Mean of each feature."""
        return self.features.mean(axis=0)

    @property
    def std(self) -> ndarray:
        """Population standard deviation of each feature, with the number of records as divisor."""
        return self.features.std(axis=0)

    @property
    def provenance(self) -> dict[str, str | int]:
        """Name, source, sha256 and number of records, for the record of a run."""
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


def draw_nonpotable(data: Dataset, n: int, seed: int, repeat: bool = False) -> ndarray:
    """Draw records of label 0 in the order of a random permutation.

    Draws of the same seed are nested: a smaller instance is a prefix of a larger one.

    Parameters
    ----------
    data : Dataset
        The data set.
    n : int
        Number of records.
    seed : int
        Seed of the permutation.
    repeat : bool, default: False
        Draw with replacement, so that `n` may exceed the number of records of label 0.

    Returns
    -------
    numpy.ndarray of int
        Positions in ``data.features``.

    Raises
    ------
    ValueError
        If there are fewer than `n` such records, or `n` is less than 1.

    Examples
    --------
    >>> from ddmip_book.data import load_water
    >>> data = load_water()
    >>> data.labels[draw_nonpotable(data, n=3, seed=42)]
    array([0., 0., 0.])
    """
    candidates = np.flatnonzero(data.labels == 0)
    if n < 1 or (n > len(candidates) and not repeat):
        raise ValueError(
            f"n = {n}: {data.name!r} has {len(candidates)} label-0 rows; choose n from 1 to that,"
            " or repeat=True to draw them with replacement"
        )
    # numpy guarantees the stream of RandomState for ever: stored instances must be reproducible
    random = np.random.RandomState(seed)
    if repeat:
        return random.choice(candidates, n)
    return random.permutation(candidates)[:n]


def light_range(trees: Mapping[str, Dataset]) -> tuple[float, float]:
    """Return the smallest and the largest value of light over all species.

    Parameters
    ----------
    trees : mapping of str to Dataset
        The data sets of `load_trees`.

    Returns
    -------
    lower, upper : float
        The range.

    Examples
    --------
    >>> from ddmip_book.data import load_trees
    >>> lower, upper = light_range(load_trees())
    >>> 0 < lower < upper < 1
    True
    """
    light = np.concatenate([data.features[:, 0] for data in trees.values()])
    return float(light.min()), float(light.max())
