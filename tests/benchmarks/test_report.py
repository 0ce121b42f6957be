"""From samples to ratios, and from ratios to the marks in the table."""

from __future__ import annotations

from tests.benchmarks import report
from tests.benchmarks.cases import BY_NAME
from tests.benchmarks.measuring import Measured, Outcome
from tests.benchmarks.samples import Sample, cost, middle, percentile, ratio, tail, value

CASE = BY_NAME["async"]


def measured(who: int, *speeds: float) -> Measured:
    contestants = (CASE.subject, CASE.baseline, *CASE.peers)
    contestant = contestants[who]
    assert contestant is not None
    samples = [Sample(value=speed, p50=1.0, p99=1000 / speed) for speed in speeds]
    return Measured(contestant=contestant, samples=tuple(samples))


def outcome(*peers: Measured) -> Outcome:
    return Outcome(
        case=CASE, subject=measured(0, 90, 100), baseline=measured(1, 180, 250), peers=peers
    )


def test_ratio_is_the_median_of_the_ratios_per_round() -> None:
    mine = [Sample(value=number) for number in (10, 20, 60)]
    theirs = [Sample(value=number) for number in (10, 10, 10)]
    assert ratio(value, mine, theirs) == 2
    assert ratio(cost, mine, theirs) == 0.5


def test_tail_ratio_compares_p99_durations() -> None:
    assert ratio(tail, [Sample(value=1, p99=6)], [Sample(value=1, p99=2)]) == 3


def test_median_sample_omits_unmeasured_values() -> None:
    assert middle([Sample(value=1), Sample(value=3)]) == Sample(value=2)


def test_percentile_returns_a_measured_duration() -> None:
    assert percentile([3, 1, 2], 50) == 2
    assert percentile([3, 1, 2], 99) == 3


def test_row_below_its_bar_is_marked_as_short() -> None:
    rows = list(report.rows(outcome()))
    assert [row.holds for row in rows] == [False, True, None]
    assert "**short**" in report.table([outcome()])


def test_only_the_row_of_the_best_peer_has_a_bar() -> None:
    rows = list(report.rows(outcome(measured(2, 10, 10), measured(3, 50, 50))))
    assert [(row.bar is None, row.holds) for row in rows[2:]] == [(False, False), (True, None)]
    assert "the best peer" in rows[2].cells()[3]


def test_p99_is_compared_with_the_own_median_and_with_the_p99_of_the_best_peer() -> None:
    case = BY_NAME["sync"]
    samples = (Sample(value=10, p50=2.0, p99=6.0),)
    slower = (Sample(value=5, p50=3.0, p99=5.0),)
    mine = Measured(contestant=case.subject, samples=samples)
    peer = Measured(contestant=case.peers[0], samples=slower)
    rows = list(report.rows(Outcome(case=case, subject=mine, baseline=None, peers=(peer,))))
    assert [(row.ratio, row.holds) for row in rows] == [(3, True), (2, False), (1.2, False)]
    assert rows[0].cells()[2:5] == ("6.00 ms", "its own p50", "2.00 ms")
    assert rows[2].cells()[4] == "5.00 ms"


def test_unmeasured_peers_are_listed_as_not_measured() -> None:
    assert report.NOT_MEASURED in list(report.rows(outcome()))[2].cells()


def test_json_report_contains_all_measurements_and_ratios() -> None:
    written = report.as_json([outcome(measured(2, 10, 10))], {"cores": "2"}, {})
    (case,) = written["cases"]
    assert [each["who"] for each in case["measured"]] == [
        "django_mcp on uvicorn",
        "bare on uvicorn",
        "official SDK on uvicorn",
    ]
    assert [each["holds"] for each in case["ratios"]] == [False, True, True]
