"""The rules of tests/headline.yml: what the numbers that a chapter records must satisfy.

Per chapter and number: ``min``, ``max``, ``equals`` (with ``tolerance``, 0 if absent), ``at_least``
and ``at_most`` (the name of another number of the chapter); under ``real`` or ``stand-in``, rules
for that source alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SOURCES = ("real", "stand-in")
RULES = ("min", "max", "equals", "tolerance", "at_least", "at_most")


def violations(
    numbers: Mapping[str, float], rules: Mapping[str, Mapping[str, Any]], source: str
) -> list[str]:
    """Everything that is wrong with a chapter's numbers, a sentence each.

    >>> violations({"a": 3, "b": 2}, {"a": {"min": 1}, "b": {"at_least": "a"}}, "real")
    ['b = 2 is not >= a = 3']
    """
    found = [f"{name} is recorded but has no rule" for name in numbers if name not in rules]
    found += [f"{name} has a rule but was not recorded" for name in rules if name not in numbers]
    for name in (name for name in rules if name in numbers):
        found += _of_one(name, numbers, _for_source(name, rules[name], source))
    return found


def _for_source(name: str, rule: Mapping[str, Any], source: str) -> dict[str, Any]:
    own = {
        **{key: value for key, value in rule.items() if key not in SOURCES},
        **rule.get(source, {}),
    }
    if unknown := set(own) - set(RULES):
        raise ValueError(
            f"{name}: unknown rule {', '.join(sorted(unknown))}; there are {', '.join(RULES)}"
        )
    if not set(own) - {"tolerance"}:
        raise ValueError(
            f"{name}: no rule for the data source {source!r}, so nothing would be checked"
        )
    return own


def _of_one(name: str, numbers: Mapping[str, float], rule: Mapping[str, Any]) -> list[str]:
    value = numbers[name]
    tolerance = rule.get("tolerance", 0)
    found = []
    if "equals" in rule and abs(value - rule["equals"]) > tolerance:
        found.append(f"{name} = {value} is not {rule['equals']} (tolerance {tolerance})")
    if "min" in rule and value < rule["min"]:
        found.append(f"{name} = {value} is not >= {rule['min']}")
    if "max" in rule and value > rule["max"]:
        found.append(f"{name} = {value} is not <= {rule['max']}")
    for word, sign in (("at_least", 1), ("at_most", -1)):
        if word not in rule:
            continue
        other = rule[word]
        if other not in numbers:
            found.append(f"{name}: its rule names {other}, which was not recorded")
        elif sign * (value - numbers[other]) < 0:
            found.append(
                f"{name} = {value} is not {'>=' if sign > 0 else '<='} {other} = {numbers[other]}"
            )
    return found
