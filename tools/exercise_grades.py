"""A Sphinx extension of one job: the grade of an exercise is a badge, not a part of its title.

Chapters write it behind the title, ``(easy)``; here it becomes a class, which the style sheet shows.
"""

from __future__ import annotations

import re
from typing import Any

TITLE = re.compile(r"(\{exercise-start\} [^\n\\]*?) *\((easy|medium|hard|project)\)")
IN_NOTEBOOK = r'\1\\n",\n    ":class: \2'
IN_TEXT = r"\1\n:class: \2"


def graded(source: str, notebook: bool) -> str:
    r"""A page's source with the grades as options of the exercises.

    >>> graded("```{exercise-start} A title (with a word) (easy)\n:label: ex-a\n", notebook=False)
    '```{exercise-start} A title (with a word)\n:class: easy\n:label: ex-a\n'
    >>> graded('"```{exercise-start} A title (hard)\\n",\n', notebook=True)
    '"```{exercise-start} A title\\n",\n    ":class: hard\\n",\n'
    """
    return TITLE.sub(IN_NOTEBOOK if notebook else IN_TEXT, source)


def read(app: Any, docname: str, source: list[str]) -> None:
    """Change the source on its way to the parser; the file stays as it is."""
    source[0] = graded(source[0], app.env.doc2path(docname).endswith(".ipynb"))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
