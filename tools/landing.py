"""Write what the landing page and the README say in numbers, and the picture of the result, from
the stored rows.

    python -m tools.landing [--check]

Between the lines `<!-- from the stored rows -->` and `<!-- end -->` of book/preface.md and
README.md stand sentences that nobody types; the picture is book/_static/result.svg. A test asks
whether both are current.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import version
from pathlib import Path

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
BLOCK = re.compile(r"(<!-- from the stored rows -->\n).*?(<!-- end -->)", re.DOTALL)
INSTANCE = {"network": "2x16", "size": 100, "seed": 42}
"""Of Water Potability; the smallest network of the experiments, so that the exact model has its
best chance.
"""


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


def gaps() -> dict[str, list[float]]:
    """Proven gaps of the stored certificates of Water on the processor: small networks, and large
    ones by size.
    """
    found: dict[str, list[float]] = {"small": [], "large, few": [], "large, many": []}
    for row in load("e6").where(method="certificate"):
        if row.problem != "water" or row.device != "cpu":
            continue
        if row.network != "6x128":
            kind = "small"
        else:
            kind = "large, few" if row.size <= 50 else "large, many"
        found[kind].append(gap(row))
    return found


def sentences() -> list[str]:
    """What the stored rows say, a sentence each."""
    runs, certificate = instance()
    count, better, worse = compared()
    known = gaps()
    values = {method: f"{row.objective:.0f}" for method, row in runs.items()}
    bound = runs["bigm"].bound
    trivial = bound is None or bound > certificate.size - 0.5
    proves = (
        f"proves nothing beyond the obvious {certificate.size}"
        if trivial
        else f"proves a bound of {bound:.0f}"
    )
    slower = max(runs[method].seconds or 0.0 for method in ("dd", "dd-paper"))
    return [
        (
            f"A network of two layers of 16 units calls {runs['dd'].untreated:.0f} of"
            f" {certificate.size} water samples potable. After treatment planned by the exact model"
            f" (SCIP, {runs['bigm'].seconds:.0f} seconds) it is {values['bigm']}, and that model"
            f" {proves}; Algorithm 1 reaches {values['dd-paper']} with the paper's settings and"
            f" {values['dd']} with ours, within {slower:.0f} seconds; price coordination reaches"
            f" {values['prices']} in {runs['prices'].seconds:.0f} seconds, and a run of"
            f" {certificate.seconds:.0f} seconds that ends with a certificate proves that no plan"
            f" reaches more than {whole_bound(certificate):.0f}."
        ),
        (
            f"On {count} stored instances with networks up to 6x128 and up to 400 samples, price"
            f" coordination is better than Algorithm 1 with our settings on {better}, worse on"
            f" {worse}."
        ),
        (
            f"Proven gaps of {sum(map(len, known.values()))} stored certificates, one for each"
            f" network and size: at most {max(known['small']):.0%} on networks up to 6x64, at most"
            f" {max(known['large, few']):.0%} on 6x128 with up to 50 samples (where the gap is"
            " largest, the bound is the obvious one, all samples), and still"
            f" {min(known['large, many']):.0%} to {max(known['large, many']):.0%} on 6x128 with 100"
            " samples and more."
        ),
    ]


def edition() -> str:
    return f"{EDITION}, version {version('ddmip-lib')}."


def texts() -> dict[Path, str]:
    """The two pages as they should be."""
    said = sentences()
    blocks = {
        ROOT / "book" / "preface.md": (
            "".join(f"- {sentence}\n" for sentence in said) + f"\n{edition()}\n"
        ),
        ROOT / "README.md": "".join(f"- {sentence}\n" for sentence in said),
    }
    return {
        path: BLOCK.sub(
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
