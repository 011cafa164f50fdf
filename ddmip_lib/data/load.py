"""Loaders of the data sets: from the published file if it is present, else from the stand-in."""

import hashlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from .dataset import DataError, Dataset
from .files import DOWNLOAD, FILES, DataFile, locate
from .standin import content_hash, standin_trees, standin_water
from .tables import TREE_FEATURES, WATER_FEATURES, Table, parse_trees, parse_water

Parsed = TypeVar("Parsed")
MAX_FILE_BYTES = 4 * 2**20
"""Size above which a file is not read; the published files are smaller."""
_parsed: dict[str, Any] = {}
"""Parsed tables by the checksum of their file, of which each caller gets a copy."""


def _read(path: Path, file: DataFile, parse: Callable[[bytes, str], Parsed]) -> Parsed:
    """Parse a file whose checksum is that of the published file."""
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise DataError(
            f"{path} has {size} bytes, more than any published file: get that by {DOWNLOAD} or from"
            f" {file.url}"
        )
    content = path.read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != file.sha256:
        raise DataError(
            f"{path}: checksum mismatch, expected sha256 {file.sha256}, found {checksum};"
            f" {_first_problem(content, file, parse)}. Fetch the file again: {DOWNLOAD} or"
            f" {file.url}"
        )
    if checksum not in _parsed:
        _parsed[checksum] = parse(content, file.name)
    return deepcopy(_parsed[checksum])


def _first_problem(content: bytes, file: DataFile, parse: Callable[[bytes, str], Parsed]) -> str:
    """How the content of a file differs from the published one."""
    try:
        parse(content, file.name)
    except DataError as problem:
        return f"first problem: {problem}"
    rows = len(content.splitlines()) - 1
    if rows != file.rows:
        return f"first problem: {rows} data rows instead of {file.rows}"
    return "its structure is sound, so values were changed"


def load_water() -> Dataset:
    """Load Water Potability: the complete rows, nine features, label 1 for potable.

    Returns
    -------
    Dataset
        The data set.

    Raises
    ------
    DataError
        If a file is damaged, or missing in the folder of ``DDMIP_DATA_DIR``.

    Examples
    --------
    >>> data = load_water()
    >>> data.features.shape[1], data.task
    (9, 'classification')
    """
    path = locate("water")
    if path is None:
        table = standin_water()
        return _water(table, "stand-in", content_hash(table))
    file = FILES["water"]
    return _water(_read(path, file, parse_water), "real", file.sha256)


def _water(table: Table, source: str, sha256: str) -> Dataset:
    features, labels, numbers = table
    return Dataset(
        name="water",
        source=source,
        sha256=sha256,
        features=features,
        labels=labels,
        feature_names=WATER_FEATURES,
        row_numbers=numbers,
        task="classification",
        standardise=True,
    )


def load_trees() -> dict[str, Dataset]:
    """Load Tree Survival: one data set for each species, seven features, label 1 for survived.

    Returns
    -------
    dict of str to Dataset
        The data sets by species.

    Raises
    ------
    DataError
        If a file is damaged, or missing in the folder of ``DDMIP_DATA_DIR``.

    Examples
    --------
    >>> list(load_trees())
    ['Acer saccharum', 'Prunus serotina', 'Quercus alba', 'Quercus rubra']
    """
    path = locate("trees")
    if path is None:
        tables = standin_trees()
        return _trees(tables, "stand-in", content_hash(*tables.values()))
    file = FILES["trees"]
    return _trees(_read(path, file, parse_trees), "real", file.sha256)


def _trees(tables: dict[str, Table], source: str, sha256: str) -> dict[str, Dataset]:
    return {
        species: Dataset(
            name=species,
            source=source,
            sha256=sha256,
            features=features,
            labels=labels,
            feature_names=TREE_FEATURES,
            row_numbers=numbers,
            task="regression",
            standardise=False,
        )
        for species, (features, labels, numbers) in tables.items()
    }


def source(key: str = "water") -> str:
    """Return which source a loader would use now.

    Parameters
    ----------
    key : {"water", "trees"}
        The data set.

    Returns
    -------
    str
        "real" or "stand-in".

    Raises
    ------
    ValueError
        If there is no such data set.
    DataError
        If ``DDMIP_DATA_DIR`` names a folder without the file.

    Examples
    --------
    >>> source("water") in ("real", "stand-in")
    True
    """
    if key not in FILES:
        raise ValueError(f"unknown data set {key!r}: choose one of {', '.join(FILES)}")
    return "stand-in" if locate(key) is None else "real"


def source_line() -> str:
    """Return a sentence about the sources of both data sets, for captions and page footers.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> source_line().startswith("Data: ")
    True
    """
    words = {
        "real": "the published file",
        "stand-in": "a synthetic stand-in generated by ddmip_lib (no measurements)",
    }
    water = words[source("water")]
    trees = words[source("trees")]
    if water != trees:
        return f"Data: water from {water}, trees from {trees}."
    both = water.replace("the published file", "the published files")
    return f"Data: water and trees from {both}."
