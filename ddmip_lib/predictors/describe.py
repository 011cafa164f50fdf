"""A network in one line."""

from torch import nn

from .architectures import AttentionNet, Conv1dNet, LSTMNet, ResNet

NAMES: dict[type, str] = {
    Conv1dNet: "1-D convolutional network",
    ResNet: "residual network",
    LSTMNet: "LSTM",
    AttentionNet: "attention network",
}


def linear_layers(net: nn.Module) -> list[nn.Linear] | None:
    """The linear layers of a flat ReLU MLP (Linear, ReLU, ..., Linear), or None for any other
    network.
    """
    layers = list(net) if isinstance(net, nn.Sequential) else []
    linear = [layer for layer in layers[::2] if isinstance(layer, nn.Linear)]
    is_mlp = len(layers) % 2 == 1 and len(linear) == len(layers[::2])
    return linear if is_mlp and all(isinstance(layer, nn.ReLU) for layer in layers[1::2]) else None


def describe(net: nn.Module) -> str:
    """Size, kind and number of parameters.

    >>> from ddmip_lib.predictors import lstm
    >>> describe(lstm(depth=1, width=8, n_in=9))
    '1x8 LSTM, 361 parameters'
    """
    parameters = f"{sum(parameter.numel() for parameter in net.parameters()):,} parameters"
    linear = linear_layers(net)
    if linear is not None:
        widths = [layer.out_features for layer in linear[:-1]]
        if not widths:
            return f"linear model, {parameters}"
        uniform = len(set(widths)) == 1
        size = f"{len(widths)}x{widths[0]}" if uniform else "-".join(map(str, widths))
        return f"{size} ReLU MLP, {parameters}"
    if type(net) in NAMES:
        depth, width = net.size  # type: ignore[misc]
        return f"{depth}x{width} {NAMES[type(net)]}, {parameters}"
    return f"{type(net).__name__}, {parameters}"
