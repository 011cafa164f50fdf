"""Points that another device screened are confirmed on the CPU, and nothing confirmed is lost."""

import numpy as np
import torch

from ddmip_lib.clock import now
from ddmip_lib.model.incumbent import Incumbent
from ddmip_lib.problems import hand_sized


def test_a_confirmed_point_survives_screened_ones_that_fail() -> None:
    """The screening networks predict too little, so that a worse point looks better."""
    instance = hand_sized().instance()
    incumbent = Incumbent(instance, now(), screen_on=torch.device("cpu"))
    names = instance.milp.names

    def point(one: float, two: float) -> np.ndarray:
        inputs = {names[0]: one, names[1]: two}
        return np.array([inputs.get(name, 0.0) for name in names])

    incumbent.consider(point(1, 1))
    incumbent.confirm_on_cpu()
    assert incumbent.objective == 0.5
    for predictor in incumbent.screening_instance.predictors:
        with torch.no_grad():
            predictor.net.net[-1].bias -= 10.0
    incumbent.consider(point(0, 0))
    assert incumbent.objective < 0
    incumbent.confirm_on_cpu()
    assert incumbent.objective == 0.5
    assert incumbent.values is not None
    assert incumbent.values[:2].tolist() == [1.0, 1.0]
    assert incumbent.found[-1][1] == 0.5
