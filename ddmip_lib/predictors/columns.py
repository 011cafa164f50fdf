"""The steps before the last one of a scikit-learn pipeline, as functions of its input columns.

A column of categories becomes one input for each category, of which one is 1 and the others 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from pyscipopt import Model, quicksum

from ..errors import ProblemError, UnsupportedNetworkError, of_extra

SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
ENCODERS = ("OneHotEncoder", "OrdinalEncoder")
UNCHANGING = ("SimpleImputer", "FunctionTransformer", "str", "NoneType")
"""Steps that change no finite input; a function is checked for being the identity."""


class Scaling(NamedTuple):
    """The function (x - center) / divisor * factor + shift, rounded as scikit-learn rounds it."""

    center: float = 0.0
    divisor: float = 1.0
    factor: float = 1.0
    shift: float = 0.0

    def of(self, x: Any) -> Any:
        """Return the scaled values."""
        return (x - self.center) / self.divisor * self.factor + self.shift


class Entry(NamedTuple):
    """A column between two steps.

    Attributes
    ----------
    source
        Weights of the inputs, a matrix of one row; a row for each category before they are encoded.
    scalings
        What is applied to them, in order.
    """

    source: ndarray
    scalings: tuple[Scaling, ...] = ()

    def scaled(self, x: Any) -> Any:
        """Apply the scalings."""
        for scaling in self.scalings:
            x = scaling.of(x)
        return x

    def affine(self) -> tuple[ndarray, float]:
        """Return the weights of the inputs and the constant."""
        slope = np.prod([scaling.factor / scaling.divisor for scaling in self.scalings])
        return self.source[0] * slope, float(self.scaled(0.0))


class Column(NamedTuple):
    """A column of what an estimator was fitted to.

    Attributes
    ----------
    name
        Its name, or its number.
    categories
        Its categories, empty for numbers.
    """

    name: Any
    categories: tuple[Any, ...] = ()

    @property
    def width(self) -> int:
        """Number of inputs."""
        return max(1, len(self.categories))


@dataclass(frozen=True, eq=False)
class InputColumns:
    """All input columns of an estimator.

    Attributes
    ----------
    columns
        The columns, in the order of the data that the estimator was fitted to.
    named
        Whether that data was a table with names.
    """

    columns: list[Column]
    named: bool

    @property
    def places(self) -> list[tuple[Column, slice]]:
        """The columns, each with its inputs."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        pairs = zip(self.columns, ends, strict=True)
        return [(column, slice(end - column.width, end)) for column, end in pairs]

    @property
    def width(self) -> int:
        """Number of inputs."""
        return sum(column.width for column in self.columns)

    def data(self, x: ndarray) -> Any:
        """Return samples as the estimator takes them: a table where it was fitted to one."""
        series = []
        for column, place in self.places:
            if column.categories:
                series.append(np.array(column.categories)[x[:, place].argmax(axis=1)])
            else:
                series.append(x[:, place.start])
        if self.named:
            frames = of_extra("pandas", "frames", "an estimator that was fitted to a table")
            names = [column.name for column in self.columns]
            return frames.DataFrame(dict(zip(names, series, strict=True)))
        if self.choices():
            return np.array([list(each) for each in series], dtype=object).T
        return x

    def matrix(self, inputs: Any) -> Any:
        """Return inputs that are given by the names of columns as a matrix.

        Parameters
        ----------
        inputs
            A mapping from each column to an entry, or to one entry for each sample. In place of an
            entry stand, for a column of categories, a mapping from categories to binaries, a list
            of one binary for each category, or a category. Anything else is returned unchanged.

        Raises
        ------
        ProblemError
            If a column is missing or unknown, or a category is.
        """
        if not hasattr(inputs, "items"):
            return inputs
        given = dict(inputs.items())
        names = [column.name for column in self.columns]
        if set(given) != set(names):
            raise ProblemError(
                f"the inputs are given for columns {sorted(map(str, given))}, but the estimator was"
                f" fitted to {names}: pass an entry for each of them."
            )
        blocks = [_block(column, given[column.name]) for column in self.columns]
        counts = [len(block) for block in blocks]
        samples = max(counts)
        if not {1, samples}.issuperset(counts):
            raise ProblemError(
                f"columns {names} have {counts} entries: give one for each sample, or one for all."
            )
        return np.hstack([np.broadcast_to(block, (samples, block.shape[1])) for block in blocks])

    def choose_categories(self, model: Model, x: ndarray, name: str) -> None:
        """Let the binaries of each column of categories sum to one, in each sample.

        Parameters
        ----------
        model
            The model that gets the constraints.
        x
            The inputs.
        name
            Start of the names of the constraints.

        Raises
        ------
        ProblemError
            If a variable for a category is not binary.
        """
        for number, sample in enumerate(x):
            for chosen in self.choices():
                variables = [entry for entry in sample[chosen] if hasattr(entry, "vtype")]
                others = [variable.name for variable in variables if variable.vtype() != "BINARY"]
                if others:
                    raise ProblemError(
                        f"{others[0]} stands for a category and must be binary: add it with"
                        ' vtype="B".'
                    )
                if variables:
                    total = quicksum(sample[chosen])
                    model.addCons(total == 1, name=f"{name}_category_{number}_{chosen.start}")

    def choices(self) -> list[slice]:
        """Return the inputs of each column of categories."""
        return [place for column, place in self.places if column.categories]


def _objects(entry: Any) -> ndarray:
    """An array of variables and numbers; one of PySCIPOpt becomes one of numpy."""
    return np.array(np.asarray(entry, dtype=object), dtype=object)


def _block(column: Column, entry: Any) -> ndarray:
    """The inputs of one column, one row for each sample or for all."""
    categories = column.categories
    values = _objects(entry)
    if not categories:
        return values.reshape(-1, 1)
    if not isinstance(entry, Mapping):
        if values.ndim and not isinstance(values.flat[0], (str, type(categories[0]))):
            block = values.reshape(-1, values.shape[-1])
            if block.shape[1] != len(categories):
                raise ProblemError(
                    f"column {column.name!r} has {block.shape[1]} entries for a sample: give one"
                    f" binary for each of its categories {categories}."
                )
            return block
        entry = {value: (values.ravel() == value).astype(float) for value in values.flat}
    unknown = set(entry) - set(categories)
    if unknown:
        raise ProblemError(
            f"column {column.name!r} has no category {min(map(str, unknown))!r}: the estimator was"
            f" fitted to {categories}."
        )
    parts = [_objects(entry.get(category, 0.0)).ravel() for category in categories]
    return np.stack(np.broadcast_arrays(*parts), axis=1)


def read_entries(estimator: Any) -> list[Entry]:
    """Return what the last step of a pipeline is given; of another estimator its columns.

    Raises
    ------
    UnsupportedNetworkError
        If a step is neither a scaling, nor an encoding, nor a selection of columns.
    """
    columns = read_columns(estimator)
    identity = np.eye(columns.width)
    entries = [Entry(identity[place]) for _, place in columns.places]
    for step in split_steps(estimator)[0]:
        entries = _after(step, entries)
    if any(len(entry.source) != 1 for entry in entries):
        raise UnsupportedNetworkError("a column of categories is not encoded")
    return entries


def split_steps(estimator: Any) -> tuple[list[Any], Any]:
    """Return all steps before the last one, and the last one, of nested pipelines too."""
    if type(estimator).__name__ != "Pipeline":
        return [], estimator
    steps = [step for _, step in estimator.steps]
    inner, last = split_steps(steps.pop())
    return steps + inner, last


def read_columns(estimator: Any) -> InputColumns:
    """Return the columns that an estimator was fitted to."""
    before, last = split_steps(estimator)
    count = _number_of_columns([estimator, *before, last])
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    named = bool(names) and names != [f"Column_{k}" for k in range(count)]
    categories = dict(_categories(before, range(count)))
    labels = names if named else range(count)
    return InputColumns(
        [Column(label, categories.get(k, ())) for k, label in enumerate(labels)], named
    )


def _number_of_columns(steps: Sequence[Any]) -> int:
    """The number of columns of the first of these that has one: an estimator, then its steps."""
    for step in steps:
        if hasattr(step, "n_features_in_"):
            return int(step.n_features_in_)
    for method in ("num_features", "num_feature"):  # of boosters
        if hasattr(steps[0], method):
            return int(getattr(steps[0], method)())
    return int(require_fitted(steps[0], "n_features_in_"))


def _categories(
    steps: Sequence[Any], positions: Sequence[int]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the columns among these that the steps encode, with their categories.

    Only the first step that changes something counts: columns have other positions after it.
    """
    for step in [each for each in steps if type(each).__name__ not in UNCHANGING][:1]:
        name = type(step).__name__
        if name == "Pipeline":
            yield from _categories([inner for _, inner in step.steps], positions)
        elif name == "ColumnTransformer":
            for inner, chosen in _parts(step):
                yield from _categories([inner], [positions[k] for k in chosen])
        elif name in ENCODERS:
            for position, values in zip(positions, step.categories_, strict=True):
                yield position, tuple(values.tolist())


def _parts(step: Any) -> Iterator[tuple[Any, list[int]]]:
    """Yield the transformers of a ColumnTransformer with the positions of their columns."""
    for label, inner, _ in step.transformers_:
        if not (isinstance(inner, str) and inner == "drop"):
            yield inner, list(step._transformer_to_input_indices[label])


def _after(step: Any, entries: list[Entry]) -> list[Entry]:
    """The columns after a step."""
    name = type(step).__name__
    if name in UNCHANGING and getattr(step, "func", None) is None:
        return entries
    if name == "Pipeline":
        for _, inner in step.steps:
            entries = _after(inner, entries)
        return entries
    if name == "ColumnTransformer":
        after: list[Entry] = []
        for inner, chosen in _parts(step):
            after += _after(inner, [entries[k] for k in chosen])
        return after
    if name in ENCODERS:
        return list(_encoded(step, entries))
    if hasattr(step, "get_support"):
        return list(compress(entries, step.get_support()))
    scaled = zip(entries, read_scalings(step), strict=True)
    return [Entry(entry.source, (*entry.scalings, scaling)) for entry, scaling in scaled]


def _encoded(step: Any, entries: list[Entry]) -> Iterator[Entry]:
    if any(part is not None for part in getattr(step, "infrequent_categories_", None) or ()):
        raise UnsupportedNetworkError("OneHotEncoder puts infrequent categories together")
    dropped = getattr(step, "drop_idx_", None)
    for k, entry in enumerate(entries):
        if len(entry.source) != len(step.categories_[k]):
            raise UnsupportedNetworkError(f"{type(step).__name__} encodes what is encoded already")
        if type(step).__name__ == "OrdinalEncoder":
            yield Entry(np.arange(float(len(entry.source)))[None] @ entry.source)
            continue
        for number, source in enumerate(entry.source):
            if dropped is None or number != dropped[k]:
                yield Entry(source[None])


def read_scalings(step: Any) -> list[Scaling]:
    """Return the scaling of each column by a fitted scaler.

    Raises
    ------
    UnsupportedNetworkError
        If it is no such scaler, or clips, or is not fitted.
    """
    name = type(step).__name__
    if name not in SCALERS or getattr(step, "clip", False):
        raise UnsupportedNetworkError(
            f"{name} cannot be folded into a layer, only {', '.join((*SCALERS, *ENCODERS))} can,"
            " without clip: pass the pipeline to add_predictor, which then evaluates it as a black"
            " box, or convert the last step alone, and write the transformed columns as linear"
            " expressions."
        )
    scale = require_fitted(step, "scale_")
    table = np.tile(Scaling(), (step.n_features_in_, 1))
    center = step.mean_ if getattr(step, "with_mean", False) else getattr(step, "center_", None)
    fields = {2: scale, 3: step.min_} if name == "MinMaxScaler" else {0: center, 1: scale}
    for field, values in fields.items():
        if values is not None:
            table[:, field] = values
    return [Scaling(*row) for row in table.tolist()]


def require_fitted(estimator: Any, field: str) -> Any:
    """Return a field that fitting sets.

    Raises
    ------
    UnsupportedNetworkError
        If the estimator is not fitted.
    """
    if not hasattr(estimator, field):
        raise UnsupportedNetworkError(
            f"this {type(estimator).__name__} is not fitted: call its fit() first."
        )
    return getattr(estimator, field)
