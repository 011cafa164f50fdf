"""The ledger as a page: one entry for each claim, which folds out its evidence and can be filtered.

Entries are Markdown with a little HTML: they fold without any script, in JupyterLab too, and their
links are those of the chapters. ``book/_static/ledger.js`` adds the filters.
"""

from collections.abc import Iterator
from html import escape

from .claims import CHECKS
from .ledger import MARKS, Claim, Ledger, rule_text


def entries(ledger: Ledger, part: str) -> str:
    """The claims of a part of the paper, as Markdown."""
    return "\n\n".join(_entry(ledger, claim) for claim in ledger.claims if claim.part == part)


def chapters_of(ledger: Ledger, claim: Claim) -> list[str]:
    """The pages on which a claim is examined, measured, proved or argued."""
    box = ledger.boxes.get(claim.id)
    examined = [] if box is None else [box.chapter]
    measured = [*claim.cells, *ledger.checked_on(claim)]
    proved = [ledger.statements[label][1] for label in claim.proof if label in ledger.statements]
    return list(dict.fromkeys([*examined, *measured, *proved, *claim.read]))


def _entry(ledger: Ledger, claim: Claim) -> str:
    verdict = ledger.verdict(claim)
    about = {
        "verdict": verdict,
        "kind": "ours" if claim.ours else claim.kind,
        "chapters": " ".join(chapters_of(ledger, claim)),
    }
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in about.items())
    quote = f"“{claim.quote}” " if claim.quote else ""
    lines = [
        f'<details class="ledger-entry" id="ledger-{claim.id}"{data}>',
        "<summary>",
        "",
        f"{MARKS[verdict]} **{claim.id}** {claim.says}: *{verdict}*",
        "",
        "</summary>",
        "",
        f"{quote}({claim.place})",
        "",
        claim.why,
        "",
        *(f"- {line}" for line in evidence(ledger, claim)),
        "",
        f'<a class="ledger-link" href="#ledger-{claim.id}">Link to claim {claim.id}</a>',
        "</details>",
    ]
    return "\n".join(lines)


def evidence(ledger: Ledger, claim: Claim) -> Iterator[str]:
    """What the verdict rests on, a line each: computed, proved, measured beside its rule,
    argued.
    """
    if (finding := ledger.findings.get(claim.id)) is not None:
        word = (
            "Arithmetic on the paper's figures"
            if CHECKS[claim.check or ""].on_paper
            else "Computed"
        )
        yield f"**{word}**: {finding.text}"
    proved: dict[str, list[str]] = {}
    for label in claim.proof:
        title, chapter = ledger.statements[label]
        proved.setdefault(chapter, []).append(f"*{title}*")
    word = "Proved" if ledger.verdict(claim) in ("holds", "new") else "What holds is proved"
    for chapter, titles in proved.items():
        yield f"**{word}** in {ledger.link(chapter)}: {', '.join(titles)}"
    for chapter, keys in claim.cells.items():
        yield f"**Measured** in {ledger.link(chapter)}: " + "; ".join(
            _number(ledger, chapter, key) for key in keys
        )
    for chapter in claim.read:
        yield f"**Argued** in {ledger.link(chapter)}"
    box = ledger.boxes.get(claim.id)
    if box is not None:
        yield f"[Claim box](#claim-{claim.id}) in {ledger.link(box.chapter)}"
    for page, keys in ledger.checked_on(claim).items():
        if page not in claim.cells:
            shown = "; ".join(_number(ledger, page, key) for key in keys)
            yield f"**Measured** in {ledger.link(page)}: {shown}"
    if claim.same_as is not None:
        other = f'<a href="#ledger-{claim.same_as}">{claim.same_as}</a>'
        yield f"Counted with {other}, whose quote or counterexample it shares"


def _number(ledger: Ledger, chapter: str, key: str) -> str:
    """A headline number: as last measured, and what its rule demands."""
    value = ledger.measured.get(chapter, {}).get(key)
    rule = rule_text(ledger.rules.get(chapter, {}).get(key, {}))
    shown = (
        "" if value is None else f" = {value:,}" if isinstance(value, int) else f" = {value:.4g}"
    )
    return f"`{key}`{shown}" + (f" (must be {rule})" if rule else "")
