"""What a run did, method by method, as a table."""

from dataclasses import dataclass

from .solution import shown


@dataclass(frozen=True)
class LogEntry:
    """One line of the log: a method, why it was chosen, how it ended, and the best objective and
    bound after it.
    """

    method: str
    status: str
    objective: float | None
    bound: float | None
    seconds: float
    why: str


class Log(list[LogEntry]):
    """What a run did, as a table."""

    def __repr__(self) -> str:
        head = f"{'method':<20}{'status':<18}{'objective':>11}{'bound':>11}{'seconds':>9}"
        lines = [
            f"{t.method:<20}{t.status:<18}{shown(t.objective):>11}{shown(t.bound):>11}{t.seconds:9.2f}\n"
            f"  {t.why}"
            for t in self
        ]
        return "\n".join([head, *lines])
