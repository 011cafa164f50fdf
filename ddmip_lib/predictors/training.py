"""Training by one fixed recipe, the same bits for the same seed on the same CPU."""

import copy
import inspect
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..clock import now
from ..data import Dataset
from ..model.description import Aside
from ..model.gradients import take_step
from . import cache as disk
from .architectures import seeded

FORMAT = 1  # part of every cache key: raise it when what is stored under a key changes
VALIDATION_SHARE = (
    0.1  # share of the training rows that decides an early stop; the test rows never do
)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums over several threads are not reproducible, and nets this small gain nothing from
    them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check(net: nn.Module, data: Dataset, **sizes: float) -> None:
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, not {type(net).__name__}")
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a Dataset (see ddmip_lib.data), not {type(data).__name__}")
    for name in ("epochs", "batch_size", "patience"):
        if sizes[name] is not None and (sizes[name] < 1 or sizes[name] != int(sizes[name])):
            raise ValueError(f"{name} = {sizes[name]}: pass an integer of at least 1")
    if sizes["learning_rate"] <= 0 or sizes["weight_decay"] < 0:
        raise ValueError("learning_rate must be positive and weight_decay non-negative")
    if not 0 < sizes["test_share"] < 1 or int((1 - sizes["test_share"]) * len(data.features)) < 2:
        raise ValueError(
            f"test_share = {sizes['test_share']}: pass a share in (0, 1) that leaves training rows"
        )


def _check_shape(net: nn.Module, x: Tensor) -> None:
    try:
        shape = tuple(net.eval()(x[:2]).shape)
    except RuntimeError as problem:
        raise ValueError(
            f"the network does not take rows of {x.shape[1]} features: {problem}"
        ) from problem
    if shape != (2, 1):
        raise ValueError(
            f"the network maps two rows to shape {shape}: train needs (2, 1), so use n_out=1"
        )


def _fit(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: nn.Module,
    order: torch.Generator,
    bar: Any,
    learning_rate: float,
    weight_decay: float,
    batch_size: int,
    patience: int | None,
) -> int:
    """Adam on shuffled batches; returns the epochs run. With `patience`, keeps the best epoch's
    weights.
    """
    held_out = max(1, round(VALIDATION_SHARE * len(x))) if patience else 0
    rows = len(x) - held_out
    moments = {
        weight: (torch.zeros_like(weight), torch.zeros_like(weight)) for weight in net.parameters()
    }
    step = 0
    best = float("inf")
    best_epoch = 0
    best_state = net.state_dict()
    epoch = 0
    for epoch in bar:
        net.train()
        for batch in torch.randperm(rows, generator=order).split(batch_size):
            step += 1
            net.zero_grad()
            loss(net(x[batch])[:, 0], y[batch]).backward()
            with torch.no_grad():
                for weight, mine in moments.items():
                    if weight.grad is not None:
                        take_step(
                            weight,
                            weight.grad.add(weight, alpha=weight_decay),
                            learning_rate,
                            mine,
                            step,
                        )
        if patience:
            net.eval()
            with torch.no_grad():
                score = float(loss(net(x[rows:])[:, 0], y[rows:]))
            if score < best:
                best = score
                best_epoch = epoch
                best_state = copy.deepcopy(net.state_dict())
            if epoch - best_epoch >= patience:
                break
    if patience:
        net.load_state_dict(best_state)
    return epoch


def _score(net: nn.Module, x: Tensor, y: Tensor, task: str) -> float:
    with torch.no_grad():
        output = net(x)[:, 0]
    if task == "classification":
        return float(((output > 0) == (y > 0.5)).double().mean())
    return float(((output - y) ** 2).mean())


def train(
    net: nn.Module,
    data: Dataset,
    seed: int = 0,
    epochs: int = 60,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    batch_size: int = 64,
    test_share: float = 0.2,
    patience: int | None = None,
    progress: bool = False,
    cache: bool = True,
) -> nn.Module:
    r"""A trained copy of `net`: Adam in float32 on one thread, then cast to float64, evaluation
    mode, frozen.

    Minimises the mean of :math:`\log(1 + e^f) - y f` (classification, `f` the logit) or :math:`(f -
    y)^2` (regression) over the first `1 - test_share` of a permutation of the rows by `seed`, which
    also orders the batches. The network sees ``(features - mean) / std`` and carries ``mean``,
    ``std`` and a ``report``. With `patience`, a tenth of the training rows decides when to stop.
    Networks are cached on disk unless ``cache=False`` or their code cannot be read.

    >>> from ddmip_lib.data import load_water
    >>> from ddmip_lib.predictors import mlp
    >>> net = train(mlp(depth=1, width=4, n_in=9), load_water(), epochs=1, cache=False)
    >>> net.report["epochs"], net.mean.shape
    (1, (9,))
    """
    recipe = {
        "seed": seed,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "patience": patience,
        "weight_decay": weight_decay,
        "batch_size": batch_size,
        "test_share": test_share,
    }
    _check(net, data, **recipe)  # type: ignore[arg-type]
    width = data.features.shape[1]
    mean, std = (data.mean, data.std) if data.standardise else (np.zeros(width), np.ones(width))
    if not (std > 0).all():
        raise ValueError(
            f"feature {data.feature_names[int(np.argmin(std))]!r} is constant: drop it"
        )
    trained = copy.deepcopy(net).float().cpu().requires_grad_(True)
    for name in ("mean", "std", "report"):
        trained.__dict__.pop(name, None)
    code = inspect.getsource(_fit) + inspect.getsource(_train)
    parts = [
        FORMAT,
        torch.__version__,
        platform.machine(),
        code,
        sorted(recipe.items()),
        data.provenance,
        data.task,
        data.features,
        data.labels,
        mean,
        std,
    ]
    key = disk.key_of(trained, parts) if cache else None
    entry = disk.load(key) if key else None
    cached = entry is not None
    if entry is None:
        entry = _train(trained, data, mean, std, recipe, progress)
        if key:
            disk.store(key, entry)
    else:
        trained.load_state_dict(entry["state"])
    trained.double().requires_grad_(False).eval()
    trained.__dict__.update(mean=mean, std=std, report=Aside({**entry["report"], "cached": cached}))
    return trained


def _train(
    net: nn.Module,
    data: Dataset,
    mean: np.ndarray,
    std: np.ndarray,
    recipe: dict[str, Any],
    progress: bool,
) -> dict[str, Any]:
    """Train in place; the entry for the cache: weights and report."""
    recipe = dict(recipe)
    seed = recipe.pop("seed")
    epochs = recipe.pop("epochs")
    test_share = recipe.pop("test_share")
    x = torch.tensor((data.features - mean) / std, dtype=torch.float32)
    y = torch.tensor(data.labels, dtype=torch.float32)
    order = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(x), generator=order)
    training = int((1 - test_share) * len(x))
    train_rows = rows[:training]
    test_rows = rows[training:]
    loss = nn.BCEWithLogitsLoss() if data.task == "classification" else nn.MSELoss()
    from tqdm.auto import tqdm  # here, since it takes a while to import

    start = now()
    with (
        one_thread(),
        seeded(seed),
        tqdm(range(1, epochs + 1), "training", disable=not progress) as bar,
    ):
        _check_shape(net, x)
        epochs_run = _fit(net, x[train_rows], y[train_rows], loss, order, bar, **recipe)
        net.eval()
        measure = "accuracy" if data.task == "classification" else "mse"
        scores = {
            f"{part}_{measure}": _score(net, x[chosen], y[chosen], data.task)
            for part, chosen in (("train", train_rows), ("test", test_rows))
        }
    if not all(bool(torch.isfinite(tensor).all()) for tensor in net.state_dict().values()):
        raise ValueError("training diverged (non-finite weights): lower learning_rate")
    report = {**scores, "seconds": now() - start, "epochs": epochs_run, "data": data.provenance}
    return {"state": net.state_dict(), "report": report}
