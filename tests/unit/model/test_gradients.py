"""Steps along gradients."""

import pytest
import torch

from ddmip_lib.model.gradients import take_step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("adam", "reference"), [(False, torch.optim.SGD), (True, torch.optim.Adam)]
)
def test_steps_are_those_of_torch_to_the_last_digit(adam, reference, dtype):
    draw = torch.Generator().manual_seed(0)
    v = torch.randn(50, generator=draw, dtype=dtype)
    other = v.clone().requires_grad_(True)
    moments = (torch.zeros_like(v), torch.zeros_like(v)) if adam else None
    optimiser = reference([other], lr=1.0)
    for t in range(1, 40):
        slope = torch.randn(50, generator=draw, dtype=dtype) * 10.0 ** (t % 7 - 3)
        rate = 0.01 * (1 + 0.01 * t) ** -0.5
        take_step(v, slope, rate, moments, t)
        optimiser.param_groups[0]["lr"], other.grad = rate, slope
        optimiser.step()
        assert torch.equal(v, other.detach())
