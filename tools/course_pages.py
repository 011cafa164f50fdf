"""Pages that stand alone: Markdown with formulas becomes one HTML file without scripts or style
sheets from elsewhere.

Formulas are MathML, which browsers draw and screen readers read by themselves.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools import html_page, notebooks
from tools.contents import ContentsError

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #f3f5f7; --line: #b9c0c8; --link: #0a58a6;
  --good: #14662f; --bad: #9a1c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #15181c; --soft: #20252b; --line: #4d5661;
  --link: #86b9f2; --good: #7fd69a; --bad: #ff9d95; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 50rem; padding: 1rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1.05rem/1.55 system-ui, "Segoe UI", "Noto Sans", sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 1.8em 0 .5em; }
h1 { font-size: 1.7rem; margin-top: .5em; } h2 { font-size: 1.3rem; } h3 { font-size: 1.08rem; }
a { color: var(--link); } a:focus-visible, :focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; background: var(--soft);
  padding: .05em .25em; border-radius: 3px; }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; } pre code { padding: 0; background: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .8rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .55rem; text-align: left; vertical-align: top; }
th { background: var(--soft); } math { font: 1.1em "STIX Two Math", "Latin Modern Math",
  "Cambria Math", "Libertinus Math", "DejaVu Math TeX Gyre", math; }
.math.block { overflow-x: auto; text-align: center; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: .9rem; }
@media print { body { max-width: none; font-size: 10.5pt; } h2, h3 { break-after: avoid; }
  tr, li, fieldset { break-inside: avoid; } .noprint { display: none; } a { color: inherit; } }
"""
NUMBER = re.compile(r"\{\{no:(\w+)\}\}")
"""The number of a chapter by its name, so that texts need not know it."""


class FormulaError(ValueError):
    """A formula that cannot be drawn."""


def formula(tex: str, options: dict[str, Any]) -> str:
    r"""A formula as MathML; what is not understood is an error that shows it."""
    digits = re.sub(
        r"(\\[td]?frac)(\d)(\d)", r"\1{\2}{\3}", tex
    )  # docutils reads 12 in \tfrac12 as one number
    paired = re.sub(
        r"\\l([Vv])ert", r"\\left\\l\1ert", re.sub(r"\\r([Vv])ert", r"\\right\\r\1ert", digits)
    )
    try:
        return tex2mathml(paired, as_block=options["display_mode"])
    except MathError as error:
        raise FormulaError(
            f"${tex}$: {error} To fix this, write the formula with other commands."
        ) from None


chapters = cache(notebooks.contents)


@cache
def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    dollarmath_plugin(markdown, allow_labels=False, double_inline=False, renderer=formula)
    return markdown


def with_numbers(text: str) -> str:
    """The text with the numbers of the chapters that it names.

    >>> with_numbers("Chapter {{no:neural_mips}}")
    'Chapter 1'
    """
    return NUMBER.sub(lambda found: str(_number(found[1])), text)


def _number(name: str) -> int:
    number = chapters()[name].number
    if number is None:
        raise ContentsError(f"the page {name!r} has no number. To fix this, use its title.")
    return number


def markdown(text: str) -> str:
    """HTML of a text; wide tables scroll by themselves, so that a phone never scrolls the page
    sideways.

    >>> markdown("It *is* so.")
    '<p>It <em>is</em> so.</p>'
    """
    drawn = parser().render(with_numbers(text)).strip()
    scrolling = '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
    return drawn.replace("<table>", scrolling).replace("</table>", "</table></div>")


def inline(text: str) -> str:
    """The same for one line, without a paragraph around it."""
    return parser().renderInline(with_numbers(text))


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    code = f"\n<script>\n{script}</script>" if script else ""
    return html_page.page(
        title, f"<main>\n{body}\n</main>{code}", f"<style>{STYLE}{style}</style>\n"
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
