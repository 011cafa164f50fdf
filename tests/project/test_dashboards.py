"""Dask serves its dashboard on every network of a machine unless told otherwise; nothing here
leaves it at that.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.builders.places import ROOT

FOLDERS = ("ddmip_lib", "book", "course", "tests", "tools")
TEXTS = [
    path
    for folder in FOLDERS
    for suffix in ("py", "md", "yml")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
]
FILES = [*TEXTS, *(ROOT / "book").glob("*.ipynb"), *ROOT.glob("*.md")]
OWN = Path(__file__)
AT_HOME = re.compile(r'dashboard_address=(None\b|"127\.0\.0\.1:\d+")')
COMMAND = re.compile(r"\bdask[ -](?:scheduler|worker)\b[^`\n]*")


def text(path: Path) -> str:
    """What a person reads of a file; of a notebook, its cells."""
    if path.suffix == ".ipynb":
        return "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
    return path.read_text(encoding="utf-8")


def calls(name: str, source: str) -> list[str]:
    """The arguments of every call of this name, as written.

    >>> calls("f", "f(1, g(2)) + of(3)")
    ['1, g(2)']
    """
    found = []
    for match in re.finditer(rf"\b{name}\(", source):
        end = match.end()
        depth = 1
        while depth and end < len(source):
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        found.append(source[match.end() : end - 1])
    return found


def open_dashboards(source: str) -> list[str]:
    """Clusters, clients that start one, and commands of Dask whose dashboard anybody on the network
    can reach.
    """
    clusters = [each for each in calls("LocalCluster", source) if not AT_HOME.search(each)]
    # a client without an address or a cluster as its first argument starts a cluster
    clients = [
        each
        for each in calls("Client", source)
        if re.match(r"\s*(\w+=|\Z)", each) and not AT_HOME.search(each)
    ]
    commands = [
        each for each in COMMAND.findall(source) if "--dashboard-address 127.0.0.1:" not in each
    ]
    return clusters + clients + commands


@pytest.mark.parametrize(
    "source",
    [
        "LocalCluster()",
        "LocalCluster(n_workers=len(x))",
        'LocalCluster(dashboard_address=":8787")',
        "Client()",
        "Client(n_workers=2)",
        "`dask scheduler`",
        "dask worker ADDRESS --nthreads 1",
    ],
)
def test_an_open_dashboard_is_noticed(source: str) -> None:
    assert len(open_dashboards(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'Client("tcp://a:8786")',
        'LocalCluster(n_workers=f(2), dashboard_address="127.0.0.1:0")',
        "Client(cluster)",
        "dask scheduler --dashboard-address 127.0.0.1:8787",
        "LocalCluster(dashboard_address=None)",
    ],
)
def test_a_dashboard_of_this_machine_alone_is_none(source: str) -> None:
    assert open_dashboards(source) == []


def test_no_dashboard_is_open_to_the_network() -> None:
    texts = {path.relative_to(ROOT): text(path) for path in FILES if path != OWN}
    assert sum("LocalCluster(" in source for source in texts.values()) >= 4, (
        "the clusters were not found"
    )
    assert {
        path: found for path, source in texts.items() if (found := open_dashboards(source))
    } == {}
