"""Write what the figures that move need: their numbers (data.js) and the pictures that stand in for
them.

    python -m tools.moving_figures

The files are committed, so that reading the book needs no Python; a test checks that the numbers
are current.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

from ddmip_book.figures import moving

FOLDER = Path(__file__).resolve().parent.parent / "book" / "_static" / "moving"
DATA = FOLDER / "data.js"
HEAD = "// Written by `python -m tools.moving_figures`; do not edit by hand.\nwindow.movingData = "
PICTURES = {
    "penalty-multiplier": moving.still_penalty,
    "algorithm-steps": moving.still_steps,
    "relu-envelope": moving.still_envelope,
    "penalty-balance": moving.still_balance,
    "hand-phases": moving.still_phases,
}


def stored() -> dict[str, object]:
    """The numbers in the committed file."""
    return json.loads(DATA.read_text().removeprefix(HEAD).rstrip(";\n"))


def main() -> int:
    DATA.write_text(f"{HEAD}{json.dumps(moving.moving_data())};\n")
    mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "ddmip"})
    for name, draw in PICTURES.items():
        draw().figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    print(f"wrote {len(PICTURES)} pictures and {DATA.name} ({DATA.stat().st_size / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
