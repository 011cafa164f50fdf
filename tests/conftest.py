"""Property tests try new examples wherever a person runs them, and the same ones in CI; none is
timed.
"""

import os

from hypothesis import HealthCheck, settings

# a busy machine is no failure
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("untimed"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "untimed")
