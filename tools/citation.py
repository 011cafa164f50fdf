"""A Sphinx extension of one job: CITATION.cff as BibTeX, on the page that says how to cite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

CITATION = Path(__file__).resolve().parent.parent / "CITATION.cff"


def authors(entry: dict[str, Any]) -> str:
    """The authors of an entry as BibTeX joins them.

    >>> authors({"authors": [{"name": "The authors"}, {"family-names": "Li", "given-names": "X."}]})
    '{The authors} and Li, X.'
    """
    names = []
    for author in entry["authors"]:
        if "name" in author:
            names.append(f"{{{author['name']}}}")
        else:
            names.append(f"{author['family-names']}, {author['given-names']}")
    return " and ".join(names)


def fields(kind: str, key: str, **values: Any) -> str:
    """One BibTeX entry; values that are None are left out.

    >>> print(fields("misc", "a", title="T", year=None))
    @misc{a,
      title = {T},
    }
    """
    lines = [f"  {name} = {{{value}}}," for name, value in values.items() if value is not None]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def bibtex(cff: dict[str, Any]) -> str:
    """The project and the paper as BibTeX."""
    (paper,) = cff["references"]
    project = fields(
        "software",
        "ddmip-book",
        title=f"{{{cff['title']}}}",
        author=authors(cff),
        version=cff["version"],
        url=cff.get("repository-code"),
        license=cff["license"],
    )
    article = fields(
        "inproceedings",
        "zeng2026scalable",
        title=f"{{{paper['title']}}}",
        author=authors(paper),
        booktitle=paper["collection-title"],
        volume=paper["volume"],
        number=paper["issue"],
        pages=f"{paper['start']}--{paper['end']}",
        year=paper["year"],
        doi=paper["doi"],
    )
    return f"{project}\n\n{article}"


class CitationFile(SphinxDirective):
    """The entries as a block of code."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(CITATION))
        text = bibtex(yaml.safe_load(CITATION.read_text()))
        return [nodes.literal_block(text, text, language="bibtex")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("citation-file", CitationFile)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
