"""The command line: files in, files out, and exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import Solution
from ddmip_lib.__main__ import main
from tests.builders.networks import linear
from tests.builders.places import ROOT

BUDGET_MODEL = """Maximize
 obj: y
Subject To
 budget: x1 + x2 <= 3
Bounds
 x1 <= 2
 x2 <= 2
 y free
Generals
 x1 x2
End
"""


def write(folder: Path, net: nn.Module) -> list[str]:
    """The arguments that name a problem in a folder."""
    (folder / "m.lp").write_text(BUDGET_MODEL)
    example = torch.zeros(2, 2, dtype=torch.float64)
    torch.jit.save(torch.jit.trace(net.double(), example), folder / "net.pt")
    entry = {"network": "net.pt", "inputs": [["x1", "x2"]], "outputs": [["y"]]}
    (folder / "map.json").write_text(json.dumps({"predictors": [entry]}))
    return [str(folder / "m.lp"), "--map", str(folder / "map.json")]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """max 2 x1 + x2 with x1 + x2 <= 3 over integers up to 2: 5."""
    return write(tmp_path, linear(2.0, 1.0))


def test_solve_and_verify(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "solution.json"
    assert main(["solve", *files, "--out", str(out)]) == 0
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "objective   5" in streams.err
    assert Solution.from_json(out)["x1"] == 2.0
    assert main(["verify", *files, str(out)]) == 0
    assert "feasible" in capsys.readouterr().out
    start = tmp_path / "start.sol"
    start.write_text("x1 2\nx2 2\ny 6\n")
    assert main(["verify", *files, str(start)]) == 1
    assert "constraint budget" in capsys.readouterr().out
    again = tmp_path / "again.sol"
    arguments = ["--start", str(start), "--out", str(again), "--quiet", "--seed", "1"]
    assert main(["solve", *files, *arguments]) == 0
    assert capsys.readouterr() == ("", "")
    assert "y 5.0" in again.read_text()


def test_options_reach_solve(files: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(["describe", *files]) == 0
    assert "maximise, 3 variables (2 integer)" in capsys.readouterr().out
    assert main(["solve", *files, "--gap", "0.5", "--threads", "1", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["gap_tolerance"] == 0.5
    assert main(["solve", *files, "--target", "4", "--quiet"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["objective"] >= 4.0


def test_export(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "plain.lp"
    assert main(["export", *files, "--out", str(out)]) == 0
    assert "exact model" in capsys.readouterr().err
    model = Model()
    model.hideOutput()
    model.readProblem(str(out))
    model.optimize()
    model.writeBestSol(str(tmp_path / "plain.sol"))
    names = ["--names", str(tmp_path / "plain.json")]
    assert main(["verify", *files, str(tmp_path / "plain.sol"), *names]) == 0
    assert "objective               5" in capsys.readouterr().out


def test_json_goes_to_stdout(files: list[str], capsys: pytest.CaptureFixture) -> None:
    net = str(Path(files[0]).parent / "net.pt")
    assert main(["solve", *files, "--net", net, "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["objective"] == 5.0


def test_statuses(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = tmp_path / "m.lp"
    model.write_text(
        BUDGET_MODEL.replace("End", "").replace("Bounds", " high: y >= 9\nBounds") + "End"
    )
    out = tmp_path / "none.sol"
    assert main(["solve", *files, "--out", str(out)]) == 3
    assert not out.exists()
    assert "proved infeasible" in capsys.readouterr().err
    assert main(["solve", *files, "--time-limit", "0", "--quiet"]) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--out", "no/such/folder.json"], "there is no such folder"),
        (["--out", "solution.txt"], "must end in .json or .sol"),
        (["--start", "nowhere.sol"], "nowhere.sol"),
        (["--map", "nowhere.json"], "nowhere.json"),
        (["--time-limit", "nan"], "must be a number of seconds"),
    ],
)
def test_wrong_arguments(
    files: list[str], arguments: list[str], told: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["solve", *files, *arguments]) == 2
    assert told in capsys.readouterr().err


def test_usage(files: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as wrong:
        main(["slove"])
    assert wrong.value.code == 2
    assert main(["solve", files[0]]) == 2
    assert "add --map" in capsys.readouterr().err


def test_a_pickle_needs_trust(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    torch.save(linear(1.0, 2.0), tmp_path / "pickled.pt")
    pickled = ["--net", str(tmp_path / "pickled.pt"), "--quiet"]
    assert main(["solve", *files, *pickled]) == 2
    assert "trust" in capsys.readouterr().err
    assert main(["solve", *files, *pickled, "--trust"]) == 0


def test_ctrl_c_writes_what_was_found(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(2, 60), nn.Tanh(), nn.Linear(60, 60), nn.Tanh(), nn.Linear(60, 1)]
    net = nn.Sequential(*layers).eval()
    for weight in net.parameters():
        weight.data *= 4
    files = write(tmp_path, net)
    model = tmp_path / "m.lp"
    model.write_text(BUDGET_MODEL.replace("Generals\n x1 x2\n", ""))
    out = tmp_path / "solution.json"
    options = ["--gap", "1e-12", "--time-limit", "3600"]  # no proof is as good as that
    command = [sys.executable, "-m", "ddmip_lib", "solve", *files, *options, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    for line in process.stderr:
        if "best" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 1
    assert Solution.from_json(out).status == "stopped"
