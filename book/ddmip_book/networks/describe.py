"""Description of a network by its size, kind and number of parameters."""

from typing import Any

from torch import nn

from .architectures import AttentionNet, Conv1dNet, LSTMNet, ResNet

DESCRIPTIONS: dict[type, str] = {
    Conv1dNet: "1-D convolutional network",
    ResNet: "residual network",
    LSTMNet: "LSTM",
    AttentionNet: "attention network",
}


def linear_layers(net: nn.Module) -> list[nn.Linear] | None:
    """Return the linear layers of a flat ReLU MLP (Linear, ReLU, ..., Linear).

    Parameters
    ----------
    net : nn.Module
        Any network.

    Returns
    -------
    list of nn.Linear or None
        None for any other network.
    """
    if not isinstance(net, nn.Sequential) or len(net) % 2 == 0:
        return None
    layers: list[Any] = list(net)
    for number, layer in enumerate(layers):
        if not isinstance(layer, nn.ReLU if number % 2 else nn.Linear):
            return None
    return layers[::2]


def describe(net: nn.Module) -> str:
    """Return size, kind and number of parameters of a network.

    Parameters
    ----------
    net : nn.Module
        Any network.

    Returns
    -------
    str
        The description.

    Examples
    --------
    >>> from ddmip_book.networks import lstm
    >>> describe(lstm(depth=1, width=8, n_in=9))
    '1x8 LSTM, 361 parameters'
    """
    count = sum(parameter.numel() for parameter in net.parameters())
    return f"{_kind(net)}, {count:,} parameters"


def _kind(net: nn.Module) -> str:
    linear = linear_layers(net)
    if linear is None:
        if type(net) not in DESCRIPTIONS:
            return type(net).__name__
        depth, width = net.size  # type: ignore[misc]
        return f"{depth}x{width} {DESCRIPTIONS[type(net)]}"
    widths = [layer.out_features for layer in linear[:-1]]
    if not widths:
        return "linear model"
    size = "-".join(map(str, widths))
    if len(set(widths)) == 1:
        size = f"{len(widths)}x{widths[0]}"
    return f"{size} ReLU MLP"
