"""Parsers of the two CSV files; errors name file, column and row."""

import csv
import io
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from .dataset import DataError

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
MAY_BE_MISSING = ("ph", "Sulfate", "Trihalomethanes")
"""Features of Water Potability that some rows lack."""
TREE_FEATURES = ("light", "low", "med", "high", "myco", "soil myco", "sterilised")
"""Features of Tree Survival, made from the columns of its file."""
SPECIES = ("Acer saccharum", "Prunus serotina", "Quercus alba", "Quercus rubra")
"""Species of Tree Survival."""
TREE_LEVELS = {
    "Species": SPECIES,
    "Light_Cat": ("Low", "Med", "High"),
    "Sterile": ("Sterile", "Non-Sterile"),
    "Myco": ("AMF", "EMF"),
    "SoilMyco": ("AMF", "EMF", "Sterile"),
    "Event": ("0", "1"),
}
"""Possible entries of the columns of Tree Survival."""
MAX_HEADER_COLUMNS = 100
"""Number of columns above which a file is refused."""

Table = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Features, labels, and numbers of the data rows from 0."""


@dataclass(frozen=True)
class _Record:
    """One data row of a file: entries by column."""

    file: str
    row: int
    entries: dict[str, str]

    def number(self, column: str) -> float:
        """The entry as a finite number."""
        try:
            value = float(self.entries[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._error(column, "is not a finite number")
        return value

    def level(self, column: str, levels: tuple[str, ...]) -> str:
        """The entry, which must be one of these."""
        entry = self.entries[column]
        if entry not in levels:
            raise self._error(column, f"is none of {', '.join(levels)}")
        return entry

    def _error(self, column: str, problem: str) -> DataError:
        place = f"{_place(self.file, self.row)}, column {column!r}"
        return DataError(f"{place}: {self.entries[column]!r} {problem}")


def _place(file: str, row: int) -> str:
    return f"{file}, data row {row} (line {row + 2})"


def _records(content: bytes, name: str, columns: Collection[str]) -> list[_Record]:
    """The data rows, after checks of the header and of the width of every row."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{name}: not a CSV text file ({problem})") from problem
    if not rows:
        raise DataError(f"{name}: the file is empty")
    header = rows.pop(0)
    width = len(header)
    if width > MAX_HEADER_COLUMNS:
        raise DataError(f"{name}: the header has {width} columns, more than {MAX_HEADER_COLUMNS}")
    missing = [column for column in columns if column not in header]
    if missing:
        raise DataError(
            f"{name}: column {missing[0]!r} is missing; the header has {', '.join(header)}"
        )
    for number, row in enumerate(rows):
        if len(row) != width:
            raise DataError(f"{_place(name, number)} has {len(row)} of {width} columns")
    return [
        _Record(name, number, dict(zip(header, row, strict=True)))
        for number, row in enumerate(rows)
    ]


def _table(rows: Sequence[tuple[list[float], float, int]]) -> Table:
    """Features, labels and numbers of rows as arrays."""
    features, labels, numbers = zip(*rows, strict=True)
    return np.array(features), np.array(labels), np.array(numbers)


def parse_water(content: bytes, name: str) -> Table:
    """Parse the file of Water Potability.

    Parameters
    ----------
    content : bytes
        The file's content.
    name : str
        The file's name, for messages.

    Returns
    -------
    features, labels, row_numbers : numpy.ndarray
        The rows without missing entries: nine features in the order of the file, and potability.

    Raises
    ------
    DataError
        If the file is damaged, or no row is complete.
    """
    records = _records(content, name, (*WATER_FEATURES, "Potability"))
    rows = []
    for record in records:
        missing = [column for column in MAY_BE_MISSING if record.entries[column] == ""]
        label = float(record.level("Potability", ("0", "1")))
        values = [record.number(column) for column in WATER_FEATURES if column not in missing]
        if not missing:
            rows.append((values, label, record.row))
    if not rows:
        raise DataError(f"{name}: none of its {len(records)} data rows is complete")
    return _table(rows)


def parse_trees(content: bytes, name: str) -> dict[str, Table]:
    """Parse the file of Tree Survival.

    Parameters
    ----------
    content : bytes
        The file's content.
    name : str
        The file's name, for messages.

    Returns
    -------
    dict of str to Table
        For each species light, six 0/1 features, and survival: 1 where no death was recorded.

    Raises
    ------
    DataError
        If the file is damaged, or a species is missing.
    """
    rows: dict[str, list[tuple[list[float], float, int]]] = {species: [] for species in SPECIES}
    for record in _records(content, name, ("Light_ISF", *TREE_LEVELS)):
        for column, levels in TREE_LEVELS.items():
            record.level(column, levels)
        survived = float(record.entries["Event"] == "0")
        row = (_tree_features(record), survived, record.row)
        rows[record.entries["Species"]].append(row)
    for species, found in rows.items():
        if not found:
            raise DataError(f"{name}: column 'Species' has no entry {species!r}")
    return {species: _table(found) for species, found in rows.items()}


def _tree_features(record: _Record) -> list[float]:
    """Light, the three light categories, and three 0/1 treatments."""
    entries = record.entries
    categories = [float(entries["Light_Cat"] == level) for level in TREE_LEVELS["Light_Cat"]]
    return [
        record.number("Light_ISF"),
        *categories,
        float(entries["Myco"] == "AMF"),
        float(entries["SoilMyco"] == "AMF"),
        float(entries["Sterile"] == "Sterile"),
    ]
