"""Old public names work for one version more, and warn."""

import importlib
from typing import Any

import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PriceCoordination, SequentialMIP, solve
from ddmip_lib.problems import hand_sized
from ddmip_lib.renamed import Details

OBJECTS = {
    "ddmip_lib.decomposition.Progress": "ddmip_lib.decomposition.ResidualInfo",
    "ddmip_lib.decomposition.milp.MILPBlock": "ddmip_lib.decomposition.scip_block.MILPBlock",
    "ddmip_lib.decomposition.milp.square_cuts": "ddmip_lib.decomposition.scip_block.square_cuts",
    "ddmip_lib.linearisation.elastic.Elastic": "ddmip_lib.linearisation.elastic.ElasticModel",
    "ddmip_lib.linearisation.elastic.Point": "ddmip_lib.linearisation.elastic.TrialPoint",
    "ddmip_lib.model.solver.Moment": "ddmip_lib.methods.ProgressEvent",
    "ddmip_lib.portfolio.Step": "ddmip_lib.portfolio.PlannedMethod",
    "ddmip_lib.portfolio.Turn": "ddmip_lib.portfolio.LogEntry",
    "ddmip_lib.pricing.general.Apart": "ddmip_lib.pricing.general_blocks.SeparableElasticModel",
    "ddmip_lib.pricing.general.Joined": "ddmip_lib.pricing.general_blocks.JointElasticModel",
    "ddmip_lib.pricing.general.Search": "ddmip_lib.pricing.general_blocks.GeneralColumnGeneration",
    "ddmip_lib.pricing.market.Market": "ddmip_lib.pricing.state.CoordinationState",
    "ddmip_lib.pricing.market.Rounds": "ddmip_lib.pricing.state.Rounds",
    "ddmip_lib.pricing.recognition.Reader": "ddmip_lib.pricing.recognition.BlockReader",
    "ddmip_lib.pricing.recognition.Setting": "ddmip_lib.pricing.recognition.FixedBlock",
    "ddmip_lib.pricing.recognition.Step": "ddmip_lib.pricing.recognition.PiecewiseTerm",
    "ddmip_lib.pricing.recognition.UnlikeError": "ddmip_lib.pricing.recognition.NotBlockFormError",
    "ddmip_lib.pricing.recognition.Way": "ddmip_lib.pricing.recognition.BlockMode",
}


def found(place: str) -> object:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("old", OBJECTS)
def test_an_old_name_finds_the_object_and_warns(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=r"ends with version 0\.4"):
        object_ = found(old)
    assert object_ is found(OBJECTS[old])


def test_a_name_that_never_was_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Regress'"):
        found("ddmip_lib.decomposition.Regress")


def test_parameters_by_their_old_names() -> None:
    problem = hand_sized()
    evaluated: list[object] = []
    with pytest.warns(DeprecationWarning, match="visit= is now on_point="):
        solve(problem, visit=evaluated.append)
    assert evaluated
    with pytest.warns(DeprecationWarning, match="idle_starts= is now max_failed_starts="):
        sequential = SequentialMIP(idle_starts=2)
    with pytest.warns(DeprecationWarning, match="idle_rounds= is now max_failed_rounds="):
        prices = PriceCoordination(idle_rounds=4)
    assert (sequential.max_failed_starts, prices.max_failed_rounds) == (2, 4)
    with pytest.warns(DeprecationWarning, match="idle_rounds is now max_failed_rounds"):
        assert prices.idle_rounds == 4


def test_rounds_by_their_old_parameters() -> None:
    solver = PriceCoordination(steps=2)
    state = solver.start(water_potability(n=2, net=mlp(1, 4, 9, seed=1)))
    with pytest.warns(DeprecationWarning, match="market= is now state="):
        solver.round(market=state)
    with pytest.warns(DeprecationWarning, match="seen= is now prices="):
        solver.round(state, seen=0 * state.next_prices)
    assert len(state.rounds) == 2
    with pytest.warns(DeprecationWarning, match="crew= is now executor="):
        empty = type(state).empty(state.blocks, state.incumbent, 1.0, 0, crew=state.executor)
    assert empty.executor is state.executor


def test_details_by_their_old_keys() -> None:
    details = Details(explored_radius=0.5)
    with pytest.warns(DeprecationWarning, match="explored_radius"):
        assert details["closed_radius"] == 0.5
    with pytest.raises(KeyError, match="asked_again"):
        details["asked_again"]


ATTRIBUTES = {
    "ddmip_lib.bounds.result.Bounds": {"lower_form": "lower_linear", "upper_form": "upper_linear"},
    "ddmip_lib.decomposition.admm_state.ADMMState": {
        "mip": "mip_block",
        "nn": "nn_block",
        "sub": "subproblem",
    },
    "ddmip_lib.model.log.LogEntry": {"why": "reason"},
    "ddmip_lib.model.structure.Structure": {"linking": "coupling"},
    "ddmip_lib.pricing.state.CoordinationState": {"seen": "next_prices"},
}


@pytest.mark.parametrize("place", ATTRIBUTES)
def test_attributes_by_their_old_names(place: str) -> None:
    cls: Any = found(place)
    instance = object.__new__(cls)
    for old, new in ATTRIBUTES[place].items():
        object.__setattr__(instance, new, new)
        with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
            assert getattr(instance, old) == new
