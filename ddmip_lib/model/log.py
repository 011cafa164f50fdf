"""The log of a run: its methods, one after another, as a table."""

from dataclasses import dataclass

from ..renamed import renamed_fields
from .text import shown


@renamed_fields(why="reason")
@dataclass(frozen=True)
class LogEntry:
    """One method of a run.

    Attributes
    ----------
    method
        Name of the method.
    status
        Status with which it ended.
    objective, bound
        Best objective and checked bound of the whole run after it, None where there is none.
    seconds
        Seconds of the method.
    reason
        Reason for the method, or for its end.
    """

    method: str
    status: str
    objective: float | None
    bound: float | None
    seconds: float
    reason: str

    def __str__(self) -> str:
        row = f"{self.method:<20}{self.status:<18}{shown(self.objective):>11}"
        return f"{row}{shown(self.bound):>11}{self.seconds:9.2f}\n  {self.reason}"


class Log(list[LogEntry]):
    """The methods of a run; printed as a table."""

    def __repr__(self) -> str:
        head = f"{'method':<20}{'status':<18}{'objective':>11}{'bound':>11}{'seconds':>9}"
        return "\n".join([head, *map(str, self)])
