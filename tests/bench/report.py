"""The printed table: sections of rows, each with a target and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

_NAME, _NUMBER, _RANGE, _TARGET = 52, 13, 17, 11
TOO_SHORT = "too short to measure"


@dataclass(frozen=True)
class Target:
    """A limit on the ratio, or with is_absolute on the measured value."""

    limit: float
    at_most: bool = True
    is_absolute: bool = False

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:,g}" + ("" if self.is_absolute else " x")

    def is_met(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass
class Row:
    """The measured values of each round, and the values that they are compared with.

    The ratio is the median of the ratios of the rounds, so that a slow round does not count. A row
    without values was too short to measure.
    """

    name: str
    measured: Sequence[float]
    against: Sequence[float] = ()
    target: Target | None = None

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.measured, self.against, strict=False)
        return [measured / against for measured, against in pairs]

    @property
    def judged(self) -> Sequence[float]:
        """The values that the target applies to, or all measured ones without a comparison."""
        is_ratio = not self.target.is_absolute if self.target else bool(self.against)
        return self.ratios if is_ratio else self.measured

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target or without values."""
        if self.target is None or not self.judged:
            return None
        return self.target.is_met(median(self.judged))

    def __str__(self) -> str:
        if not self.judged:
            return f"  {self.name:<{_NAME - 1}} {TOO_SHORT}"
        against = _number(median(self.against)) if self.against else "-"
        target = "" if self.target is None else str(self.target)
        ratio = f"{median(self.ratios):.2f}" if self.against else "-"
        limits = f"{_number(min(self.judged))} - {_number(max(self.judged))}"
        # The space before each column separates numbers that are wider than it.
        return (
            f"  {self.name:<{_NAME - 1}} {_number(median(self.measured)):>{_NUMBER - 1}}"
            f" {against:>{_NUMBER - 1}} {ratio:>{_NUMBER - 1}} {limits:>{_RANGE - 1}}"
            f" {target:>{_TARGET - 1}}  {_VERDICTS[self.is_met]}"
        ).rstrip()


_VERDICTS = {True: "met", False: "NOT met", None: ""}


@dataclass
class Section:
    """Rows of one unit; measured and against are the titles of the two columns."""

    title: str
    measured: str
    against: str
    rows: list[Row]

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.title:<{_NAME + 2}}{self.measured:>{_NUMBER}}{self.against:>{_NUMBER}}"
            f"{'ratio':>{_NUMBER}}{'min - max':>{_RANGE}}{'target':>{_TARGET}}"
        )
        yield from map(str, self.rows)


def table(sections: Sequence[Section]) -> str:
    """Return the whole table."""
    return "\n\n".join("\n".join(section.lines()) for section in sections)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}"
