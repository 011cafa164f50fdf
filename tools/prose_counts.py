"""How plain the prose is: `python -m tools.prose_counts [NAME ...] [--words] [--places] ...`.

For each page, and for docstrings, messages and labels, it prints the measures that
`tests/project/test_prose.py` holds below their bars: private words, long sentences, sentences full
of numbers, headings that name nothing of the field, questions where a result should stand, length.
Private words, phrases of the field that are no private words, and stems of headings stand in
`prose_words.yml`. A name is one of the first column, or a group of `BARS`.

  --words      occurrences of each private word, and the field's word
  --places     with --words: a place for each word
  --headings   headings without a noun of the field
  --sentences  sentences that are too long or hold too many numbers
  --symbols    how often letters with several meanings occur in chapters
  --above      only what lies above its bar
  --lower      take what improved out of tests/project/prose.yml
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ddmip_book.yaml_file import read_yaml
from tools.prose_sources import ROOT, Source, sources
from tools.prose_text import (
    NAMED,
    NAMES_WITH_DIGITS,
    Prose,
    inline,
    numbers,
    read,
    sentences,
    without_exercises,
    words,
)

WORD_LIST = Path(__file__).with_name("prose_words.yml")
TABLE = ROOT / "tests" / "project" / "prose.yml"
MAX_WORDS = 35
MAX_NUMBERS = 3
SENTENCES = {"long": 4.0, "dense": 2.0, "what": 2.0}
PAGE_BARS = {"private": 12.0, **SENTENCES, "bare": 0.0}
STRING_BARS = {"private": 15.0, **SENTENCES}
BARS: dict[str, dict[str, float]] = {
    "chapters": {**PAGE_BARS, "question": 0.0, "unstated": 0.0, "main": 3600.0},
    "pages": PAGE_BARS,
    "readme": {**PAGE_BARS, "private": 8.0},
    "project": PAGE_BARS,
    "course": PAGE_BARS,
    "docstrings": STRING_BARS,
    "strings": STRING_BARS,
}
"""The most that each measure of a group may be."""
MEASURES = {
    "private": "private words, of 1,000 words",
    "long": f"% of sentences with more than {MAX_WORDS} words",
    "dense": f"% of sentences with more than {MAX_NUMBERS} numbers",
    "what": "% of sentences that begin with what, who, where, nobody or nothing",
    "bare": "headings without a noun of the field",
    "question": "questions before the first figure or heading",
    "unstated": "1 where the first paragraph has neither a number nor a theorem",
    "main": "words outside exercises and solutions",
}
STEPS = {"private": 0.5, "long": 0.5, "dense": 0.5, "what": 0.5, "main": 50.0}
"""Entries of the table are rounded up to multiples of these."""
FREE = {
    "what",
    "who",
    "whoever",
    "whatever",
    "where",
    "nobody",
    "nothing",
    "which",
}
RESULT = re.compile(r"\{prf:ref\}|NUMBER|\d")
LEAD_ENDS = re.compile(r"```\{figure\}|\*\*You will learn|^## |^---", re.MULTILINE)
SYMBOLS = (
    r"\pi \chi \tau \zeta \omega \theta \psi \kappa \sigma \Delta \beta \alpha r T K R B C M m S E"
)


@dataclass
class WordList:
    """Private words, exempt phrases and stems, as `prose_words.yml` lists them."""

    private: dict[str, re.Pattern[str]]
    instead: dict[str, str]
    exempt: re.Pattern[str]
    stems: tuple[str, ...]
    structural: frozenset[str]

    @classmethod
    def load(cls, path: Path = WORD_LIST) -> WordList:
        given = read_yaml(path)
        flags = re.IGNORECASE
        return cls(
            {word: re.compile(entry["pattern"], flags) for word, entry in given["words"].items()},
            {word: entry["field"] for word, entry in given["words"].items()},
            re.compile("|".join(f"(?:{e['phrase']})" for e in given["exempt"]), flags),
            tuple(given["stems"].split()),
            frozenset(given["structural"]),
        )

    def count(self, text: str) -> Counter[str]:
        """Count the private words of a text, without the phrases of the field."""
        rest = self.exempt.sub(" ", text)
        return Counter({word: len(found.findall(rest)) for word, found in self.private.items()})

    def is_bare(self, heading: str) -> bool:
        """Return whether a heading names nothing of the field."""
        low = re.sub(r"\$[^$]*\$|`[^`]*`", " ", heading.lower()).strip()
        if low in self.structural or re.match(r"\[?(?:\d+\.\d+|unreleased)|claim ", low):
            return False
        tokens = re.findall(r"[a-z0-9][a-z0-9-]*", low)
        return not any(token.startswith(self.stems) for token in tokens)


@cache
def word_list() -> WordList:
    return WordList.load()


@dataclass
class Measured:
    """A source with its measures, and the passages that they count."""

    source: Source
    words: int
    values: dict[str, float]
    private: Counter[str]
    sentences: list[str] = field(repr=False)
    bare: list[str] = field(repr=False)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def long(self) -> list[str]:
        return [sentence for sentence in self.sentences if len(words(sentence)) > MAX_WORDS]

    @property
    def dense(self) -> list[str]:
        return [sentence for sentence in self.sentences if numbers(sentence) > MAX_NUMBERS]

    def above(self) -> dict[str, float]:
        """Return the measures above their bars."""
        bars = BARS[self.source.group]
        return {name: value for name, value in self.values.items() if value > bars[name]}


def measure(source: Source) -> Measured:
    """Measure a source by the measures of its group."""
    prose = read(source.text)
    found = sentences(prose.body)
    flat = " ".join([*found, inline(source.labels), inline(prose.tables), _titles(prose)])
    private = word_list().count(flat)
    total = sum(len(words(sentence)) for sentence in found)
    bare = [title for kind, title in prose.headings if _counts(kind, title)]
    result = Measured(source, total, {}, private, found, bare)
    measures = {
        "private": 1000 * private.total() / max(total, 1),
        "long": 100 * len(result.long) / max(len(found), 1),
        "dense": 100 * len(result.dense) / max(len(found), 1),
        "what": 100 * sum(map(_begins_freely, found)) / max(len(found), 1),
        "bare": len(bare),
        **_of_chapter(source),
    }
    result.values = {name: measures[name] for name in BARS[source.group]}
    return result


def _titles(prose: Prose) -> str:
    return inline(". ".join(title for _, title in prose.headings))


def _counts(kind: str, title: str) -> bool:
    return kind != "dropdown" and word_list().is_bare(title)


def _begins_freely(sentence: str) -> bool:
    """Return whether a sentence begins with a noun clause; "Which bound is proved?" has none."""
    first = re.findall(r"[A-Za-z']+", sentence)[0].lower()
    return first in FREE and not (first == "which" and sentence.endswith("?"))


def _of_chapter(source: Source) -> dict[str, float]:
    """Return the measures of opening and length."""
    lead = LEAD_ENDS.split(source.text)[0]
    main = sentences(read(without_exercises(source.text)).body)
    return {
        "question": lead.count("?"),
        "unstated": float(not _states_result(lead)),
        "main": sum(len(words(sentence)) for sentence in main),
    }


def _states_result(lead: str) -> bool:
    """Return whether the first paragraph has a number or a theorem; names with digits are neither.

    >>> (
    ...     _states_result("# E1\\n\\nE1 of Chapter 3 compares."),
    ...     _states_result("# E1\\n\\nIn 12 steps."),
    ... )
    (False, True)
    """
    first = next((text for text in lead.split("\n\n") if text and not text.startswith("#")), "")
    plain = re.sub(r"\]\([^)]*\)|\{cite\}`[^`]*`", "", first)
    return RESULT.search(NAMES_WITH_DIGITS.sub(" ", NAMED.sub(" ", plain))) is not None


def measured(names: Iterable[str] = ()) -> list[Measured]:
    """Measure all sources, or those of these names and groups."""
    chosen = set(names)
    every = [source for source in sources() if not chosen or chosen & {source.name, source.group}]
    return [measure(source) for source in every]


def raised(name: str, value: float) -> float:
    """Round a measure up to the next step of the table.

    >>> raised("private", 12.02), raised("main", 3601), raised("bare", 2)
    (12.5, 3650.0, 2.0)
    """
    step = STEPS.get(name, 1.0)
    return math.ceil(round(value, 6) / step) * step


def lowered(
    table: Mapping[str, Mapping[str, float]], found: Iterable[Measured]
) -> dict[str, dict[str, float]]:
    """Return the table with what improved taken out or lowered; nothing is added or raised."""
    result = {}
    for text in found:
        allowed = table.get(text.name, {})
        above = text.above()
        entries = {
            name: min(limit, raised(name, above[name]))
            for name, limit in allowed.items()
            if name in above
        }
        if entries:
            result[text.name] = entries
    return result


def table() -> dict[str, dict[str, float]]:
    """Return what pages that are not yet at their bars may have at most."""
    return read_yaml(TABLE) or {}


def write_table(entries: Mapping[str, Mapping[str, float]]) -> None:
    """Write the table, below the comment that it has."""
    comment = "".join(
        line for line in TABLE.read_text().splitlines(keepends=True) if line.startswith("#")
    )
    lines = [f"{name}: {{{_listed(limits)}}}\n" for name, limits in entries.items()]
    TABLE.write_text(comment + "".join(lines), encoding="utf-8")


def _listed(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{measure}: {limit:g}" for measure, limit in limits.items())


def _print_summary(found: list[Measured]) -> None:
    print(f"{'':32}{'words':>8}" + "".join(f"{name:>10}" for name in MEASURES))
    for text in found:
        cells = [
            f"{text.values[name]:>10.4g}" if name in text.values else f"{'':>10}"
            for name in MEASURES
        ]
        print(f"{text.name[:31]:32}{text.words:>8}" + "".join(cells))
    print("\n".join(f"{name:10}{meaning}" for name, meaning in MEASURES.items()))


def _print_words(found: list[Measured], places: bool) -> None:
    by_group: dict[str, Counter[str]] = {}
    for text in found:
        by_group.setdefault(text.source.group, Counter()).update(text.private)
    print(f"\n{'private word':34}" + "".join(f"{group:>12}" for group in by_group))
    for word, instead in word_list().instead.items():
        counts = [f"{counter[word]:>12}" for counter in by_group.values()]
        print(f"{word:34}{''.join(counts)}  {instead}")
        for text in found if places else []:
            hits = [s for s in text.sentences if word_list().count(s)[word]]
            _print_all(f"      {text.name}: ", hits[:3])


def _print_passages(found: list[Measured], options: argparse.Namespace) -> None:
    for text in found:
        if options.headings:
            _print_all(f"{text.name:24}  ", text.bare)
        if options.sentences:
            _print_all(f"LONG  {text.name}: ", text.long)
            _print_all(f"DENSE {text.name}: ", text.dense)


def _print_all(start: str, passages: list[str]) -> None:
    for passage in passages:
        print(f"{start}{passage}")


def _print_symbols(found: list[Measured]) -> None:
    letters = SYMBOLS.split()
    print(f"\n{'':24}" + "".join(f"{letter.strip(chr(92)):>8}" for letter in letters))
    for text in (text for text in found if text.source.group == "chapters"):
        formulas = " ".join(re.findall(r"\$\$.*?\$\$|\$[^$]+\$", text.source.text, re.DOTALL))
        by = [re.findall(rf"(?<![A-Za-z\\]){re.escape(x)}(?![A-Za-z])", formulas) for x in letters]
        print(f"{text.name:24}" + "".join(f"{len(hits):>8}" for hits in by))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    for flag in ("words", "places", "headings", "sentences", "symbols", "above", "lower"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args()
    found = measured(options.names)
    if options.lower:
        write_table(lowered(table(), measured()))
    if options.above:
        found = [text for text in found if text.above()]
    _print_summary(found)
    if options.words:
        _print_words(found, options.places)
    _print_passages(found, options)
    if options.symbols:
        _print_symbols(found)


if __name__ == "__main__":
    main()
