"""Build the slides of the course from course/slides/part_*.md and from the chapters' own material.

    python -m tools.slides [--out _build/course/slides]

A deck is Markdown. Slides are separated by lines `---`; what follows a line `???` are the speaker's
notes; a line `|||` begins the right-hand column. A title that begins with Question, Answer or Demo
sets its slide apart. Two braces take things from the chapters, so that a changed chapter changes
the slides:

    {{thm-a}}, {{thm-a:4,6}}           a statement by its label; of a long one, some clauses
    {{eq-split-bid}}                   a numbered equation by its label ![short
    caption](fig:fig-loop)     a figure by its name, with its alt text; without words, its own first
    sentence {{cell:split:stepping}}            the source of a code cell by its id
    {{output:split:stepping:6}}        what that cell printed, here the first six lines
    {{number:split:tree_closed:.0%}}   a number that the chapter records, formatted as Python does
    {{chapter:split}}                  number and title; as the title of a slide it opens the
    chapter {{no:split}}                       its number alone {{goals:split}}
    the list under "You will learn"

A question mark behind the name of a chapter or label, `{{chapter?:certificates:Certificates}}`,
allows it to be missing: then the text behind the second colon, or nothing, stands in its place.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools import handout, html_page, notebooks
from tools.build_book import MATHJAX_KEPT
from tools.material import Material, MissingMaterial

SOURCES = notebooks.ROOT / "course" / "slides"
OUT = notebooks.BUILD / "course" / "slides"
ASK = re.compile(r"\{\{([\w-]+\??)((?::[^{}]*)?)\}\}")
FIGURE = re.compile(r"^!\[(.*)\]\(fig:([\w-]+)\)$", re.MULTILINE)
TOGETHER = re.compile(
    r'(<span class="math">[^<]*</span>)([.,;:!?)]+)'
)  # no line begins with a full stop
KINDS = ("Question", "Answer", "Demo")
HEAD = """\
<link rel="stylesheet" href="deck.css">
<script>window.MathJax = {options: {enableMenu: false}, chtml: {matchFontHeight: false, scale: 1.08}}</script>
<script defer src="mathjax/tex-chtml.js"></script>
<script defer src="deck.js"></script>
"""
SLIDE = """\
<div class="frame"><section class="slide {kind}" aria-roledescription="slide" aria-label="Slide {number}">
{heading}
<div class="content">
{body}
</div>
<footer><span>{chapter}</span><span>{number} / {count}</span></footer>
</section>
<aside class="notes" aria-label="Notes for slide {number}">
{notes}
</aside></div>
"""


class DeckError(ValueError):
    """A deck cannot be built; the message names the deck and what it asks for."""


class Deck:
    """One Markdown source and the page that it becomes."""

    def __init__(self, source: Path, material: Material) -> None:
        self.source = source
        self.material = material
        self.images: dict[str, bytes] = {}
        self.markdown = MarkdownIt("commonmark", {"html": True, "typographer": False}).enable(
            "table"
        )
        self.markdown.use(dollarmath_plugin, allow_labels=True, double_inline=False)
        rules = {
            "math_inline": lambda tokens, i, *_: (
                f'<span class="math">\\({html.escape(tokens[i].content)}\\)</span>'
            ),
            "math_block": lambda tokens, i, *_: self._equation(tokens[i]),
            "math_block_label": lambda tokens, i, *_: self._equation(tokens[i]),
        }
        self.markdown.renderer.rules.update(rules)  # type: ignore[attr-defined]

    def _equation(self, token: Token) -> str:
        number = self.material.equations.get(token.info, ("", ""))[1] if token.info else ""
        shown = f'<span class="eqno">({number})</span>' if number else ""
        formula = html.escape(token.content.strip())
        return f'<div class="equation"><div class="math">\\[{formula}\\]</div>{shown}</div>\n'

    def _take(self, found: re.Match[str]) -> str:
        """What stands for a pair of braces, as Markdown."""
        name = found[1]
        rest = found[2][1:].split(":") if found[2] else []
        optional = name.endswith("?")
        name = name.rstrip("?")
        material = self.material
        try:
            if name == "number":
                return format(material.number(rest[0], rest[1]), ":".join(rest[2:]))
            if name == "chapter":
                return material.chapter(rest[0])
            if name == "no":
                return str(material.chapter_number(rest[0]))
            if name == "goals":
                return material.goals(rest[0])
            if name == "cell":
                return f"```python\n{material.cell(*rest)['source']}\n```"
            if name == "output":
                lines = material.output(*rest[:2]).splitlines()
                return (
                    "```text\n" + "\n".join(lines[: int(rest[2])] if rest[2:] else lines) + "\n```"
                )
            if name in material.equations:
                return f"$$\n{material.equations[name][0]}\n$$ ({name})"
            return self._statement(name, [int(n) for n in rest[0].split(",")] if rest else [])
        except MissingMaterial:
            if optional:
                return rest[-1] if rest and name in ("chapter", "goals") and len(rest) > 1 else ""
            raise
        except (IndexError, TypeError, ValueError) as error:
            raise MissingMaterial(
                f"{found[0]} is not understood ({error}); see tools/slides.py"
            ) from None

    def _statement(self, label: str, clauses: list[int]) -> str:
        if label not in self.material.statements:
            raise MissingMaterial(
                f"no chapter has a statement or an equation with the label {label!r}"
            )
        stated = self.material.statements[label]
        body = stated.body
        if clauses:
            try:
                items = [
                    f'<li value="{n}">\n\n{text}\n\n</li>' for n, text in stated.clauses(clauses)
                ]
            except KeyError as missing:
                raise MissingMaterial(f"{label!r} has no clause {missing}") from None
            body = "\n\n".join([stated.lead(), "<ol>", *items, "</ol>"])
        title = f" ({stated.title})" if stated.title else ""
        return (
            f'<div class="statement">\n\n**{stated.kind} {stated.number}**{title}\n\n'
            f"{self.material.plain(body)}\n\n</div>"
        )

    def _figure(self, found: re.Match[str]) -> str:
        figure = self.material.figure(found[2])
        file = f"img/{found[2]}{figure.suffix}"
        self.images[file] = figure.data
        caption = self.material.plain(found[1] or figure.caption)
        return (
            f'<figure>\n<img src="{file}" alt="{html.escape(figure.alt)}">\n<figcaption>\n\n'
            f"{caption}\n\n</figcaption>\n</figure>"
        )

    def render(self, text: str) -> str:
        taken = FIGURE.sub(self._figure, ASK.sub(self._take, self.material.plain(text)))
        left, *right = re.split(r"^\|\|\|$", taken, flags=re.MULTILINE)
        if right:
            taken = "\n\n".join(
                ['<div class="columns"><div>', left, "</div><div>", *right, "</div></div>"]
            )
        return TOGETHER.sub(r'<span class="together">\1\2</span>', self.markdown.render(taken))

    def page(self) -> str:
        """The whole deck as HTML."""
        try:
            return self._page()
        except MissingMaterial as error:
            raise DeckError(f"{self.source.name}: {error}") from None

    def _page(self) -> str:
        pieces = re.split(r"^---$", self.source.read_text(), flags=re.MULTILINE)
        slides = []
        chapter = ""
        title = ""
        for number, piece in enumerate(pieces, start=1):
            body, _, notes = piece.strip().partition("\n???\n")
            first, _, body = body.partition("\n")
            if not first.startswith("# "):
                raise DeckError(
                    f"{self.source.name}: slide {number} begins with {first!r}, not with a title '#"
                    " ...'"
                )
            heading = ASK.sub(self._take, first[2:])
            kind = next((word.lower() for word in KINDS if heading.startswith(word)), "")
            if number == 1:
                chapter = heading
                title = heading
                kind = "title"
            elif first.startswith(("# {{chapter:", "# {{chapter?:")):
                chapter = heading
                kind = "opening"
            level = "h1" if number == 1 else "h2"
            slides.append(
                SLIDE.format(
                    kind=kind,
                    number=number,
                    count=len(pieces),
                    heading=f"<{level}>{self.markdown.renderInline(heading)}</{level}>",
                    body=self.render(body),
                    notes=self.render(notes),
                    chapter=self.markdown.renderInline(chapter),
                )
            )
        return html_page.page(title, f'<main id="deck">\n{"".join(slides)}\n</main>', HEAD)


def copy_mathjax(folder: Path) -> None:
    """The parts of MathJax that a page may load, from the package that the book uses."""
    spec = find_spec("sphinx-mathjax-offline")
    assert spec is not None, "sphinx-mathjax-offline is missing. To fix this: make setup"
    assert spec.origin is not None
    source = Path(spec.origin).parent / "static" / "mathjax"
    for file in source.rglob("*"):
        name = file.relative_to(source).as_posix()
        target = folder / name
        if file.is_file() and name.startswith(MATHJAX_KEPT) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def build(out: Path = OUT, profile: str = "quick") -> list[Path]:
    """Write all decks; returns the pages."""
    material = Material(profile)
    pages = []
    (out / "img").mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("part_*.md")):
        deck = Deck(source, material)
        page = out / f"{source.stem}.html"
        page.write_text(deck.page())
        for name, data in deck.images.items():
            (out / name).write_bytes(data)
        pages.append(page)
    for name in ("deck.css", "deck.js"):
        shutil.copy(SOURCES / name, out / name)
    copy_mathjax(out / "mathjax")
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the slides.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--profile", choices=notebooks.PROFILES, default="quick")
    arguments = parser.parse_args()
    try:
        pages = build(arguments.out, arguments.profile)
    except DeckError as error:
        print(error, file=sys.stderr)
        return 1
    for page in pages:
        print(f"slides: {page.resolve().as_uri()}")
    if path := handout.browser():
        for file in handout.print_decks(pages, path):
            print(f"handout: {file.resolve().as_uri()}")
    else:
        print("no handouts as PDF: no Chromium found")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
