"""Flat layers compute what the network computes, and the range of its outputs contains it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ddmip_book.networks import conv1d, lstm, mlp, resnet
from ddmip_lib.bounds.layer_list import flat_layers, output_range
from ddmip_lib.errors import UnsupportedNetworkError


def forward(layers, x):
    with torch.no_grad():
        return nn.Sequential(*layers)(torch.tensor(x)).numpy()


def test_nested_dropout_batchnorm_and_missing_bias_are_folded():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(4)
    norm.running_mean = torch.randn(4)
    norm.running_var = torch.rand(4) + 0.5
    norm.weight.data = torch.randn(4)
    norm.bias.data = torch.randn(4)
    net = nn.Sequential(
        nn.Sequential(nn.Linear(3, 4, bias=False), norm, nn.ReLU()),
        nn.Dropout(0.5),
        nn.Identity(),
        nn.Linear(4, 2),
    ).eval()
    layers = flat_layers(net, 3)
    x = np.random.default_rng(1).normal(size=(50, 3))
    with torch.no_grad():
        expected = net.double()(torch.tensor(x)).numpy()
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear]
    np.testing.assert_allclose(forward(layers, x), expected, atol=1e-12)


def test_the_given_network_keeps_its_precision():
    net = mlp(1, 4, 3)
    flat_layers(net, 3)
    assert next(net.parameters()).dtype == torch.float32


@pytest.mark.parametrize("net", [nn.LeakyReLU(), nn.Sequential(nn.Linear(3, 2), nn.GELU())])
def test_unsupported_layers_are_named(net):
    with pytest.raises(
        UnsupportedNetworkError, match=r"exact model needs.*(LeakyReLU|GELU).*DualDecomposition"
    ):
        flat_layers(net.eval(), 3)


@pytest.mark.parametrize("make", [resnet, lstm])
def test_other_architectures_are_refused(make):
    with pytest.raises(UnsupportedNetworkError, match="DualDecomposition"):
        flat_layers(make(1, 4, 9), 9)


def test_what_forward_does_besides_its_layers_is_read():
    class Doubled(nn.Sequential):
        def forward(self, x):
            return 2 * super().forward(x)

    for net in (Doubled(nn.Linear(3, 1)).eval(), conv1d(1, 4, 3)):
        x = np.random.default_rng(1).normal(size=(20, 3))
        layers = flat_layers(net, 3)
        with torch.no_grad():
            np.testing.assert_allclose(
                forward(layers, x), net.double()(torch.tensor(x)).numpy(), atol=1e-12
            )


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    depth=st.integers(1, 3),
    width=st.integers(1, 8),
    radius=st.floats(0, 3),
)
def test_the_output_range_contains_every_sampled_output(seed, depth, width, radius):
    rng = np.random.default_rng(seed)
    net = mlp(depth, width, 3, n_out=2, seed=seed).double()
    centre = rng.normal(size=(4, 3))
    low, high = output_range(net, centre - radius, centre + radius)
    with torch.no_grad():
        for _ in range(50):
            y = net(torch.tensor(centre + radius * rng.uniform(-1, 1, size=centre.shape))).numpy()
            assert (y >= low).all()
            assert (y <= high).all()
    if radius == 0:
        np.testing.assert_allclose(low, high, atol=1e-12)
