r"""A quiz as Moodle XML, which Moodle and several other platforms import.

Formulas stand as ``\(...\)`` and ``\[...\]``, which Moodle's MathJax filter draws. Moodle shuffles
the options itself.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Any
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools.course_pages import with_numbers

FULL = 100.0


def formula(tex: str, options: dict[str, Any]) -> str:
    r"""A formula between Moodle's marks.

    >>> formula("a < b", {"display_mode": False})
    '\\(a &lt; b\\)'
    """
    text = html.escape(tex.strip(), quote=False)
    return rf"\[{text}\]" if options["display_mode"] else rf"\({text}\)"


@cache
def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    dollarmath_plugin(markdown, allow_labels=False, double_inline=False, renderer=formula)
    return markdown


def block(text: str) -> str:
    return parser().render(with_numbers(text)).strip()


def inline(text: str) -> str:
    return parser().renderInline(with_numbers(text))


def share(right: int) -> str:
    """What one of so many options is worth, in the five digits that Moodle knows.

    >>> share(1), share(3), share(-2)
    ('100', '33.33333', '-50')
    """
    return f"{FULL / right:.5f}".rstrip("0").rstrip(".")


def put(parent: ElementTree.Element, tag: str, text: str, **attributes: str) -> ElementTree.Element:
    """Add an element that holds its words in an element ``text``, as Moodle wants them."""
    element = ElementTree.SubElement(parent, tag, attributes)
    ElementTree.SubElement(element, "text").text = text
    return element


def answer(
    parent: ElementTree.Element, text: str, fraction: str, why: str, kind: str
) -> ElementTree.Element:
    """Add one answer with what is said to those who give it."""
    element = put(parent, "answer", text, fraction=fraction, format=kind)
    put(element, "feedback", why, format="html")
    return element


def choice(parent: ElementTree.Element, question: dict[str, Any]) -> None:
    """Add the options of a question with one or several right ones."""
    single = question["kind"] == "single"
    options = question["options"]
    right = sum(bool(option.get("right")) for option in options)
    ElementTree.SubElement(parent, "single").text = str(single).lower()
    ElementTree.SubElement(parent, "shuffleanswers").text = "true"
    ElementTree.SubElement(parent, "answernumbering").text = "abc"
    for option in options:
        # a wrong choice among several costs what a right one earns, else ticking all would win
        wrong = "0" if single else share(right - len(options))
        fraction = share(right) if option.get("right") else wrong
        answer(parent, inline(option["text"]), fraction, inline(option["why"]), "html")


def number(parent: ElementTree.Element, question: dict[str, Any]) -> None:
    """Add the right number, the likely slips, and the hint for all other numbers."""
    tolerance = str(question.get("tolerance", 1e-6))
    given = [(question["answer"], str(share(1)), block(question["why"]))]
    given += [(trap["value"], "0", inline(trap["why"])) for trap in question["traps"]]
    for value, fraction, why in given:
        element = answer(parent, str(value), fraction, why, "moodle_auto_format")
        ElementTree.SubElement(element, "tolerance").text = tolerance
    answer(parent, "*", "0", inline(question["hint"]), "moodle_auto_format")


def quiz_xml(quiz: dict[str, Any]) -> str:
    """The quiz as a category of questions of its own."""
    root = ElementTree.Element("quiz")
    category = ElementTree.SubElement(root, "question", type="category")
    put(category, "category", f"$course$/top/Quiz {quiz['part']}: {quiz['title']}")
    for question in quiz["questions"]:
        numeric = question["kind"] == "number"
        kind = "numerical" if numeric else "multichoice"
        element = ElementTree.SubElement(root, "question", type=kind)
        put(element, "name", question["id"])
        put(element, "questiontext", block(question["ask"]), format="html")
        ElementTree.SubElement(element, "defaultgrade").text = "1"
        ElementTree.SubElement(element, "penalty").text = "0.3333333"
        ElementTree.SubElement(element, "idnumber").text = f"{quiz['part']}-{question['id']}"
        (number if numeric else choice)(element, question)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"
