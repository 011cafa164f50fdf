"""Parsers of the two CSV files; their checksums are verified before, so that entries are not.

A file is parsed once: problems, networks and figures load the same one many times.
"""

import csv
import io
from functools import cache

import numpy as np
from numpy import ndarray

WATER_FEATURES = (
    "ph",
    "Hardness",
    "Solids",
    "Chloramines",
    "Sulfate",
    "Conductivity",
    "Organic_carbon",
    "Trihalomethanes",
    "Turbidity",
)
"""Features of Water Potability, columns of its file."""
TREE_FEATURES = ("light", "low", "med", "high", "myco", "soil myco", "sterilised")
"""Features of Tree Survival, made from the columns of its file."""
SPECIES = ("Acer saccharum", "Prunus serotina", "Quercus alba", "Quercus rubra")
"""Species of Tree Survival."""

Table = tuple[ndarray, ndarray, ndarray]
"""Features, labels, and numbers of the data records from 0."""


def _records(content: bytes) -> list[dict[str, str]]:
    """The data records of a CSV file, with entries by column."""
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


@cache
def parse_water(content: bytes) -> Table:
    """Parse the file of Water Potability.

    Parameters
    ----------
    content : bytes
        The file's content.

    Returns
    -------
    features, labels, row_numbers : numpy.ndarray
        The records without missing entries: nine features in the order of the file, and potability.
    """
    columns = (*WATER_FEATURES, "Potability")
    rows = []
    for record in _records(content):
        rows.append([float(record[column] or "nan") for column in columns])
    complete = np.flatnonzero(np.isfinite(rows).all(axis=1))
    entries = np.array(rows)[complete]
    return entries[:, :-1].copy(), entries[:, -1].copy(), complete


@cache
def parse_trees(content: bytes) -> dict[str, Table]:
    """Parse the file of Tree Survival.

    Parameters
    ----------
    content : bytes
        The file's content.

    Returns
    -------
    dict of str to Table
        For each species light, six 0/1 features, and survival: 1 where no death was recorded.
    """
    records = _records(content)
    features = np.array([_tree_features(record) for record in records])
    survived = np.array([float(record["Event"] == "0") for record in records])
    species = np.array([record["Species"] for record in records])
    tables = {}
    for name in SPECIES:
        numbers = np.flatnonzero(species == name)
        tables[name] = features[numbers], survived[numbers], numbers
    return tables


def _tree_features(record: dict[str, str]) -> list[float]:
    """Light, the three light categories, and three 0/1 treatments."""
    return [
        float(record["Light_ISF"]),
        *(record["Light_Cat"] == level for level in ("Low", "Med", "High")),
        record["Myco"] == "AMF",
        record["SoilMyco"] == "AMF",
        record["Sterile"] == "Sterile",
    ]
