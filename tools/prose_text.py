"""Markdown as sentences: what a reader reads, without code, formulas and options.

The rules are those of the book's pages (MyST). Inline formulas and inline code become one word
each, links and roles become their text, tables and headings are kept apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FENCE_LINE = re.compile(r"^(`{3,}|:{3,}|~{3,})(?:\{([\w:-]+)\})?\s*(.*)$")
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
ALT_TEXT = re.compile(r"^:alt:\s+(.*)$")
OPTION_OR_LABEL = re.compile(r"^:[\w-]+:|^\([\w-]+\)=$")
LIST_ITEM = re.compile(r"^(?:[-*+]|\d+\.)\s+")
WITHOUT_PROSE = {"code", "code-block", "code-cell", "eval-rst", "math", "toctree"}
TITLED = ("prf:", "admonition", "exercise", "dropdown")
EXERCISE_OR_SOLUTION = re.compile(
    r"^(`{3,})\{(exercise|solution)-start\}.*?^`{3,}\{\2-end\}\s*^`{3,}"
    r"|^([`:]{3,})\{(?:exercise|solution)\}.*?^\3\s*$",
    re.DOTALL | re.MULTILINE,
)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
DISPLAY = re.compile(r"\$\$.*?\$\$(?:\s*\([\w-]+\))?", re.DOTALL)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|Eq|Fig|Sec|resp|etc|approx|No|al|ca|s\.t)\.")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9(\"'])")
NAMED = re.compile(
    r"\b(?:Chapters?|Parts?|Algorithm|Claims?|Theorem|Lemma|Assumption|Section|Figure|Table|part"
    r"|clause|statement|step|line|iteration|edition|version|Python)"
    r"\s+[\dIVX]+(?:\.\d+)*(?:(?:, | and | to | or )[\d.]+)*"
)
NAMES_WITH_DIGITS = re.compile(
    r"\b[A-Z]\d+\b|\b[xXe]\d+-?\d*\b|\bfloat\d+\b|\bl1\b|\bSOS1\b|\bConv1d\b|\bCONV1D\b"
)
NUMERAL = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|\bNUMBER\b")


@dataclass
class Prose:
    """A text of Markdown, taken apart."""

    body: str
    headings: list[tuple[str, str]]
    tables: str


@dataclass
class _Reader:
    """Reads Markdown line by line."""

    body: list[str] = field(default_factory=list)
    headings: list[tuple[str, str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    containers: list[str] = field(default_factory=list)
    code: str = ""
    """The fence that ends the present block without prose."""

    def read(self, line: str) -> None:
        bare = line.strip()
        if self.code:
            self.code = "" if _ends(bare, self.code) else self.code
        elif fence := FENCE_LINE.match(bare):
            self._fence(bare, *fence.groups())
        elif heading := HEADING.match(bare):
            self.headings.append((f"h{len(heading[1])}", heading[2]))
            self.body.append("")
        elif bare.startswith("|"):
            self.tables.append(bare)
            self.body.append("")
        elif alt := ALT_TEXT.match(bare):
            self.body += ["", alt[1], ""]
        elif not OPTION_OR_LABEL.match(bare) and not self._is_code(line):
            self._text(bare)

    def _fence(self, bare: str, fence: str, directive: str | None, title: str) -> None:
        self.body.append("")
        if directive in WITHOUT_PROSE:
            self.code = fence
        elif directive:
            self.containers.append(fence)
            if title and directive.startswith(TITLED):
                self.headings.append((directive, title))
        elif self.containers and _ends(bare, self.containers[-1]):
            self.containers.pop()
        elif not fence.startswith(":"):
            self.code = fence

    def _is_code(self, line: str) -> bool:
        """Return whether a line is code by its indentation."""
        after_blank = not self.body or not self.body[-1].strip()
        return after_blank and re.match(r"^    \S", line) is not None and not self.containers

    def _text(self, bare: str) -> None:
        if LIST_ITEM.match(bare):
            self.body.append("")
        self.body.append(LIST_ITEM.sub("", bare))


def _ends(bare: str, fence: str) -> bool:
    return bare.startswith(fence) and not bare.strip(fence[0])


def read(text: str) -> Prose:
    """Take Markdown apart.

    >>> read("# Title" + chr(10) + "One *word*." + chr(10) + "| a | b |").headings
    [('h1', 'Title')]
    """
    reader = _Reader()
    for line in DISPLAY.sub(" DISPLAY ", COMMENT.sub(" ", text)).splitlines():
        reader.read(line)
    return Prose("\n".join(reader.body), reader.headings, "\n".join(reader.tables))


def without_exercises(text: str) -> str:
    """Return a chapter without its exercises and their solutions."""
    return EXERCISE_OR_SOLUTION.sub("", text)


def inline(text: str) -> str:
    """Replace what stands inside a line by words.

    >>> inline("See [the page](a.md): `solve(x)` takes $12.5$ **seconds** {cite}`smith`.")
    'See the page: CODE takes  NUMBER  seconds .'
    """
    text = re.sub(r"(^|[.!?]\s+)\{cite(?::\w+)?\}`[^`]*`", r"\1REF", text)
    text = re.sub(r"\{cite(?::\w+)?\}`[^`]*`", "", text)
    text = re.sub(r"\{[\w:]+\}`(?:([^`<]*)<[^`]*>|[^`]*)`", lambda m: m[1] or "REF", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``?[^`]+``?", "CODE", text)
    text = re.sub(r"(?<!\\)\$([^$]+)\$", _formula, text)
    return re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)


def _formula(found: re.Match[str]) -> str:
    body = found[1]
    measured = re.search(r"\d\d|\d\.\d|\\,\d{3}", body)
    return " NUMBER " if measured and not re.search(r"\\frac|_\{?\d", body) else " MATH "


def sentences(text: str) -> list[str]:
    """Split a text into sentences of at least two words.

    >>> sentences("The gap is 3 %, cf. Fig. 2. Nothing else." + 2 * chr(10) + "One")
    ['The gap is 3 %, cf. Fig. 2.', 'Nothing else.']
    """
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        joined = " ".join(inline(paragraph).split())
        joined = ABBREVIATION.sub(lambda m: m[0].replace(".", "\x00"), joined)
        found += [part.replace("\x00", ".").strip() for part in END_OF_SENTENCE.split(joined)]
    return [part for part in found if len(re.findall(r"[A-Za-z]+", part)) >= 2]


def words(sentence: str) -> list[str]:
    """Return the words and numerals of a sentence.

    >>> words("At most 1,000 words, don't you think?")
    ['At', 'most', '1,000', 'words', "don't", 'you', 'think']
    """
    return re.findall(r"[A-Za-z][A-Za-z'-]*|\d[\d.,x×]*", sentence)


def numbers(sentence: str) -> int:
    """Count the numbers of a sentence; references, names and `4x32` count for none, or for one.

    >>> numbers("In Chapter 3, E1 has 4x32 units, 17 samples and NUMBER seconds.")
    3
    """
    text = NAMES_WITH_DIGITS.sub(" ", NAMED.sub(" ", sentence))
    return len(NUMERAL.findall(re.sub(r"(?<=\d)[x×](?=\d)", "", text)))
