"""The rows of the table: what was measured, against what, and the target that it is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

_NAME, _NUMBER, _SPREAD, _TARGET = 52, 13, 17, 11


@dataclass(frozen=True)
class Target:
    """A limit on the ratio, or with of_measured on what was measured itself."""

    limit: float
    at_most: bool = True
    of_measured: bool = False

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:,g}" + ("" if self.of_measured else " x")

    def met(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass
class Row:
    """One line: a value for each round, beside those of what it is measured against.

    The ratio is the median of the rounds' ratios, so that what slows a whole round down does not
    count. sums_up makes one value of the rounds of either side.
    """

    name: str
    measured: Sequence[float]
    against: Sequence[float] = ()
    target: Target | None = None
    sums_up: Callable[[Sequence[float]], float] = median

    @property
    def ratios(self) -> list[float]:
        return [one / other for one, other in zip(self.measured, self.against, strict=False)]

    @property
    def judged(self) -> Sequence[float]:
        """What the target is about."""
        if not self.against or (self.target and self.target.of_measured):
            return self.measured
        return self.ratios

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        sums_up = self.sums_up if self.target.of_measured else median
        return self.target.met(sums_up(self.judged))

    def __str__(self) -> str:
        against = _number(self.sums_up(self.against)) if self.against else "-"
        target = "" if self.target is None else str(self.target)
        ratio = f"{median(self.ratios):.2f}" if self.against else "-"
        spread = f"{_number(min(self.judged))} - {_number(max(self.judged))}"
        # A space before each, so that a number wider than its column stays apart.
        return (
            f"  {self.name:<{_NAME - 1}} {_number(self.sums_up(self.measured)):>{_NUMBER - 1}}"
            f" {against:>{_NUMBER - 1}} {ratio:>{_NUMBER - 1}} {spread:>{_SPREAD - 1}}"
            f" {target:>{_TARGET - 1}}  {_VERDICTS[self.met]}"
        ).rstrip()


_VERDICTS = {True: "met", False: "NOT met", None: ""}


@dataclass
class Section:
    """Rows of one unit; measured and against name the two sides."""

    title: str
    measured: str
    against: str
    rows: list[Row]

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.title:<{_NAME + 2}}{self.measured:>{_NUMBER}}{self.against:>{_NUMBER}}"
            f"{'ratio':>{_NUMBER}}{'min - max':>{_SPREAD}}{'target':>{_TARGET}}"
        )
        yield from map(str, self.rows)


def table(sections: Sequence[Section]) -> str:
    """Return the whole table."""
    return "\n\n".join("\n".join(section.lines()) for section in sections)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}"
