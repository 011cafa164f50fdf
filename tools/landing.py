"""Write the table and the sentences with numbers of preface and README, and the picture of the
result, from the stored rows.

    python -m tools.landing [--check]

Between the lines `<!-- from the stored rows -->` and `<!-- end -->` of book/preface.md and
README.md stand a table and sentences that no person types; the picture is book/_static/result.svg. A test asks
whether both are current.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import mean

import matplotlib as mpl

from ddmip_book.experiments import load
from ddmip_book.experiments.results import Results
from ddmip_book.experiments.rows import Row
from ddmip_book.figures.certificates import gap, whole_bound
from ddmip_book.figures.landing import plot_result
from ddmip_lib.plots import use_style
from tools.book_footer import EDITION

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "_static" / "result.svg"
STORED_ROWS = re.compile(r"(<!-- from the stored rows -->\n).*?(<!-- end -->)", re.DOTALL)
INSTANCE = {"network": "2x16", "size": 100, "seed": 42}
"""Of Water Potability; the smallest network of the experiments, so that the exact model has its
best chance.
"""
WATER_NETWORKS = ("2x16", "4x32", "6x64", "6x128")
SEEDS = 5
METHOD_TITLES = {
    "bigm": "Big-M (SCIP, 300 s)",
    "dd-paper": "Algorithm 1, paper's settings",
    "dd": "Algorithm 1, library defaults",
    "prices": "price coordination (60 s)",
}
"""Methods of the table, and what each is called there."""


def one(results: Results, method: str, **about: object) -> Row:
    """The row of a method on an instance; of several the one that computed on the processor."""
    found = [row for row in results.where(method=method, **about) if row.problem == "water"]
    return min(found, key=lambda row: (row.device != "cpu", -row.time_limit))


def instance() -> tuple[dict[str, Row], Row]:
    """The runs of the picture, and the certificate."""
    e1 = load("e1")
    e6 = load("e6")
    runs = {
        method: one(e1, method, **INSTANCE, time_limit=300.0)
        for method in ("bigm", "dd-paper", "dd")
    }
    runs["prices"] = one(e6, "prices", **INSTANCE)
    return runs, one(e6, "certificate", **INSTANCE)


def compared() -> tuple[int, int, int]:
    """Stored instances of E1 on which prices and our defaults both ran; prices better, prices
    worse.
    """
    e1 = load("e1")
    e6 = load("e6")
    pairs = []
    for row in e6.where(method="prices"):
        about = {"network": row.network, "size": row.size, "seed": row.seed, "time_limit": 300.0}
        other = [r for r in e1.where(method="dd", **about) if r.problem == row.problem == "water"]
        pairs += [(row.objective or 0.0, r.objective or 0.0) for r in other[:1]]
    return len(pairs), sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)


def runs_of(method: str, network: str) -> list[Row]:
    """The runs of a method on Water Potability with the size of the picture, one for each seed."""
    results = load("e6" if method == "prices" else "e1")
    found = results.where(method=method, network=network, size=INSTANCE["size"])
    limit = 60.0 if method == "prices" else 300.0
    return [row for row in found if row.problem == "water" and row.time_limit == limit]


def certificates() -> dict[tuple[str, int], Row]:
    """The stored certificate of the smallest gap for each network and number of samples."""
    best: dict[tuple[str, int], Row] = {}
    for row in load("e6").where(method="certificate"):
        about = (row.network, row.size)
        if row.problem == "water" and (about not in best or gap(row) < gap(best[about])):
            best[about] = row
    return best


def is_trivial(row: Row) -> bool:
    """Whether a bound says no more than the number of samples."""
    return whole_bound(row) >= row.size > (row.objective or 0.0)


def mean_of(rows: list[Row]) -> str:
    """The mean objective of runs, with their number where it is not that of all seeds."""
    value = f"{mean(row.objective or 0.0 for row in rows):.1f}"
    return value if len(rows) == SEEDS else f"{value} ({len(rows)} seed)"


def table() -> list[str]:
    """The means over seeds by network and method, and the best certificate, as Markdown."""
    heads = ["network", *METHOD_TITLES.values(), "one seed: point, proven bound"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for network in WATER_NETWORKS:
        certificate = certificates()[network, int(INSTANCE["size"])]
        mark = ", trivial" if is_trivial(certificate) else ""
        proved = f"{certificate.objective:.0f}, {whole_bound(certificate):.0f}{mark}"
        cells = [mean_of(runs_of(method, network)) for method in METHOD_TITLES]
        lines.append(f"| {' | '.join([network, *cells, proved])} |")
    return lines


def of_certificates() -> list[str]:
    """How small the gaps of the certificates are, and which bounds are trivial."""
    best = certificates()
    small = [gap(row) for (network, _), row in best.items() if network != "6x128"]
    large = [gap(row) for (network, size), row in best.items() if network == "6x128" and size > 50]
    trivial = sum(map(is_trivial, best.values()))
    return [
        (
            f"For {len(best)} pairs of network and number of samples, one seed each, the proven"
            f" gap is at most {max(small):.0%} up to 6x64."
        ),
        (
            f"For the widest network with 100 samples and more it is {min(large):.0%} to {max(large):.0%}."
            f" Of these bounds, {trivial} {'is' if trivial == 1 else 'are'} trivial: they equal"
            " the number of samples."
        ),
    ]


def of_the_suite() -> str:
    """How often a bound closes on the models of E7, ours and Gurobi's."""
    rows = load("e7")
    peer = [row for row in rows.where(method="gurobi-ml") if row.status != "refused"]
    claimed = sum(row.status == "claimed_optimal" for row in peer)
    ours: dict[str, list[bool]] = {}
    for row in rows.where(method="solve"):
        ours.setdefault(row.network, []).append(row.status == "optimal")
    return (
        f"On the {len(ours)} models of the suite E7, `solve` proves optimality on"
        f" {sum(map(all, ours.values()))} with every seed. Gurobi (by gurobi-machinelearning) claims it on"
        f" {claimed} of the {len(peer)} that it accepts."
    )


def sentences() -> list[str]:
    """What the stored rows say, a sentence each."""
    runs, certificate = instance()
    count, better, worse = compared()
    return [
        (
            f"The figure shows one seed: {runs['dd'].untreated:.0f} samples are potable without"
            f" treatment, {runs['prices'].objective:.0f} after that of price coordination, and a"
            f" certificate proves that no treatment exceeds {whole_bound(certificate):.0f}."
        ),
        (
            f"On {count} instances of Water Potability (four networks, five seeds, five sizes),"
            f" price coordination attains more than Algorithm 1 with library defaults on {better}"
            f" and less on {worse}."
        ),
        *of_certificates(),
        of_the_suite(),
    ]


def edition() -> str:
    return f"{EDITION}, version {version('ddmip-lib')}."


def texts() -> dict[Path, str]:
    """The two pages as they should be."""
    rows = "".join(f"{line}\n" for line in table())
    said = rows + "\n" + "".join(f"- {sentence}\n" for sentence in sentences())
    blocks = {
        ROOT / "book" / "preface.md": f"{said}\n{edition()}\n",
        ROOT / "README.md": said,
    }
    return {
        path: STORED_ROWS.sub(
            lambda found, new=new: found[1] + new + found[2], path.read_text(encoding="utf-8")
        )
        for path, new in blocks.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say whether something is out of date"
    )
    check = parser.parse_args().check
    stale = [path for path, text in texts().items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(
            f"{path.relative_to(ROOT)}"
            f" {'is out of date: python -m tools.landing' if check else 'written'}"
        )
        if not check:
            path.write_text(texts()[path], encoding="utf-8")
    if not check:
        use_style()
        mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "ddmip"})
        plot_result(*instance()).figure.savefig(
            PICTURE, metadata={"Date": None}, bbox_inches="tight"
        )
        print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
