"""One quiz page for each part of the book, from course/quizzes/part_N.yml: `python -m tools.quizzes
[--output DIR]`.

A page is one file: it works from disk, without network, by mouse, touch or keyboard, and nothing
typed leaves it. Beside it stands the same quiz as Moodle XML (tools/moodle.py).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

import yaml

from tools import moodle
from tools.course_pages import chapters, inline, markdown, page, write
from tools.notebooks import BUILD, ROOT

SOURCES = ROOT / "course" / "quizzes"
OUTPUT = BUILD / "course" / "quizzes"
KINDS = {
    "single": "One answer is right.",
    "multiple": "Choose all that are right.",
    "number": "Type a number; a fraction such as 3/4 will do.",
}
FORMULA_ALONE = re.compile(r"\$([^$]*)\$[.,]?")
TEX_COMMAND = re.compile(r"\\([A-Za-z]+)")
TEX_SIGNS = {
    "lVert": "|",
    "rVert": "|",
    "bigl": "",
    "bigr": "",
    "left": "",
    "right": "",
    "le": "<=",
}
"""TeX commands that are no words of their own."""
STYLE = """
fieldset { border: 1px solid var(--line); border-radius: 8px; margin: 1.4rem 0; padding: .4rem 1rem 1rem;
  min-width: 0; }
legend { padding: 0 .4rem; } legend h2 { font-size: 1.1rem; margin: 0; display: inline; }
.kind { color: inherit; font-size: .92rem; font-style: italic; margin: .2rem 0; }
.option { display: grid; grid-template-columns: 1.6rem 1fr; margin: .45rem 0; }
.option input { width: 1.15rem; height: 1.15rem; margin-top: .3rem; }
.why { grid-column: 2; margin: .2rem 0 .3rem; padding-left: .7rem; border-left: 4px solid var(--bad); }
.right > .why { border-color: var(--good); } .why b { color: var(--bad); } .right > .why b { color: var(--good); }
input[type=text] { font: inherit; width: 9rem; padding: .3rem .5rem; color: inherit; background: var(--paper);
  border: 1px solid var(--ink); border-radius: 5px; }
button { font: inherit; padding: .35rem .9rem; margin: .5rem .5rem 0 0; color: var(--paper); background: var(--ink);
  border: 1px solid var(--ink); border-radius: 5px; cursor: pointer; }
button.plain { color: var(--ink); background: var(--paper); }
.verdict { min-height: 1.6rem; margin: .5rem 0 0; font-weight: 600; }
.verdict.good { color: var(--good); } .verdict.bad { color: var(--bad); } .verdict.bad .hint { font-weight: 400; }
details { margin-top: .5rem; } summary { cursor: pointer; }
"""
SCRIPT = """\
const number = text => {
  const [top, bottom, more] = text.trim().replace(",", ".").replace("\\u2212", "-").split("/");
  if (more !== undefined || !/\\d/.test(top)) return NaN;
  return bottom === undefined ? Number(top) : Number(top) / Number(bottom);
};
const say = (field, good, text) => {
  const verdict = field.querySelector(".verdict");
  verdict.className = "verdict " + (good ? "good" : "bad");
  verdict.innerHTML = text;
  field.dataset.done = good ? "yes" : "no";
  const done = document.querySelectorAll("fieldset[data-done=yes]").length;
  document.getElementById("score").textContent =
    done + " of " + document.querySelectorAll("fieldset").length + " questions right";
};
const show = option => {
  option.querySelector(".why").hidden = false;
  option.querySelector("input").setAttribute("aria-describedby", option.querySelector(".why").id);
};
const checkChoice = field => {
  const options = [...field.querySelectorAll(".option")];
  const chosen = options.filter(o => o.querySelector("input").checked);
  if (!chosen.length) return say(field, false, "Nothing is chosen yet.");
  options.forEach(o => { o.querySelector(".why").hidden = true; });
  chosen.forEach(show);
  const wrong = chosen.filter(o => !o.classList.contains("right")).length;
  const missing = options.filter(o => o.classList.contains("right") && !chosen.includes(o)).length;
  if (!wrong && !missing) return say(field, true, "Right.");
  say(field, false, wrong ? "Not yet: see what is said below your choice."
    : "What you chose is right, and something is missing.");
};
const checkNumber = field => {
  const value = number(field.querySelector("input").value);
  if (!Number.isFinite(value)) return say(field, false, "That is not a number yet.");
  const near = x => Math.abs(value - x) <= Number(field.dataset.tolerance) + 1e-12;
  if (near(Number(field.dataset.answer))) {
    field.querySelector("details").open = true;
    return say(field, true, "Right.");
  }
  const trap = [...field.querySelectorAll("template")].find(t => t.dataset.value && near(Number(t.dataset.value)));
  const hint = trap || field.querySelector("template.hint");
  say(field, false, "Not yet. <span class='hint'>" + hint.innerHTML + "</span>");
};
document.querySelectorAll("fieldset").forEach(field => {
  const check = () => field.dataset.kind === "number" ? checkNumber(field) : checkChoice(field);
  field.querySelector("button.check").addEventListener("click", check);
  const all = field.querySelector("button.all");
  if (all) all.addEventListener("click", () => field.querySelectorAll(".option").forEach(show));
  const typed = field.querySelector("input[type=text]");
  if (typed) typed.addEventListener("keydown", e => { if (e.key === "Enter") { e.preventDefault(); check(); } });
});
document.querySelector("form").addEventListener("submit", e => e.preventDefault());
document.querySelector("form").addEventListener("reset", () => {
  document.querySelectorAll(".why").forEach(w => { w.hidden = true; });
  document.querySelectorAll("details").forEach(d => { d.open = false; });
  document.querySelectorAll("fieldset").forEach(f => {
    delete f.dataset.done;
    f.querySelector(".verdict").textContent = "";
  });
  document.getElementById("score").textContent = "";
});
"""


class QuizError(ValueError):
    """A quiz file that cannot become a page; the message says where and what to change."""


def load(path: Path) -> dict[str, Any]:
    """A quiz with everything that a page needs, or an error that names the question."""
    quiz = yaml.safe_load(path.read_text(encoding="utf-8"))
    for question in quiz["questions"]:
        where = f"{path.name}, {question.get('id')}"
        kind = question.get("kind")
        if question.get("chapter") not in chapters():
            raise QuizError(
                f"{where}: no chapter {question.get('chapter')!r}. To fix this, use a name of"
                " _toc.yml."
            )
        if kind not in KINDS:
            raise QuizError(
                f"{where}: kind is {kind!r}. To fix this, use one of {', '.join(KINDS)}."
            )
        if kind == "number":
            missing = {"answer", "why", "hint", "traps"} - question.keys()
        else:
            missing = {
                key for option in question["options"] for key in {"text", "why"} - option.keys()
            }
            right = sum(bool(option.get("right")) for option in question["options"])
            if right < 1 or (kind == "single" and right > 1) or right == len(question["options"]):
                raise QuizError(
                    f"{where}: {right} options are right. To fix this, mark them with right: true."
                )
        if missing:
            raise QuizError(f"{where}: {', '.join(sorted(missing))} missing. To fix this, add it.")
    return quiz


def quizzes() -> list[dict[str, Any]]:
    """All quizzes in the order of the parts."""
    return [load(path) for path in sorted(SOURCES.glob("part_*.yml"))]


def shown_order(question: dict[str, Any]) -> list[dict[str, Any]]:
    """The options as a page lists them: by a hash, so that their order in the source, where the
    right one is often first, gives nothing away.
    """

    def rank(option: dict[str, Any]) -> str:
        return hashlib.sha256(f"{question['id']}\n{option['text']}".encode()).hexdigest()

    return sorted(question["options"], key=rank)


def read_out(text: str) -> str:
    r"""An option that is a formula alone, in words; nothing for any other option.

    >>> read_out(r"$\lambda^k = -\nabla g(u^k)$"), read_out("At least $1$.")
    ('lambda^k = -nabla g(u^k)', '')
    """
    formula = FORMULA_ALONE.fullmatch(text)
    if formula is None:
        return ""
    tex = re.sub(r"\\tfrac(\\[A-Za-z]+|\d)(\\[A-Za-z]+|\d)", r"\1/\2", formula[1])
    words = TEX_COMMAND.sub(lambda found: f"{TEX_SIGNS.get(found[1], found[1])} ", tex)
    plain = " ".join(re.sub(r"\\[,;! ]|[{}]", "", words).split())
    return re.sub(r" +([)|^/])", r"\1", plain)


def choices(name: str, question: dict[str, Any]) -> str:
    """Radio buttons or check boxes, each with a label and a folded explanation."""
    kind = "radio" if question["kind"] == "single" else "checkbox"
    rows = []
    for letter, option in zip("abcdefgh", shown_order(question), strict=False):
        own = f"{name}-{letter}"
        right = bool(option.get("right"))
        word = "Right." if right else "Wrong."
        spoken = escape(read_out(option["text"]))
        aria = f' aria-label="Option {letter}: {spoken}"' if spoken else ""
        rows.append(
            f'<div class="option{" right" if right else ""}"><input type="{kind}" name="{name}"'
            f' id="{own}"{aria}><label for="{own}">{inline(option["text"])}</label><p class="why"'
            f' id="{own}-why" hidden><b>{word}</b> {inline(option["why"])}</p></div>'
        )
    return "\n".join(rows)


def number_field(name: str, question: dict[str, Any]) -> str:
    """A text field, hints for likely slips, and the explanation to unfold."""
    traps = [
        f'<template data-value="{t["value"]}">{inline(t["why"])}</template>'
        for t in question["traps"]
    ]
    return "\n".join(
        [
            (
                f'<label for="{name}-n">Your answer</label> <input type="text" id="{name}-n"'
                f' inputmode="decimal" autocomplete="off" aria-describedby="{name}-ask">'
            ),
            f'<template class="hint">{inline(question["hint"])}</template>',
            *traps,
            (
                "<details><summary>Show the"
                f" explanation</summary>{markdown(question['why'])}</details>"
            ),
        ]
    )


def field(count: int, question: dict[str, Any]) -> str:
    name = f"q{count}"
    numeric = question["kind"] == "number"
    data = (
        f' data-answer="{question["answer"]}" data-tolerance="{question.get("tolerance", 1e-6)}"'
        if numeric
        else ""
    )
    more = (
        "" if numeric else '<button type="button" class="all plain">Show all explanations</button>'
    )
    return (
        f'<fieldset id="{question["id"]}" data-kind="{question["kind"]}"{data}'
        f' aria-describedby="{name}-ask">\n'
        f"<legend><h2>Question {count}</h2></legend>\n"
        f'<div id="{name}-ask">{markdown(question["ask"])}</div>\n<p'
        f' class="kind">{KINDS[question["kind"]]} '
        f"(Chapter {chapters()[question['chapter']].number})</p>\n"
        f"{number_field(name, question) if numeric else choices(name, question)}\n"
        f'<div class="noprint"><button type="button" class="check">Check</button>{more}</div>\n'
        f'<p class="verdict" role="status"></p>\n</fieldset>'
    )


def quiz_page(quiz: dict[str, Any]) -> str:
    title = f"Quiz {quiz['part']}: {quiz['title']}"
    fields = "\n".join(
        field(count, question) for count, question in enumerate(quiz["questions"], 1)
    )
    body = (
        f"<h1>{title}</h1>\n{markdown(quiz['intro'])}\n"
        "<noscript><p>Checking answers needs JavaScript; reading and printing do"
        " not.</p></noscript>\n"
        f'<form autocomplete="off">\n{fields}\n<p id="score" role="status" class="verdict"></p>\n'
        '<button type="reset" class="plain noprint">Start again</button>\n</form>'
    )
    return page(title, body, STYLE, SCRIPT)


def build(output: Path = OUTPUT) -> list[Path]:
    """Write a page for each part, and the same quiz as Moodle XML; returns the pages."""
    written = []
    for quiz in quizzes():
        name = f"part_{quiz['part']}"
        written.append(write(output / f"{name}.html", quiz_page(quiz)))
        write(output / f"{name}.xml", moodle.quiz_xml(quiz))
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the quiz pages.")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    try:
        written = build(parser.parse_args().output)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(written)} quizzes in {written[0].parent}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
