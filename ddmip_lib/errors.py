"""Exceptions of the library: each one inherits from the builtin that fits and its text names the remedy."""


class ProblemError(ValueError):
    """The optimisation problem cannot be handled as it stands."""


class UnsupportedNetworkError(TypeError):
    """A solver cannot represent this kind of network."""


class ProofError(RuntimeError):
    """A bound and a verified point contradict each other: a mistake in this library."""
