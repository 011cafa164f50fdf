"""Synthetic stand-ins for both files: the same columns, rounded published means and standard
deviations, and made-up labels.

With them all chapters and tests run without the published files. They contain no measurement, and
no result on them is a result about water or trees.
"""

import hashlib

import numpy as np
from numpy import ndarray

from .tables import SPECIES, Table

STANDIN_SEED = 20260
"""Seed of the generated data."""
WATER_ROWS = 2000
"""Number of records of the stand-in for Water Potability."""
TREE_ROWS = 700
"""Number of records for each species of the stand-in for Tree Survival."""
TREE_RULES = ((-0.9, 0.6), (-0.5, 0.9), (0.9, 0.5), (0.6, 0.8))
"""For each species: log-odds of survival at medium light, and their increase with light."""
LIGHT_FREQUENCIES = (0.36, 0.53, 0.11)
"""Frequencies of low, medium and high light."""
LIGHT_CENTRES = np.array((0.058, 0.094, 0.135))
"""Mean light of each category."""
TREATMENT_FREQUENCIES = np.array([[0.54], [0.5], [0.25]])
"""Frequencies of fungi, fungi of the soil, and sterilised soil."""
WATER_MOMENTS = np.array(
    [
        (7.1, 1.6, 4),
        (196.0, 33.0, 3),
        (21900.0, 8600.0, 1),
        (7.1, 1.6, 4),
        (333.0, 41.0, 3),
        (427.0, 81.0, 3),
        (14.4, 3.3, 4),
        (66.0, 16.0, 3),
        (4.0, 0.8, 4),
    ]
)
"""For each feature: mean and standard deviation of the published file to about two digits, and the
number of decimals that are kept.
"""


def _labels(logit: ndarray, random: np.random.RandomState) -> ndarray:
    """Random labels with these log-odds."""
    return (random.uniform(size=len(logit)) < 1 / (1 + np.exp(-logit))).astype(float)


def standin_water() -> Table:
    """Generate independent features, normal but for the skewed Solids, and labels.

    Returns
    -------
    features, labels, row_numbers : numpy.ndarray
        The table.

    Examples
    --------
    >>> features, labels, _ = standin_water()
    >>> features.shape, bool(0.35 < labels.mean() < 0.45)
    ((2000, 9), True)
    """
    random = np.random.RandomState(STANDIN_SEED)
    mean, deviation, decimals = WATER_MOMENTS.T
    z = np.clip(random.normal(size=(WATER_ROWS, len(mean))), -3.5, 3.5)
    skewed = random.gamma(6.5, size=WATER_ROWS)
    z[:, 2] = np.clip((skewed - 6.5) / np.sqrt(6.5), -2.4, 3.5)
    labels = _labels(0.6 * _water_rule(z) - 0.5, random)
    # fixed decimals, so that the last bits of a platform's exp or log cannot change the hash
    columns = zip((mean + deviation * z).T, decimals.astype(int), strict=True)
    features = np.column_stack([np.round(column, digits) for column, digits in columns])
    return features, labels, np.arange(WATER_ROWS)


def _water_rule(z: ndarray) -> ndarray:
    """Log-odds of potability, up to scale and shift, by products and squares of features."""
    ph, hardness, solids, chloramines, sulfate, conductivity, carbon, methanes, turbidity = z.T
    return (
        1.2 * ph * sulfate
        - 0.9 * hardness * sulfate
        + 0.7 * solids * chloramines
        + 0.8 * (chloramines**2 - 1)
        + 0.5 * (hardness**2 - 1)
        - 0.4 * conductivity * carbon
        - 0.3 * methanes
        - 0.2 * turbidity
    )


def standin_trees() -> dict[str, Table]:
    """Generate a field for each species: survival by light, fungi and sterilised soil.

    Sterilising is of use in the shade and harmful in bright light; fungi increase its effect for
    the first and third species and decrease it for the others.

    Returns
    -------
    dict of str to Table
        Features, labels and record numbers of each species.

    Examples
    --------
    >>> list(standin_trees()) == list(SPECIES)
    True
    """
    random = np.random.RandomState(STANDIN_SEED + 1)
    return {species: _tree_table(number, random) for number, species in enumerate(SPECIES)}


def _tree_table(number: int, random: np.random.RandomState) -> Table:
    """The table of one species."""
    category = random.choice(3, size=TREE_ROWS, p=LIGHT_FREQUENCIES)
    unbounded_light = random.normal(LIGHT_CENTRES[category], 0.013)
    light = np.round(np.clip(unbounded_light, 0.03, 0.16), 3)
    treated = random.uniform(size=(3, TREE_ROWS)) < TREATMENT_FREQUENCIES
    myco, soil, sterilised = treated.astype(float)
    soil *= 1 - sterilised  # sterilised soil carries no fungi
    features = np.column_stack([light, np.eye(3)[category], myco, soil, sterilised])
    labels = _labels(_survival_rule(number, features), random)
    return features, labels, number * TREE_ROWS + np.arange(TREE_ROWS)


def _survival_rule(number: int, features: ndarray) -> ndarray:
    """Log-odds of survival of one species."""
    light, _, _, _, myco, soil, sterilised = features.T
    brightness = (light - 0.085) / 0.026
    effect_of_fungi = 0.9 * (-1) ** number * (2 * myco - 1)
    sterilising = 0.6 - brightness + effect_of_fungi
    base, increase = TREE_RULES[number]
    return base + increase * brightness + 0.5 * myco - 0.4 * soil * myco + sterilised * sterilising


def content_hash(*tables: Table) -> str:
    """Compute the sha256 of features, labels and record numbers, in order.

    Parameters
    ----------
    *tables : tuple of numpy.ndarray
        The tables.

    Returns
    -------
    str
        Hexadecimal digits.

    Examples
    --------
    >>> content_hash(standin_water()) == content_hash(standin_water())
    True
    """
    digest = hashlib.sha256()
    for table in tables:
        for array in table:
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
