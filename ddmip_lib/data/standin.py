"""A synthetic stand-in for both files: same columns, rounded published means and spreads, a planted
rule.

It lets every chapter and test run without the real files. It holds no measurement, and nothing
learnt from it says anything about water or trees.
"""

import hashlib

import numpy as np

from .tables import SPECIES, Table

SEED = 20260
WATER_ROWS = 2000
TREE_ROWS = 700
TREE_RULES = ((-0.9, 0.6), (-0.5, 0.9), (0.9, 0.5), (0.6, 0.8))
"""Per species: log-odds of survival at medium light, and their rise with light."""

# mean, spread, decimals kept: summary figures of the published file, to about two digits
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


def _labels(logit: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    return (random.uniform(size=len(logit)) < 1 / (1 + np.exp(-logit))).astype(float)


def standin_water() -> Table:
    """Independent features, normal but for the skewed Solids; the label follows products and
    squares of them.

    >>> features, labels, _ = standin_water()
    >>> features.shape, bool(0.35 < labels.mean() < 0.45)
    ((2000, 9), True)
    """
    random = np.random.RandomState(SEED)
    mean, spread, decimals = WATER_MOMENTS.T
    z = np.clip(random.normal(size=(WATER_ROWS, len(mean))), -3.5, 3.5)
    skewed = random.gamma(6.5, size=WATER_ROWS)
    z[:, 2] = np.clip((skewed - 6.5) / np.sqrt(6.5), -2.4, 3.5)
    ph, hardness, solids, chloramines, sulfate, conductivity, carbon, methanes, turbidity = z.T
    rule = (
        1.2 * ph * sulfate
        - 0.9 * hardness * sulfate
        + 0.7 * solids * chloramines
        + 0.8 * (chloramines**2 - 1)
        + 0.5 * (hardness**2 - 1)
        - 0.4 * conductivity * carbon
        - 0.3 * methanes
        - 0.2 * turbidity
    )
    labels = _labels(0.6 * rule - 0.5, random)
    # fixed decimals per column, so that the last bits of a platform's exp or log cannot change the
    # hash
    columns = zip((mean + spread * z).T, decimals.astype(int), strict=True)
    features = np.column_stack([np.round(column, digits) for column, digits in columns])
    return features, labels, np.arange(WATER_ROWS)


def standin_trees() -> dict[str, Table]:
    """Per species a made-up field: survival by light, fungi and sterilising, which interact.

    Sterilising helps in the shade and harms in bright light; fungi raise its effect for every other
    species and lower it for the rest.

    >>> list(standin_trees()) == list(SPECIES)
    True
    """
    random = np.random.RandomState(SEED + 1)
    tables = {}
    for number, (species, (base, slope)) in enumerate(zip(SPECIES, TREE_RULES, strict=True)):
        category = random.choice(3, size=TREE_ROWS, p=(0.36, 0.53, 0.11))
        centre = np.array((0.058, 0.094, 0.135))[category]
        light = np.round(np.clip(random.normal(centre, 0.013), 0.03, 0.16), 3)
        shares = np.array([[0.54], [0.5], [0.25]])
        myco, soil, sterilised = (random.uniform(size=(3, TREE_ROWS)) < shares).astype(float)
        soil *= 1 - sterilised  # sterilised soil carries no fungi
        brightness = (light - 0.085) / 0.026
        sterilising = 0.6 - brightness + 0.9 * (-1) ** number * (2 * myco - 1)
        logit = (
            base + slope * brightness + 0.5 * myco - 0.4 * soil * myco + sterilised * sterilising
        )
        features = np.column_stack([light, np.eye(3)[category], myco, soil, sterilised])
        numbers = np.arange(number * TREE_ROWS, (number + 1) * TREE_ROWS)
        tables[species] = (features, _labels(logit, random), numbers)
    return tables


def content_hash(*tables: Table) -> str:
    """sha256 of features, labels and row numbers, in order.

    >>> content_hash(standin_water()) == content_hash(standin_water())
    True
    """
    digest = hashlib.sha256()
    for table in tables:
        for array in table:
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
