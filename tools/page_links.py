"""A Sphinx extension for links that nobody writes: names in code lead to the API, and a term of the
glossary leads there where a chapter uses it first, with its definition at hand for a preview.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Any

from docutils import nodes
from sphinx_design.dropdown import dropdown_title

API_PAGE = "book/api"
GLOSSARY = "book/glossary"
IMPORT = re.compile(r"from (ddmip_\w+[\w.]*) import (\([^)]*\)|[^\n]*)")
CODE_BLOCK = re.compile(r'<div class="highlight">.*?</div>', re.DOTALL)
MARKUP = re.compile(r"<[^>]*>")
UNTOUCHED = (
    nodes.title,
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.term,
    nodes.caption,
    nodes.table,
    nodes.citation,
    dropdown_title,  # which is a button: no link may stand inside
)
"""Nodes in which no term becomes a link."""


def imported(code: str) -> dict[str, str]:
    """The names that code imports from the book's packages, each with its module.

    >>> imported(
    ...     "from ddmip_lib import NeuralMIP, solve as s\\nfrom ddmip_book.data import load_water"
    ... )
    {'NeuralMIP': 'ddmip_lib', 'load_water': 'ddmip_book.data'}
    """
    found = {}
    for module, names in IMPORT.findall(code):
        for name in names.strip("()").split(","):
            if re.fullmatch(r"\s*\w+\s*", name):
                found[name.strip()] = module
    return found


def linked_code(body: str, places: dict[str, list[tuple[str, str]]]) -> str:
    """A page's HTML with the imported names as links.

    Parameters
    ----------
    body
        The HTML.
    places
        For the last part of a name, all names that end in it with their addresses.
    """
    code = "\n".join(unescape(MARKUP.sub("", block)) for block in CODE_BLOCK.findall(body))
    links = {}
    for name, module in imported(code).items():
        known = places.get(name, [])
        if known:
            links[name] = max(known, key=lambda each: each[0].startswith(module))[1]
    if not links:
        return body
    names = "|".join(map(re.escape, links))
    span = re.compile(
        rf'(?<!<span class="o">\.</span>)<span class="n">({names})</span>'
        r'(?!<span class="o">=</span>)'
    )

    def block(found: re.Match[str]) -> str:
        return span.sub(
            lambda each: f'<a class="api-link" href="{links[each[1]]}">{each[0]}</a>', found[0]
        )

    return CODE_BLOCK.sub(block, body)


def add_code_links(app: Any, pagename: str, _template: str, context: Any, _doctree: Any) -> None:
    """Link the names in the code of a page that is about to be written."""
    if "body" not in context or pagename.startswith(API_PAGE):
        return
    places: dict[str, list[tuple[str, str]]] = {}
    for name, entry in app.env.get_domain("py").objects.items():
        if entry.docname.startswith(API_PAGE) and entry.objtype in ("class", "function"):
            target = f"{app.builder.get_relative_uri(pagename, entry.docname)}#{entry.node_id}"
            places.setdefault(name.rpartition(".")[2], []).append((name, target))
    context["body"] = linked_code(context["body"], places)


def spoken(node: nodes.Node) -> str:
    """The text of a definition, with formulas as MathJax reads them."""
    if isinstance(node, nodes.math):
        return rf"\({node.astext()}\)"
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(map(spoken, node.children))


def definitions(app: Any) -> dict[str, tuple[str, str]]:
    """Anchor and definition of every term of the glossary."""
    if GLOSSARY not in app.env.found_docs:
        return {}
    found = {}
    for item in app.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        text = " ".join(spoken(item.next_node(nodes.definition)).split())
        for term in item.findall(nodes.term):
            found[term.astext()] = (term["ids"][0], text)
    return found


def pattern(terms: list[str]) -> re.Pattern[str]:
    """What finds one of the terms, or its plural; abbreviations as they are written.

    >>> [
    ...     found[0]
    ...     for found in pattern(["multiplier", "MILP", "dual residual"]).finditer(
    ...         "Multipliers of a MILP, not of a milp; the dual residual"
    ...     )
    ... ]
    ['Multipliers', 'MILP', 'dual residual']
    """
    longest_first = sorted(terms, key=len, reverse=True)
    any_case = [
        re.escape(term) if re.search("[A-Z]", term) else f"(?i:{re.escape(term)})"
        for term in longest_first
    ]
    return re.compile(rf"\b({'|'.join(any_case)})(?:s|es)?\b")


def plain_texts(doctree: nodes.document) -> Iterator[nodes.Text]:
    """The texts of a page in which terms may become links."""
    for text in list(doctree.findall(nodes.Text)):
        parent = text.parent
        inside = []
        while parent is not None:
            inside.append(parent)
            parent = parent.parent
        in_summary = any(follows_summary(each) for each in inside)
        if not in_summary and not any(isinstance(each, UNTOUCHED) for each in inside):
            yield text


def follows_summary(node: nodes.Node) -> bool:
    """Whether a node is what an HTML element `summary` shows, which is a button."""
    before = node.previous_sibling()
    return isinstance(before, nodes.raw) and before.astext().rstrip().endswith("<summary>")


def add_term_links(app: Any, doctree: nodes.document, docname: str) -> None:
    """Link the first use of each term in a chapter."""
    if not app.env.doc2path(docname).endswith(".ipynb") or app.builder.format != "html":
        return
    left = definitions(app)
    glossary = app.builder.get_relative_uri(docname, GLOSSARY)
    by_lower = {term.lower(): term for term in left}
    for text in plain_texts(doctree):
        if not left:
            return
        found = pattern(list(left)).search(text.astext())
        if found is None:
            continue
        anchor, definition = left.pop(by_lower[found[1].lower()])
        words = text.astext()
        link = (
            f'<a class="term" href="{glossary}#{anchor}" data-definition="{escape(definition)}">'
            f"{escape(found[0])}</a>"
        )
        parts = [words[: found.start()], link, words[found.end() :]]
        text.parent.replace(
            text,
            [nodes.Text(parts[0]), nodes.raw("", parts[1], format="html"), nodes.Text(parts[2])],
        )


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", add_code_links)
    app.connect("doctree-resolved", add_term_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
