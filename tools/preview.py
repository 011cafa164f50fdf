"""The picture that other sites show beside a link to the book: its split, drawn with matplotlib."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

WIDTH = 1200
HEIGHT = 630
ALT = (
    "Two blocks, a MIP block with a grid of integers and an NN block with a network, joined by"
    " u = x"
)
GROUND, LINE, LINK = "#12355b", "#ffffff", "#ffb347"
LAYERS = ((790, (300, 220)), (880, (340, 260, 180)), (970, (260,)))


def draw(title: str) -> Figure:
    """1200 by 630 pixels, the size that previews are cut to; coordinates are pixels."""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=GROUND)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    ax.axis("off")
    ax.text(
        80,
        570,
        textwrap.fill(title, 44),
        color=LINE,
        size=31,
        weight="bold",
        va="top",
        linespacing=1.35,
    )
    for left, name in ((150, "MIP block"), (710, "NN block")):
        box = FancyBboxPatch((left, 130), 340, 260, boxstyle="round,pad=0,rounding_size=24")
        box.set(facecolor="none", edgecolor=LINE, linewidth=4)
        ax.add_patch(box)
        ax.text(left + 170, 78, name, color=LINE, size=22, ha="center")
    grid = [(x, y) for x in (210, 265, 320, 375, 430) for y in (180, 235, 290, 345)]
    inside = [point for point in grid if point[0] + 1.6 * point[1] < 860]
    ax.scatter(*zip(*grid, strict=True), s=90, facecolor="none", edgecolor=LINE, linewidth=1.5)
    ax.scatter(*zip(*inside, strict=True), s=90, color=LINE)
    for (x, ys), (to, ends) in itertools.pairwise(LAYERS):
        for y in ys:
            for end in ends:
                ax.plot((x, to), (y, end), color=LINE, linewidth=1.5)
    for x, ys in LAYERS:
        ax.scatter([x] * len(ys), ys, s=330, color=LINE, zorder=3)
    ax.plot((490, 710), (260, 260), color=LINK, linewidth=6, dashes=(2.2, 1.2))
    ax.text(600, 290, "u = x", color=LINK, size=28, weight="bold", style="italic", ha="center")
    return figure


def write(path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with style.context("default"):  # whatever the chapters have set
        draw(title).savefig(path, metadata={"Software": None}, facecolor=GROUND)
