"""The runner on a small cluster: the rows of an undisturbed run, none lost or doubled, whoever dies
meanwhile.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddmip_book.experiments import Case
from ddmip_book.experiments import cluster as clients
from ddmip_book.experiments import run_cases as run_here
from ddmip_book.experiments.cluster import ALLOCATOR, cluster_client
from ddmip_book.experiments.store import Store
from experiments import cluster, run_cases
from experiments.__main__ import main
from experiments.worker import CaseFailed
from tests.builders.clocks import LONG

distributed = pytest.importorskip("distributed")
CASES = [Case("tiny", "water", "2x16", n, 42, "dd-paper", 600.0) for n in (2, 3, 4)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows of an undisturbed run without a cluster, and its networks."""
    place = tmp_path_factory.mktemp("results")
    run_here(CASES, place)
    return place


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster_client(local=2) as found:
        yield found


def test_local_workers_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "MALLOC_TRIM_THRESHOLD_", "65536"
    )  # as an earlier cluster of this process leaves it
    with cluster_client(local=1) as client:
        for name, wanted in ALLOCATOR.items():
            assert set(client.run(os.environ.get, name).values()) == {str(wanted)}


def test_a_local_cluster_listens_on_this_machine_alone(client: Any) -> None:
    assert client.run(os.getpid)
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [each for process in processes for each in process.net_connections()]
    listening = [each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}


def answers(folder: Path) -> dict[str, Any]:
    rows = Store("tiny", folder).rows()
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: (row.objective, row.iterations, row.status) for row in rows}


@pytest.mark.long
def test_a_worker_killed_in_the_middle_costs_time_alone(
    here: Path, client: Any, tmp_path: Path
) -> None:
    seen = []
    append = Store.append

    def appending(store: Store, row: Any) -> None:
        append(store, row)
        seen.append(row.key)
        if len(seen) == 1:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "append", appending)
        found = run_cases(CASES, tmp_path, progress=False, client=client)
    assert len(found) == len(CASES)
    assert answers(tmp_path) == answers(here)
    assert sorted(seen) == sorted(case.key for case in CASES)
    assert len(run_cases(CASES, tmp_path, progress=False, client=client)) == len(
        CASES
    )  # nothing is left to do
    assert answers(tmp_path) == answers(here)


@pytest.mark.long
def test_a_case_that_fails_is_reported_and_the_others_have_rows(
    client: Any, tmp_path: Path
) -> None:
    wrong = Case("tiny", "water", "2x16", 0, 42, "dd-paper", 60.0)
    with pytest.raises(CaseFailed, match="failed"):
        run_cases([wrong, CASES[0]], tmp_path, progress=False, client=client)
    assert set(answers(tmp_path)) == {CASES[0].key}


def test_a_worker_with_other_data_writes_no_row(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "source", lambda _: "somewhere else")
    with pytest.raises(CaseFailed, match="DDMIP_DATA_DIR"):
        run_cases(CASES[:1], tmp_path, progress=False, client=client)
    assert not answers(tmp_path)


def started(*command: str) -> subprocess.Popen[bytes]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]], **quiet
    )


def answers_at(port: int) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_a_dead_scheduler_ends_the_run_with_the_rows_it_has(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    monkeypatch.setattr(clients, "WAIT", "3s")
    here_alone = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
    scheduler = started("dask_scheduler", "--port", str(port), *here_alone)
    worker = started(
        "dask_worker", address, "--nthreads", "1", "--death-timeout", "3600", *here_alone
    )
    append = Store.append

    def appending(store: Store, row: Any) -> None:
        append(store, row)
        scheduler.kill()

    try:
        while not answers_at(port):
            time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Store, "append", appending)
            with cluster_client(address) as client:
                client.wait_for_workers(1, timeout=LONG)
                with pytest.raises(CaseFailed, match="connection to the cluster failed"):
                    run_cases(CASES, tmp_path, progress=False, client=client)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    assert 1 <= len(answers(tmp_path)) < len(CASES)
    run_here(CASES, tmp_path)
    assert answers(tmp_path) == answers(here)


def test_addresses_and_files_that_lead_nowhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clients, "WAIT", "1s")
    command = ["run", "e1", "--folder", str(tmp_path), "--scheduler"]
    assert main([*command, "tcp://127.0.0.1:9"]) == 1
    assert "dask scheduler --dashboard-address 127.0.0.1:" in capsys.readouterr().err
    assert main([*command, "tls://127.0.0.1:9", "--tls-ca", "ca.pem"]) == 1
    assert "--tls-key" in capsys.readouterr().err

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(clients, "import_module", missing)
    assert main(["run", "e1", "--folder", str(tmp_path), "--dask", "local"]) == 1
    assert "ddmip-lib[cluster]" in capsys.readouterr().err
