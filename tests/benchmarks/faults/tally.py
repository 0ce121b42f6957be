"""What became of requests: how many, which failed in which way, and the longest wait."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

COLUMNS = (
    "fault",
    "requests",
    "failed, by kind",
    "longest wait, s",
    "for an announcement",
    "for a task",
    "broken promises",
)


GONE = "404 (session)"
"""A session which a fault has deleted; it is lost if the fault must not do so."""


@dataclass(slots=True)
class Tally:
    """The counts of one run. ``lost``, ``crossed``, ``hung`` and ``twice`` say what and when."""

    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    """When the fault was over and every server answered again."""
    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    after: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    """The tasks and approved calls whose handler began more than once, for whatever reason."""

    def note(
        self,
        kind: str,
        began: float,
        failure: str | None,
        expected: float = 0.0,
        since: float | None = None,
    ) -> None:
        """Count one request, which took ``expected`` seconds by itself.

        Its wait counts from when it began, or ``since`` its stream was resumed.
        """
        waited = time.monotonic() - (began if since is None else since) - expected
        self.requests[kind] += 1
        self.longest[kind] = max(self.longest[kind], waited)
        if failure is None:
            return
        self.failures[kind, failure] += 1
        # Whoever asks for the first time after a fault learns then that the session is gone.
        is_news = failure == GONE
        if self.ended is not None and began > self.ended and not is_news:
            self.after.append(self.at(f"{kind}: {failure} after {waited:.1f} s"))

    def note_lost(self, what: str) -> None:
        self.lost.append(self.at(what))

    def note_crossed(self, what: str) -> None:
        self.crossed.append(self.at(what))

    def note_hung(self, what: str) -> None:
        self.hung.append(self.at(what))

    def note_twice(self, what: str) -> None:
        self.twice.append(self.at(what))

    def at(self, what: str) -> str:
        """With the time of the run."""
        since = "" if self.ended is None else f", {time.monotonic() - self.ended:.1f} s after"
        return f"{time.monotonic() - self.began:.1f} s{since}: {what}"

    def problems(self) -> list[str]:
        """What must not be, whatever the fault."""
        names = {"after": "failed after the fault", "lost": "lost", "crossed": "crossed"}
        names |= {"hung": "hung", "twice": "started twice"}
        return [f"{word}: {each}" for name, word in names.items() for each in getattr(self, name)]

    def longest_but(self, *kinds: str) -> float:
        """The longest wait of the other kinds."""
        return max((each for kind, each in self.longest.items() if kind not in kinds), default=0.0)

    def by_failure(self) -> str:
        """The failures as a line."""
        counts: Counter[str] = Counter()
        for (_, failure), count in self.failures.items():
            counts[failure] += count
        return ", ".join(f"{failure}: {count}" for failure, count in counts.most_common())

    def details(self) -> str:
        """What failed by the kind of request, and everything that must not happen."""
        lines = [
            f"  {kind}: {count} requests, longest wait {self.longest[kind]:.1f} s"
            for kind, count in sorted(self.requests.items())
        ]
        lines += [
            f"  {kind}: {failure}: {count}" for (kind, failure), count in self.failures.items()
        ]
        for name in ("after", "lost", "crossed", "hung", "twice"):
            found: list[str] = getattr(self, name)
            lines += [f"  {name} {len(found)}:", *(f"    {each}" for each in found[:12])]
        return "\n".join(lines)


ANNOUNCED = ("announcement", "announcement to a listen stream")
"""Kinds whose wait ends when the client has heard of a change."""
LOOKS = "look at a task"
"""The request for a task, or for the status of an approval, which waits for its run."""
WORK = ("task", "approved task", "approved call", LOOKS)
"""Kinds whose wait ends when a queue worker has done the work, and their client has learned it."""
QUERY = "call with a query"
"""Of a site that has set no time limit: it waits for a database that hangs."""


def row(fault: str, tally: Tally) -> list[str]:
    """The cells of a fault."""
    reached = max(tally.longest[kind] for kind in ANNOUNCED)
    worked = max(tally.longest[kind] for kind in WORK)
    others = [*ANNOUNCED, *WORK]
    if fault.startswith("PostgreSQL hangs"):
        others.append(QUERY)
    return [
        fault,
        f"{sum(tally.requests.values()):,}",
        f"{sum(tally.failures.values()):,} ({tally.by_failure() or 'none'})",
        f"{tally.longest_but(*others):.1f}",
        f"{reached:.1f}",
        f"{worked:.1f}",
        str(len(tally.problems())),
    ]


def table(rows: Iterable[list[str]]) -> str:
    """Rows in Markdown."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
