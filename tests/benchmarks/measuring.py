"""Measure one case: start all contestants, then measure them alternately in rounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.cases import Case
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.samples import Effort, Sample, middle

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A contestant and its samples, one for each round."""

    contestant: Contestant
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The measurements of a case."""

    case: Case
    subject: Measured
    baseline: Measured | None
    peers: tuple[Measured, ...]
    before: Measured | None = None
    """The subject as it was in another checkout."""

    @property
    def best_peer(self) -> Measured | None:
        """The fastest measured peer."""
        return max(self.peers, key=lambda peer: middle(peer.samples).value, default=None)


def measure(
    case: Case, effort: Effort, *, with_peers: bool, before: Path | None = None, log: Log
) -> Outcome:
    """Measure all contestants of a case; raises MeasurementError if one fails.

    ``before`` is another checkout, in which the subject is measured as well.
    """
    others = [case.baseline] if case.baseline is not None else []
    if before is not None:
        others.append(replace(case.subject, name="before", checkout=before))
    peers = case.peers if with_peers else ()
    with ExitStack() as running:
        subject = running.enter_context(case.meter.ready(case.subject, effort))
        ready = [(case.subject, subject)]
        for contestant in (*others, *peers):
            known = contestant.repeating(subject.answer)
            ready.append((known, running.enter_context(case.meter.ready(known, effort))))
        samples_by_round: list[list[Sample]] = []
        for number in range(1, effort.samples + 1):
            log(f"{case.name}: round {number} of {effort.samples}")
            samples_by_round.append([each.sample() for _, each in ready])
    measured = [
        Measured(contestant=contestant, samples=samples)
        for (contestant, _), samples in zip(ready, zip(*samples_by_round, strict=True), strict=True)
    ]
    first, *rest = measured
    baseline = rest.pop(0) if case.baseline is not None else None
    earlier = rest.pop(0) if before is not None else None
    return Outcome(case=case, subject=first, baseline=baseline, peers=tuple(rest), before=earlier)
