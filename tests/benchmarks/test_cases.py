"""The cases are consistent, and each application returns the expected responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.routing import endpoint
from django_mcp.testing.asgi import Application, Exchange, Reply, http_scope, perform
from tests.benchmarks.answers import Answer, MeasurementError, checked
from tests.benchmarks.bare import PUBLISH as BARE_PUBLISH
from tests.benchmarks.bare import answering
from tests.benchmarks.calls import ADD, LISTEN, PROGRESS, PUBLISH, STRUCTURE, TABLE_ROWS, Call
from tests.benchmarks.cases import CASES, Case
from tests.benchmarks.contestants import SERVERS, Contestant
from tests.benchmarks.environments import REQUIREMENTS
from tests.benchmarks.meters import load
from tests.benchmarks.site.tools import register

OURS = {
    case.name: contestant
    for case in CASES
    for contestant in (case.subject,)
    if contestant.name == "django_mcp" and case.meter is load.METER
}


@pytest.fixture
def reader(transactional_db: None) -> Group:
    """The row that a case reads."""
    User.objects.bulk_create(User(username=f"user{number}") for number in range(TABLE_ROWS))
    return Group.objects.create(pk=1, name="readers")


def contestants_of(case: Case) -> tuple[Contestant, ...]:
    beside = () if case.baseline is None else (case.baseline,)
    return (case.subject, *beside, *case.peers)


def application(contestant: Contestant) -> Application:
    server = Server("bench", authenticators=[AnonymousAuthentication()])
    given = contestant.settings
    server.page_size = int(given.get("BENCH_PAGE_SIZE", "50"))
    rows_by, reads = given.get("BENCH_ROWS", "values"), given.get("BENCH_READS", "sync")
    further = int(given.get("BENCH_TOOLS", "0"))
    return endpoint(register(server, further, rows_by=rows_by, reads=reads))


def scope(call: Call, path: str = "/mcp") -> dict[str, Any]:
    return http_scope(path=path, headers=call.all_headers)


def answer_of(reply: Reply) -> Answer:
    events = [part + b"\n\n" for part in reply.body.split(b"\n\n") if part]
    is_stream = reply.media_type == "text/event-stream"
    return Answer(
        status=reply.status,
        headers=tuple(reply.headers.items()),
        parts=tuple(events) if is_stream else (reply.body,),
    )


# The tables.


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_contestant_has_an_environment_and_a_server(case: Case) -> None:
    assert all(each.environment in REQUIREMENTS for each in contestants_of(case))
    assert all(each.command or each.server in SERVERS for each in contestants_of(case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_bar_has_a_baseline_or_a_peer(case: Case) -> None:
    others = {"baseline": case.baseline, "best peer": case.peers, "itself": case.subject}
    assert all(others[bar.beside] for bar in case.bars)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contestants_of_a_case_receive_the_same_request(case: Case) -> None:
    open_response = {(each.call.method, str(each.call.params)) for each in contestants_of(case)}
    assert len(open_response) == 1


# The measured application.


@pytest.mark.parametrize("name", OURS)
async def test_measured_application_returns_the_expected_response(name: str, reader: Group) -> None:
    contestant = OURS[name]
    call = contestant.call
    reply = await perform(application(contestant), scope(call), call.body)
    checked(call, answer_of(reply))


async def test_progress_call_returns_51_messages() -> None:
    reply = await perform(application(OURS["progress"]), scope(PROGRESS), PROGRESS.body)
    assert len(answer_of(reply).messages) == 51


async def test_structure_call_returns_about_200_kilobytes() -> None:
    reply = await perform(application(OURS["structure"]), scope(STRUCTURE), STRUCTURE.body)
    # As structured content and as text.
    assert 195_000 < len(reply.body) < 210_000


async def test_listen_stream_receives_list_changed_notification() -> None:
    served = application(OURS["async"])
    async with Exchange(served, scope(LISTEN), LISTEN.body) as stream:
        acknowledgement = await stream.event()
        reply = await perform(served, scope(PUBLISH), PUBLISH.body)
        changed = await stream.event()
    checked(PUBLISH, answer_of(reply))
    assert acknowledgement is not None
    assert "acknowledged" in acknowledgement.data
    assert changed is not None
    assert "list_changed" in changed.data


# The bare application.


@pytest.mark.parametrize("call", [ADD, PROGRESS], ids=["JSON", "stream"])
async def test_bare_application_replays_a_recorded_response(call: Call) -> None:
    reply = await perform(application(OURS["async"]), scope(call), call.body)
    repeated = await perform(answering(answer_of(reply)), scope(call), call.body)
    assert repeated == reply


async def test_bare_application_accepts_a_chunked_request_body() -> None:
    answer = Answer(status=200, headers=(), parts=(b"{}",))
    pieces = [ADD.body[:10], ADD.body[10:]]
    assert (await perform(answering(answer), scope(ADD), pieces)).body == b"{}"


async def test_bare_application_publishes_to_its_open_streams() -> None:
    answer = Answer(status=200, headers=(), parts=(b"begun",)).with_event(b"changed")
    bare = answering(answer)
    async with Exchange(bare, scope(LISTEN), LISTEN.body) as stream:
        assert await stream.read() == b"begun"
        await perform(bare, scope(PUBLISH, BARE_PUBLISH), PUBLISH.body)
        assert await stream.read() == b"changed"


# Responses.


def test_answer_survives_a_json_round_trip() -> None:
    answer = Answer(status=200, headers=(("a", "b"),), parts=(b"one", b"two")).with_event(b"three")
    assert Answer.from_json(answer.to_json()) == answer


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 500},
        {"parts": (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}',)},
        {"parts": (b'{"id":1,"result":{"isError":true,"content":[{"text":"3"}]}}',)},
        {"parts": (b'{"id":1,"result":{"content":[{"text":"4"}]}}',)},
    ],
    ids=["status", "error", "failed tool", "wrong sum"],
)
def test_unexpected_response_is_rejected(wrong: dict[str, Any]) -> None:
    right = Answer(status=200, headers=(), parts=(b'{"id":1,"result":{"content":[{"text":"3"}]}}',))
    assert checked(ADD, right) is right
    with pytest.raises(MeasurementError):
        checked(ADD, replace(right, **wrong))
