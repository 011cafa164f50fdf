"""What the moving figure on penalty and multiplier must show."""

from ddmip_book.figures.moving import TARGET, WANTED


def multiplier_path(rho: float, steps: int = 12, lam: float = 0.0) -> dict[str, list[float]]:
    r"""The method of multipliers on $\min \tfrac12(x - 2)^2$ subject to $x = \tfrac12$.

    First $x = (2 - \lambda + \rho/2)/(1 + \rho)$ minimises the augmented Lagrangian, then
    $\lambda \leftarrow \lambda + \rho(x - \tfrac12)$.

    >>> path = multiplier_path(rho=1.0, steps=3)
    >>> path["x"], path["lam"]
    ([1.25, 0.875, 0.6875], [0.75, 1.125, 1.3125])
    """
    path: dict[str, list[float]] = {"x": [], "lam": []}
    for _ in range(steps):
        x = (TARGET - lam + rho * WANTED) / (1 + rho)
        lam += rho * (x - WANTED)
        path["x"].append(x)
        path["lam"].append(lam)
    return path
