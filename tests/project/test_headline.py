"""record_headline and the rules that its numbers are held against."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.testing.globalipapp import start_ipython

from ddmip_book.headline import METADATA_KEY, record_headline
from ddmip_book.yaml_file import read_yaml
from tools.headline_rules import violations
from tools.notebooks import ROOT


def test_numbers_travel_in_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = start_ipython()
    published: list[dict] = []
    monkeypatch.setattr(shell.display_pub, "publish", lambda **given: published.append(given))
    record_headline({"potable": (np.int64(26), "potable <samples>")}, gap=np.float64(0.5))
    assert published[0]["metadata"] == {METADATA_KEY: {"potable": 26, "gap": 0.5}}
    assert type(published[0]["metadata"][METADATA_KEY]["potable"]) is int
    assert "potable &lt;samples&gt;" in published[0]["data"]["text/html"]
    assert "potable <samples>  26" in published[0]["data"]["text/plain"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "26", True])
def test_only_finite_numbers_are_recorded(value: object) -> None:
    with pytest.raises(ValueError, match="headline number 'objective'"):
        record_headline(objective=value)


def test_an_empty_headline_is_an_error() -> None:
    with pytest.raises(ValueError, match="no numbers"):
        record_headline()


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ({"min": 5}, True),
        ({"min": 6}, False),
        ({"max": 5}, True),
        ({"max": 4}, False),
        ({"equals": 5}, True),
        ({"equals": 4.5}, False),
        ({"equals": 4.5, "tolerance": 0.5}, True),
        ({"at_least": "other"}, True),
        ({"at_most": "other"}, False),
        ({"at_least": "missing"}, False),
        ({"real": {"min": 6}, "stand-in": {"min": 1}}, False),
        ({"min": 1, "stand-in": {"min": 6}}, True),
    ],
)
def test_each_rule_can_hold_and_fail(rule: dict, holds: bool) -> None:
    found = violations({"it": 5, "other": 3}, {"it": rule, "other": {"min": 0}}, "real")
    assert (found == []) is holds


def test_numbers_and_rules_must_match() -> None:
    assert violations({"a": 1}, {"b": {"min": 0}}, "real") == [
        "a is recorded but has no rule",
        "b has a rule but was not recorded",
    ]


@pytest.mark.parametrize("rule", [{"minimum": 3}, {}, {"tolerance": 1}, {"stand-in": {"min": 1}}])
def test_a_rule_that_checks_nothing_is_an_error(rule: dict) -> None:
    with pytest.raises(ValueError, match="it: "):
        violations({"it": 1}, {"it": rule}, "real")


def test_the_stored_numbers_are_those_of_todays_pages() -> None:
    """Stored by `python -m ddmip_book.experiments.ledger book/claims.yml --measured FOLDER`."""
    rules = read_yaml(ROOT / "tests" / "headline.yml")
    stored = read_yaml(ROOT / "book" / "measured.yml")
    assert stored.keys() == rules.keys()
    broken = {
        page: found
        for page, numbers in stored.items()
        if (
            found := [
                each
                for each in violations(numbers, rules[page], "real")
                if "was not recorded" not in each
            ]
        )
    }
    assert not broken
