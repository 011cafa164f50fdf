"""Reading the two CSV files, with every structural problem named by file, column and row."""

import csv
import io
import math
from collections.abc import Collection

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
MAY_BE_MISSING = ("ph", "Sulfate", "Trihalomethanes")
TREE_FEATURES = ("light", "low", "med", "high", "myco", "soil myco", "sterilised")
SPECIES = ("Acer saccharum", "Prunus serotina", "Quercus alba", "Quercus rubra")
TREE_LEVELS = {
    "Species": SPECIES,
    "Light_Cat": ("Low", "Med", "High"),
    "Sterile": ("Sterile", "Non-Sterile"),
    "Myco": ("AMF", "EMF"),
    "SoilMyco": ("AMF", "EMF", "Sterile"),
    "Event": ("0", "1"),
}

MOST_COLUMNS = 100

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, zero-based data-row numbers


def _where(name: str, row: int) -> str:
    return f"{name}, data row {row} (line {row + 2})"


def _records(content: bytes, name: str, columns: Collection[str]) -> list[dict[str, str]]:
    """All rows as dictionaries of the named columns, after checking the header and the width of
    every row.
    """
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{name}: not a CSV text file ({problem})") from problem
    if not rows:
        raise DataError(f"{name}: the file is empty")
    header = rows[0]
    if len(header) > MOST_COLUMNS:
        raise DataError(f"{name}: the header has {len(header)} columns, more than {MOST_COLUMNS}")
    missing = [column for column in columns if column not in header]
    if missing:
        raise DataError(
            f"{name}: column {missing[0]!r} is missing; the header has {', '.join(header)}"
        )
    for number, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise DataError(f"{_where(name, number)} has {len(row)} of {len(header)} columns")
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def _number(record: dict[str, str], column: str, name: str, row: int) -> float:
    try:
        value = float(record[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{_where(name, row)}, column {column!r}: {record[column]!r} is not a finite number"
        )
    return value


def _level(
    record: dict[str, str], column: str, levels: tuple[str, ...], name: str, row: int
) -> str:
    if record[column] not in levels:
        raise DataError(
            f"{_where(name, row)}, column {column!r}: {record[column]!r} is none of"
            f" {', '.join(levels)}"
        )
    return record[column]


def parse_water(content: bytes, name: str) -> Table:
    """The complete rows: nine features in file order, label = Potability."""
    features = []
    labels = []
    numbers = []
    records = _records(content, name, (*WATER_FEATURES, "Potability"))
    for row, record in enumerate(records):
        gaps = [column for column in MAY_BE_MISSING if record[column] == ""]
        label = float(_level(record, "Potability", ("0", "1"), name, row))
        values = [
            _number(record, column, name, row) for column in WATER_FEATURES if column not in gaps
        ]
        if not gaps:
            features.append(values)
            labels.append(label)
            numbers.append(row)
    if not features:
        raise DataError(f"{name}: none of its {len(records)} data rows is complete")
    return np.array(features), np.array(labels), np.array(numbers)


def parse_trees(content: bytes, name: str) -> dict[str, Table]:
    """Per species: light, six 0/1 flags, and survival (1 where no death event was recorded)."""
    rows: dict[str, list[tuple[list[float], float, int]]] = {species: [] for species in SPECIES}
    for row, record in enumerate(_records(content, name, ("Light_ISF", *TREE_LEVELS))):
        level = {
            column: _level(record, column, levels, name, row)
            for column, levels in TREE_LEVELS.items()
        }
        flags = [level["Light_Cat"] == category for category in TREE_LEVELS["Light_Cat"]]
        flags += [level["Myco"] == "AMF", level["SoilMyco"] == "AMF", level["Sterile"] == "Sterile"]
        values = [_number(record, "Light_ISF", name, row), *map(float, flags)]
        rows[level["Species"]].append((values, float(level["Event"] == "0"), row))
    for species, found in rows.items():
        if not found:
            raise DataError(f"{name}: column 'Species' never says {species!r}")
    return {
        species: tuple(np.array(column) for column in zip(*found, strict=True))  # type: ignore[misc]
        for species, found in rows.items()
    }
