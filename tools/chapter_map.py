"""Draw the numbered chapters and the chapters that they need: `python -m tools.chapter_map`.

Writes `book/_static/needs.svg` from the `needs` of `course/course.yml`.
"""

from __future__ import annotations

import yaml

from tools import layered
from tools.notebooks import ROOT, contents

PICTURE = ROOT / "book" / "_static" / "needs.svg"
BOX_WIDTH = 94
LABELS = {
    "neural_mips": "Neural MIPs",
    "exact_embeddings": "Exact models",
    "bound_propagation": "Unit bounds",
    "exact_scaling": "Scaling",
    "augmented_lagrangian": "Multipliers",
    "duality_gap": "Duality gaps",
    "split": "Splitting",
    "fixed_points": "Fixed points",
    "mip_block": "MIP block",
    "projected_gradient": "Gradients",
    "log_barrier": "Barrier",
    "penalties_stopping": "Penalty rules",
    "graph_split": "Graph split",
    "convergence": "Convergence",
    "constraints": "Constraints",
    "extensions": "Extensions",
    "scalability": "Cost",
    "recovery": "Columns",
    "prices": "Prices",
    "pricing_problem": "Pricing",
    "certificates": "Certificates",
    "safe_bounds": "Safe bounds",
    "linearise": "Linearisation",
    "local_models": "Local models",
    "experiments": "E1 to E5",
    "suite": "Suite",
}
"""Short names of the boxes; E1 to E5 share one."""
EXPERIMENTS = ("e1", "e2", "e3", "e4", "e5")


def box_of(chapter: str) -> str:
    return "experiments" if chapter in EXPERIMENTS else chapter


def needed() -> dict[str, set[str]]:
    """The boxes that each box needs."""
    course = yaml.safe_load((ROOT / "course" / "course.yml").read_text(encoding="utf-8"))
    numbered = {page.name for page in contents().numbered}
    found: dict[str, set[str]] = {box_of(page.name): set() for page in contents().numbered}
    for chapter in numbered:
        needs = set(course["chapters"][chapter]["needs"]) & numbered
        found[box_of(chapter)] |= {box_of(other) for other in needs} - {box_of(chapter)}
    return found


def drawing() -> str:
    """Return the picture as SVG."""
    numbers = {page.name: str(page.number) for page in contents().numbered}
    first = numbers[EXPERIMENTS[0]]
    last = numbers[EXPERIMENTS[-1]]
    numbers["experiments"] = f"{first} to {last}"
    text = {}
    for name, label in LABELS.items():
        text[name] = layered.TWO_LINES.format(numbers[name], label)
    title = "Chapters and the chapters that they need"
    return layered.drawing(needed(), text, title, BOX_WIDTH)


def main() -> None:
    PICTURE.write_text(drawing())


if __name__ == "__main__":
    main()
