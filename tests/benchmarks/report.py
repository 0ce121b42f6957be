"""The report as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks.cases import Bar
from tests.benchmarks.measuring import Measured, Outcome
from tests.benchmarks.samples import cost, middle, ratio, spread, tail, value

HEADINGS = ("case", "", "django_mcp", "beside", "", "ratio", "by processor", "bar", "")
NUMERIC = (2, 4, 5, 6)
NOT_MEASURED = "–"
NO_BAR: Sequence[Bar | None] = (None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The subject beside one other contestant, and the limit of the ratio."""

    outcome: Outcome
    other: Measured | None
    bar: Bar | None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        if self.other is None:
            return None
        of = self.bar.of if self.bar is not None else value
        return ratio(of, self.outcome.subject.samples, self.other.samples)

    @property
    def by_processor(self) -> float | None:
        """The ratio of CPU times, where they were measured.

        It is more reliable on a busy machine.
        """
        mine, theirs = self._processor(self.outcome.subject), self._processor(self.other)
        if mine is None or theirs is None or self._is_tail:
            return None
        return mine / theirs if self.bar is not None and self.bar.of is cost else theirs / mine

    @property
    def holds(self) -> bool | None:
        """Whether the limit is met; None without a limit or a contestant to compare with."""
        if self.bar is None or self.ratio is None:
            return None
        return self.bar.holds(self.ratio)

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        case = self.outcome.case
        return (
            case.name,
            f"{case.title}, p99" if self._is_tail else case.title,
            self._text(self.outcome.subject),
            self._beside(),
            self._text_of_other(),
            NOT_MEASURED if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.by_processor is None else f"{self.by_processor:.2f}",
            str(self.bar or ""),
            {True: "ok", False: "**short**", None: ""}[self.holds],
        )

    def _processor(self, measured: Measured | None) -> float | None:
        return None if measured is None else middle(measured.samples).processor

    @property
    def _is_tail(self) -> bool:
        return self.bar is not None and self.bar.of in (tail, spread)

    def _beside(self) -> str:
        if self.other is None:
            return "peers, not measured"
        if self.bar is not None and self.bar.beside == "itself":
            return "its own p50"
        best = self.bar is not None and self.bar.beside == "best peer"
        return f"{self.other.contestant.label}{', the best peer' if best else ''}"

    def _text_of_other(self) -> str:
        if self.bar is not None and self.bar.beside == "itself":
            return f"{middle(self.outcome.subject.samples).p50:.2f} ms"
        return self._text(self.other)

    def _text(self, measured: Measured | None) -> str:
        if measured is None:
            return NOT_MEASURED
        found, unit = middle(measured.samples), self.outcome.case.meter.unit
        if self._is_tail:
            return f"{found.p99:.2f} ms"
        times = (
            "" if found.p50 is None or unit == "ms" else f", {found.p50:.2f} / {found.p99:.2f} ms"
        )
        processor = "" if found.processor is None else f", {found.processor:,.0f} µs"
        return f"{_number(found.value)} {unit}{times}{processor}"


def rows(outcome: Outcome) -> Iterator[Row]:
    """The lines of a case: one for each limit, and one for each peer that is not the best."""
    bars = outcome.case.bars
    of_baseline, of_itself, of_peer = (
        [bar for bar in bars if bar.beside == beside]
        for beside in ("baseline", "itself", "best peer")
    )
    if outcome.baseline is not None:
        for bar in of_baseline or NO_BAR:
            yield Row(outcome=outcome, other=outcome.baseline, bar=bar)
    for bar in of_itself:
        yield Row(outcome=outcome, other=outcome.subject, bar=bar)
    if outcome.before is not None:
        yield Row(outcome=outcome, other=outcome.before, bar=None)
    for bar in of_peer:
        yield Row(outcome=outcome, other=outcome.best_peer, bar=bar)
    for peer in outcome.peers:
        if peer is not outcome.best_peer or not of_peer:
            yield Row(outcome=outcome, other=peer, bar=None)


def table(outcomes: Sequence[Outcome]) -> str:
    """A table in Markdown.

    After a speed: p50, p99 and the CPU time of one request.
    """
    lines = [HEADINGS, *(row.cells() for outcome in outcomes for row in rows(outcome))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    written = [_line(line, widths) for line in lines]
    rule = [
        "-" * (width - 1) + ":" if column in NUMERIC else "-" * width
        for column, width in enumerate(widths)
    ]
    return "\n".join([written[0], f"| {' | '.join(rule)} |", *written[1:]])


def as_json(
    outcomes: Sequence[Outcome], machine: dict[str, str], versions: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """All measurements."""
    return {
        "machine": machine,
        "versions": versions,
        "cases": [_case(outcome) for outcome in outcomes],
    }


def _case(outcome: Outcome) -> dict[str, Any]:
    measured = (outcome.subject, *filter(None, (outcome.baseline,)), *outcome.peers)
    return {
        "name": outcome.case.name,
        "title": outcome.case.title,
        "unit": outcome.case.meter.unit,
        "measured": [
            {
                "who": each.contestant.label,
                "median": asdict(middle(each.samples)),
                "rounds": [asdict(sample) for sample in each.samples],
            }
            for each in measured
        ],
        "ratios": [
            {
                "beside": row.other and row.other.contestant.label,
                "of": (row.bar.of if row.bar else value).__name__,
                "ratio": row.ratio,
                "by_processor": row.by_processor,
                "bar": row.bar and str(row.bar),
                "holds": row.holds,
            }
            for row in rows(outcome)
        ],
    }


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    placed = [
        cell.rjust(width) if column in NUMERIC else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(placed)} |"


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"
