"""Networks are read as they are while other threads read, or predict with, the same and other
networks.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from torch import Tensor, nn

from ddmip_book.networks import conv1d, resnet
from ddmip_lib.bounds import network_graph
from ddmip_lib.bounds.reader import traced_run
from ddmip_lib.errors import UnsupportedNetworkError

READERS = 3
PREDICTORS = 2
REPETITIONS = 15


class Mixed(nn.Module):
    """A layer that bounds cannot follow, within two that they can."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.bend = nn.Softplus()
        self.last = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.bend(self.first(x)))
        return out


def networks() -> list[nn.Module]:
    leaky = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    return [
        net.double().eval() for net in (resnet(2, 4, 3), conv1d(2, 3, 3), leaky, plain, Mixed())
    ]


def reading(net: nn.Module) -> tuple[list[str], list[Tensor] | str, str]:
    """All that is read of a network: its nodes with their names, its values by the graph, its last
    operation.
    """
    last = traced_run(net, 3).last
    try:
        graph = network_graph(net, 3)
    except UnsupportedNetworkError as error:
        return [], str(error), last
    return (
        [graph.name(k) for k in range(len(graph.nodes))],
        [graph(torch.linspace(-1, 1, 6).double().view(2, 3))],
        last,
    )


@pytest.fixture
def quick_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("quick_switches")
def test_reading_while_others_read_and_predict() -> None:
    nets = networks()
    done = Event()
    expected = [reading(net) for net in nets]
    x = torch.zeros(2, 3).double()
    values = [net(x) for net in nets]

    def read(first: int) -> list[str]:
        found = []
        for k in range(first, first + REPETITIONS):
            now = reading(nets[k % len(nets)])
            then = expected[k % len(nets)]
            same = now[0] == then[0] and now[2] == then[2]
            same &= (
                now[1] == then[1]
                if isinstance(then[1], str)
                else torch.equal(now[1][0], then[1][0])
            )  # type: ignore[arg-type]
            found += [] if same else [repr(now)]
        return found

    def predict() -> int:
        rounds = 0
        while not (done.is_set() and rounds):
            assert all(torch.equal(net(x), value) for net, value in zip(nets, values, strict=True))
            rounds += 1
        return rounds

    with ThreadPoolExecutor(READERS + PREDICTORS) as pool:
        predicting = [pool.submit(predict) for _ in range(PREDICTORS)]
        reads = [pool.submit(read, first) for first in range(READERS)]
        try:
            wrong = [text for future in reads for text in future.result()]
        finally:
            done.set()
        assert wrong == []
        assert all(future.result() for future in predicting)
