r"""The trust-region rule: which steps are accepted, and how the radius follows them.

It is the rule of Nocedal and Wright, *Numerical Optimization* (2nd edition, 2006), Algorithm 4.1,
which compares the decrease of the merit function with the decrease that the model predicted. A step
is accepted from `ACCEPTANCE_RATIO` on ($\eta < 1/4$ there), and the radius grows from
`EXPANSION_RATIO` on (3/4 there). Added to it: the radius also shrinks after `MAX_POOR_STEPS`
accepted steps in a row that fell short of `EXPANSION_RATIO`, as they do along a kink.
"""

from dataclasses import dataclass

# Smallest ratio of actual to predicted decrease with which a step is accepted.
ACCEPTANCE_RATIO = 0.05
# Smallest ratio of actual to predicted decrease after which the radius grows.
EXPANSION_RATIO = 0.7
# Factor of the radius after a good step.
EXPANSION_FACTOR = 2.0
# Factor of the radius after a rejected step, and after `MAX_POOR_STEPS` poor ones.
SHRINKING_FACTOR = 0.35
# Accepted steps in a row below `EXPANSION_RATIO` after which the radius shrinks.
MAX_POOR_STEPS = 8
# Largest radius, as a fraction of each input's range: the whole box.
MAX_RADIUS = 1.0
# Radius, as a fraction of each input's range, at which a descent ends.
MIN_RADIUS = 1e-5


@dataclass
class TrustRegion:
    """Radius of a trust region, and the rule that changes it.

    Attributes
    ----------
    radius : float
        Largest change of an input, as a fraction of its range.
    poor_steps : int
        Accepted steps in a row whose decrease fell short of `EXPANSION_RATIO`.

    Examples
    --------
    >>> region = TrustRegion(0.25)
    >>> region.update(decrease=0.9, predicted=1.0), region.radius
    (True, 0.5)
    >>> region.update(decrease=0.0, predicted=1.0), region.radius
    (False, 0.175)
    """

    radius: float
    poor_steps: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the radius has reached `MIN_RADIUS`."""
        return self.radius <= MIN_RADIUS

    def expand(self) -> None:
        """Enlarge the radius, up to `MAX_RADIUS`."""
        self.radius = min(MAX_RADIUS, EXPANSION_FACTOR * self.radius)

    def shrink(self) -> None:
        """Reduce the radius."""
        self.radius = SHRINKING_FACTOR * self.radius
        self.poor_steps = 0

    def update(self, decrease: float, predicted: float) -> bool:
        """Change the radius after a step.

        Parameters
        ----------
        decrease : float
            Decrease of the merit function; ``-inf`` for a step without a point.
        predicted : float
            Decrease that the model predicted, positive.

        Returns
        -------
        bool
            Whether the step is accepted.
        """
        accepted = decrease >= ACCEPTANCE_RATIO * predicted
        if not accepted:
            self.shrink()
        elif decrease >= EXPANSION_RATIO * predicted:
            self.poor_steps = 0
            self.expand()
        else:
            self.poor_steps += 1
            if self.poor_steps == MAX_POOR_STEPS:
                self.shrink()
        return accepted
