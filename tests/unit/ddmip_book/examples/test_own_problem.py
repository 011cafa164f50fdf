"""The program to download from the user guide, and the helpers of its pages."""

from __future__ import annotations

import itertools
import runpy

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.examples.own_problem import Records, forward, learn, relu
from tests.builders.places import ROOT

PROGRAM = ROOT / "book" / "own_problem.py"


def test_the_program_to_download_finds_the_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    made = runpy.run_path(str(PROGRAM))
    grid = np.array(list(itertools.product(range(7), range(5))), dtype=float)
    with torch.no_grad():
        values = made["net"](torch.tensor(grid)).numpy()[:, 0] - 0.2 * grid.sum(axis=1)
    use = grid[:, 0] + 2 * grid[:, 1]
    best = np.full(13, -np.inf)
    for budget in range(13):
        best[budget] = values[use <= budget].max()
    splits = [s for s in itertools.product(range(13), repeat=3) if sum(s) <= 12]
    optimum = max(best[list(split)].sum() for split in splits)
    assert made["solution"].objective == pytest.approx(optimum, abs=1e-6)
    assert made["solution"].status == "optimal"
    assert "status" in capsys.readouterr().out


def test_the_program_is_short() -> None:
    code = [line for line in PROGRAM.read_text().splitlines() if line.strip()]
    assert len(code) <= 35


def test_the_guide_links_to_the_program() -> None:
    assert "{download}`own_problem.py" in (ROOT / "book" / "own_problem.ipynb").read_text()


def test_a_trained_network_is_evaluated_with_numpy_in_its_own_units() -> None:
    x = np.random.default_rng(0).uniform(100, 300, (60, 2))
    net = learn([2, 6, 1], Records(x, 5 * x[:, :1] - x[:, 1:]), nn.ReLU)
    assert np.allclose(forward(net, x, relu), net(torch.tensor(x)).numpy())
    error = forward(net, x, relu)[:, 0] - (5 * x[:, 0] - x[:, 1])
    assert np.sqrt((error**2).mean()) < 0.05 * x.std()
