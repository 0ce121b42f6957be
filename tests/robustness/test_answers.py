"""Answers that never come, or come wrong."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.db import connections
from django.test import AsyncClient

from django_mcp import Frame, Server, ToolError, registry, routing, signals
from django_mcp.components.tool import ToolComponent
from django_mcp.frame.client.multi_round_trip import InputRequired
from tests.databases import scratch_database
from tests.memory_stores import Configure
from tests.processes import ROOT
from tests.robustness.peer import (
    ACCEPT,
    FORM,
    META,
    NEWEST_SESSION,
    STATELESS,
    Peer,
    encoded,
    outcome,
    text_of,
)
from tests.robustness.processes import call, environment, migrate, request, stdio, worker
from tests.spec import spec
from tests.waiting import happens

ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}


# Row 1. A handler that requests input in a task group.


async def test_input_request_in_a_task_group_is_sent_over_http() -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def confirm(frame: Frame) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(frame.client.aelicit("Sure?", FORM))
        return "done"

    response = await Peer(server, capabilities=ELICITS).tool("confirm")

    assert response.raised is None
    assert response.result["resultType"] == "input_required"


async def test_input_request_in_a_task_group_is_sent_over_stdio() -> None:
    async with stdio() as server:
        answer = await server.ask(
            1,
            "tools/call",
            {"name": "confirm_in_a_group", "arguments": {}},
            version=STATELESS,
            **ELICITS,
        )

    assert answer["result"]["resultType"] == "input_required"


NAMES = ("first", "second", "third")


async def request_three(frame: Frame) -> list[str]:
    """Request three inputs at once, one of them in a group within the group."""

    async def request_in_a_group() -> str:
        async with asyncio.TaskGroup() as group:
            only = group.create_task(frame.client.aelicit("third", FORM, key="third"))
        return only.result().action

    async with asyncio.TaskGroup() as group:
        started = [group.create_task(frame.client.aelicit(n, FORM, key=n)) for n in NAMES[:2]]
        last = group.create_task(request_in_a_group())
    return [*(task.result().action for task in started), last.result()]


def request_three_in_a_thread(frame: Frame) -> list[str]:
    return async_to_sync(request_three)(frame)


@pytest.mark.parametrize("handler", [request_three, request_three_in_a_thread])
@pytest.mark.parametrize("declared", [True, False])
async def test_input_requests_of_a_task_group_are_sent_in_one_round(
    handler: Any, declared: bool
) -> None:
    server = Server("shop")
    server.register_tool("confirm", handler, requests_input=declared)
    peer = Peer(server, capabilities=ELICITS)

    first = (await peer.tool("confirm")).result
    accepted = {"action": "accept", "content": {"sure": True}}
    given = dict.fromkeys(first["inputRequests"], accepted)
    second = await peer.tool("confirm", inputResponses=given, requestState=first["requestState"])

    assert sorted(first["inputRequests"]) == sorted(NAMES)
    assert second.result["structuredContent"] == ["accept"] * 3


async def test_tool_error_in_a_task_group_is_answered_as_such() -> None:
    server = Server("shop")

    @server.tool
    async def sell() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(10))
            group.create_task(refuse())
        return "done"

    async def refuse() -> None:
        raise ToolError("Nothing is left")

    assert text_of((await Peer(server).tool("sell")).result) == "Nothing is left"


async def test_task_group_with_several_errors_is_a_failed_handler() -> None:
    server = Server("shop")

    @server.tool
    async def sell(frame: Frame) -> str:
        raise BaseExceptionGroup("both", [ToolError("no"), InputRequired({}, {}), ValueError()])

    assert "unexpectedly" in text_of((await Peer(server).tool("sell")).result)


async def test_input_request_passes_a_middleware_with_a_task_group() -> None:
    async def middleware(frame: Frame, call_next: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call_next(frame))
        return calling.result()

    server = Server("shop", middleware=[middleware])

    @server.tool(requests_input=True)
    async def confirm(frame: Frame) -> str:
        return (await frame.client.aelicit("Sure?", FORM)).action

    response = await Peer(server, capabilities=ELICITS).tool("confirm")

    assert response.result["resultType"] == "input_required"


# Row 2. A handler that awaits a task which somebody else cancelled.


@spec("answers-02")
async def test_handler_that_awaits_a_cancelled_task_fails_over_http() -> None:
    server = Server("shop")

    @server.tool
    async def await_cancelled_task() -> str:
        task = asyncio.ensure_future(asyncio.sleep(10))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return "never"

    response = await Peer(server).tool("await_cancelled_task")

    assert response.raised is None
    assert response.result["isError"] is True


async def test_handler_that_awaits_a_cancelled_task_fails_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "await_cancelled_task"})

    assert answer["result"]["isError"] is True


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_middleware_that_ends_with_no_exception_is_answered(error: Any) -> None:
    async def middleware(frame: Frame, call_next: Any) -> Any:
        raise error

    response = await Peer(Server("shop", middleware=[middleware])).tool("add")

    assert response.raised is None
    assert response.error["code"] == -32603


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_frame_processor_that_ends_with_no_exception_is_answered(
    error: Any, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def process(frame: Frame) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(sys.modules[__name__], "process", process, raising=False)
    configure(FRAME_PROCESSORS=[f"{__name__}.process"])

    response = await Peer(shop()).tool("add")

    assert response.raised is None
    assert response.error["code"] == -32603


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_sync_handler_that_ends_with_no_exception_fails(error: Any) -> None:
    server = Server("shop")

    @server.tool
    def leave() -> str:
        raise error

    assert (await Peer(server).tool("leave")).result["isError"] is True


# Row 3. A start hook, and a first client that leaves.


@spec("answers-03")
async def test_first_client_that_leaves_during_start_cancels_no_other_request() -> None:
    server = Server("shop")
    began, go_on = asyncio.Event(), asyncio.Event()

    @server.hook
    async def start() -> None:
        began.set()
        await go_on.wait()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    peer = Peer(server)
    first = peer.open(peer.call("add", {"a": 1, "b": 1}))
    async with first, peer.open(peer.call("add", {"a": 1, "b": 2})) as second:
        await began.wait()
        await asyncio.sleep(0.15)  # By now the connection of the first is looked after.
        first.disconnect()
        first.task.cancel()  # As servers do it.
        await asyncio.wait([first.task])
        go_on.set()
        response = await second.whole()

    assert response.raised is None
    assert text_of(response.result) == "3"


# Row 4. A stream whose call died with its worker.


@pytest.fixture
async def database(tmp_path: Path) -> dict[str, Any]:
    """A migrated database in a file, as DATABASES describes it."""
    found = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "site.sqlite3"),
        "OPTIONS": {"timeout": 5},
    }
    await migrate(found)
    return found


@pytest.mark.nightly
@spec("answers-04")
async def test_resumed_stream_of_a_dead_worker_ends_with_an_error(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    quick: dict[str, Any] = {"SSE_PING_INTERVAL": 0.2}
    async with worker(database=database, **quick) as dying:
        session = await dying.initialize()
        waiting = call(7, "wait", {"seconds": 60})
        async with dying.stream(waiting, session) as stream:
            await stream.message()
            last = stream.last_id
            assert last is not None
            await dying.kill()
    async with (
        worker(database=database, **quick) as other,
        other.stream(None, session, method="GET", **{"last-event-id": last}) as resumed,
    ):
        assert resumed.status == 200
        answer = await resumed.message(8)

    assert answer is not None
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32603


# Row 5. An answer which reaches another worker than the one that waits.


@pytest.mark.nightly
@spec("answers-05")
async def test_answer_reaches_the_call_on_another_worker_without_a_channel_layer(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with (
        worker(database=database) as first,
        worker(database=database) as other,
    ):
        session = await first.initialize(elicitation={})
        async with first.stream(call(7, "confirm"), session) as stream:
            sent = await stream.message()
            assert sent is not None
            assert sent["method"] == "elicitation/create"
            answer = {"jsonrpc": "2.0", "id": sent["id"], "result": {"action": "decline"}}
            response = await other.post(answer, session)
            while (done := await stream.message()) is not None and "id" not in done:
                pass

    assert response.status == 202
    assert done is not None
    assert done["id"] == 7
    assert "isError" not in done["result"]


# Row 6. Handlers that end the process, or hold it up.


async def test_system_exit_in_an_async_handler_is_a_failed_handler_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "exit_in_async"})
        pong = await server.ask(2, "ping")

    assert answer["result"]["isError"] is True
    assert pong["result"] == {}


@spec("answers-01")
async def test_system_exit_in_an_async_handler_is_a_failed_handler_over_http(
    tmp_path: Path,
) -> None:
    async with worker() as site:
        session = await site.initialize()
        answer = await outcome(site.post(call(1, "exit_in_async"), session))
        assert not isinstance(answer, BaseException), f"The worker has ended: {answer!r}"
        pong = await site.post(request(2, "ping"), session)

    assert answer.result["isError"] is True
    assert pong.result == {}


@spec("answers-07")
async def test_child_process_cannot_read_the_messages_of_the_client() -> None:
    pings = range(100, 120)
    async with stdio() as server:
        await server.initialize()
        server.write(call(1, "child_reads_stdin"))
        await server.until(method="notifications/message")
        for number in pings:
            server.write(request(number, "ping"))
            await asyncio.sleep(0.05)
        found = await server.until(id=1)
        last = await outcome(server.ask(200, "ping"))

    assert text_of(found["result"]) == "b''"
    assert not isinstance(last, BaseException)
    assert {message.get("id") for message in server.seen} >= {*pings}


@spec("answers-09")
@pytest.mark.parametrize("how", ["end of input", signal.SIGTERM, signal.SIGINT])
async def test_stdio_process_ends_while_a_sync_handler_runs(how: Any) -> None:
    async with stdio() as server:
        await server.initialize()
        server.write(call(1, "block", {"seconds": 8}))
        await server.until(method="notifications/message")
        if how == "end of input":
            server.close()
        else:
            server.process.send_signal(how)
        ended = await outcome(server.ended(4))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


async def test_stdio_process_ends_while_a_handler_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROBUSTNESS_EXIT_WITHIN", "1")
    async with stdio(SHUTDOWN_TIMEOUT=0.1) as server:
        await server.initialize()
        server.write(call(1, "go_on", {"seconds": 20}))
        await server.until(method="notifications/message")
        server.close()
        ended = await outcome(server.ended(4))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


async def test_stdio_process_ends_when_the_client_closed_its_output() -> None:
    async with stdio() as server:
        await server.initialize()
        assert server.process.stdout is not None
        server.process.stdout._transport.close()  # type: ignore[attr-defined]
        for number in range(3):
            server.write(request(number, "ping"))
            await asyncio.sleep(0.1)
        ended = await outcome(server.ended(4))

    assert not isinstance(ended, TimeoutError), "The process serves nobody"


async def test_handler_finds_an_empty_standard_input_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "read_input"})
        pong = await server.ask(2, "ping")

    assert text_of(answer["result"]) == "EOFError"
    assert pong["result"] == {}


@pytest.mark.nightly
@pytest.mark.parametrize("tool", ["block", "wait"])
async def test_http_worker_ends_while_a_handler_runs(tmp_path: Path, tool: str) -> None:
    async with worker(SHUTDOWN_TIMEOUT=1) as site:
        session = await site.initialize()
        async with site.stream(call(1, tool, {"seconds": 8}), session) as stream:
            await stream.message()
            site.stop()
            ended = await outcome(site.ended(4))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize("tool", ["block", "wait"])
async def test_running_call_is_cancelled_when_the_lifespan_ends(
    version: str, tool: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_servers", {})
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    configure(SHUTDOWN_TIMEOUT=0.05)
    server, go_on = Server("shop"), threading.Event()
    ended: list[str | None] = []

    @server.tool
    async def wait(frame: Frame) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(frame.cancellation.reason)
        return "done"

    @server.tool
    def block(frame: Frame) -> str:
        frame.cancellation.on_request(lambda: ended.append(frame.cancellation.reason))
        go_on.wait(10)
        return "done"

    peer = Peer(server, version)
    if version != STATELESS:
        await peer.initialize()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "lifespan.startup"})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("Only HTTP is served here, as by Django")

    mounted = routing.mount(pages)
    living = asyncio.ensure_future(mounted({"type": "lifespan"}, messages.get, send))
    async with peer.open(peer.call(tool)) as call:
        await asyncio.sleep(0.1)
        messages.put_nowait({"type": "lifespan.shutdown"})
        response = await call.whole()
    go_on.set()
    await living

    assert response.error["message"] == "Cancelled"
    assert ended == ["The server is stopping"]
    assert sent[-1] == {"type": "lifespan.shutdown.complete"}


@pytest.mark.nightly
async def test_short_call_is_answered_when_the_http_worker_stops(tmp_path: Path) -> None:
    async with worker(SHUTDOWN_TIMEOUT=3) as site:
        session = await site.initialize()
        async with site.stream(call(1, "wait", {"seconds": 0.5}), session) as stream:
            await stream.message()
            site.stop()
            answer = await stream.message()

    assert answer is not None
    assert text_of(answer["result"]) == "done"


@pytest.mark.nightly
@spec("answers-08")
def test_client_that_does_not_read_holds_up_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "mcp_stdio"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (
            call(1, "large", {"size": 300_000}, version=STATELESS),
            call(2, "touch", {"path": str(made)}, version=STATELESS),
        ):
            process.stdin.write(encoded(message) + b"\n")
            process.stdin.flush()
            process.stdout.peek(1)  # type: ignore[attr-defined]
        was_made = asyncio.run(happens(made.exists, 3))
    finally:
        process.kill()
        process.communicate()

    assert was_made, "Nothing is answered while the client does not read"


# Row 7. Cached descriptors.


@spec("isolation-10")
async def test_edit_of_a_listed_tool_by_middleware_reaches_no_other_caller() -> None:
    async def append_user(frame: Frame, call_next: Any) -> Any:
        result, after = await call_next(frame)
        for tool in result.get("tools", ()):
            tool["description"] += " [for one user]"
            tool["inputSchema"]["properties"]["hidden"] = {}
        return result, after

    server = Server("shop", middleware=[append_user])

    @server.tool
    async def add(a: int) -> int:
        """Adds."""
        return a

    peer = Peer(server)
    listed = [(await peer.send(peer.request("tools/list"))).result["tools"][0] for _ in range(2)]

    assert listed[0] == listed[1]


async def test_edit_of_a_listed_tool_by_a_caller_in_process_reaches_no_client() -> None:
    server = Server("shop")

    @server.tool
    async def add(a: int) -> int:
        """Adds."""
        return a

    peer = Peer(server, NEWEST_SESSION)
    await peer.initialize()
    before = (await peer.send(peer.request("tools/list"))).result["tools"]
    for tool in await server.alist_tools():
        tool["description"] = "changed"
        tool["inputSchema"]["properties"]["hidden"] = {}
    after = (await peer.send(peer.request("tools/list"))).result["tools"]

    assert after == before


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_edit_of_server_information_reaches_no_other_caller(version: str) -> None:
    async def append_user(frame: Frame, call_next: Any) -> Any:
        result, after = await call_next(frame)
        if "capabilities" in result:
            result.get("serverInfo", {})["name"] = "changed"
            result["capabilities"]["experimental"]["com.example"]["user"] = 1
        return result, after

    experimental: dict[str, Any] = {"experimental": {"com.example": {}}}
    server = Server("shop", middleware=[append_user], capabilities=experimental)
    peer = Peer(server, version)
    method = "server/discover" if version == STATELESS else "initialize"
    await (peer.send(peer.request(method)) if version == STATELESS else peer.initialize())

    assert experimental == {"experimental": {"com.example": {}}}
    assert {info["name"] for info in server._info_by_version.values()} == {"shop"}


async def test_descriptor_that_is_made_while_its_tool_is_replaced_is_not_kept() -> None:
    server = Server("shop")
    replaced: list[str] = []

    @server.tool(description="the former")
    async def add(a: int) -> int:
        return a

    async def later(a: int) -> int:
        return a

    described = ToolComponent.descriptor

    def descriptor(component: Any) -> Any:
        """Describe the former tool, while another thread replaces it."""
        found = described(component)
        if component.description == "the former" and not replaced:
            replaced.append("yes")
            options = {"description": "the later"}
            thread = threading.Thread(
                target=server.register_tool, args=("add", later), kwargs=options
            )
            thread.start()
            thread.join()
        return found

    peer = Peer(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToolComponent, "descriptor", descriptor)
        await peer.send(peer.request("tools/list"))
    listed = (await peer.send(peer.request("tools/list"))).result["tools"]

    assert listed[0]["description"] == "the later"


# Row 8. Two databases.


@pytest.fixture
def two_databases(tmp_path: Path, django_db_blocker: Any) -> Any:
    """The aliases of two databases, of which the first has a constraint that fails at commit."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        django_db_blocker.unblock(),
        scratch_database("sqlite3", tmp_path / "a") as first,
        scratch_database("sqlite3", tmp_path / "b") as second,
    ):
        for alias in (first, second):
            with connections[alias].cursor() as cursor:
                cursor.execute("CREATE TABLE parent (id integer PRIMARY KEY)")
                cursor.execute(
                    "CREATE TABLE child (parent integer REFERENCES parent (id)"
                    " DEFERRABLE INITIALLY DEFERRED)"
                )
        yield first, second


@spec("answers-11")
async def test_failed_commit_of_one_database_leaves_the_other_usable(
    two_databases: tuple[str, str], configure: Configure
) -> None:
    failing, other = two_databases
    configure(SYNC_THREAD_POOL_SIZE=1)
    server = Server("shop")

    def insert(alias: str, table: str, value: int) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES ({value})")

    @server.tool(requests_input=True)
    def write_both(frame: Frame, ask: bool = False) -> str:
        if ask:
            frame.client.elicit("Sure?", FORM)
        insert(other, "parent", 1)
        insert(failing, "child", 99)
        return "written"

    @server.tool(requests_input=True)
    def write_other(frame: Frame, ask: bool = False) -> str:
        if ask:
            frame.client.elicit("Sure?", FORM)
        insert(other, "parent", 2)
        return "written"

    def committed() -> list[int]:
        with connections[other].cursor() as cursor:
            cursor.execute("SELECT id FROM parent ORDER BY id")
            return [row[0] for row in cursor.fetchall()]

    peer = Peer(server, capabilities=ELICITS)
    first = await peer.tool("write_both")
    assert "error" in first.answer or first.result["isError"]
    second = await peer.tool("write_other")

    assert not second.result.get("isError"), "The thread is broken"
    assert await database_sync_to_async(committed)() == [1, 2]


# Row 9. HTTP and logs.


async def peer_of(server: Server, version: str = NEWEST_SESSION, **facts: Any) -> Peer:
    peer = Peer(server, version, **facts)
    await peer.initialize()
    return peer


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0, b: int = 0) -> int:
        return a + b

    @server.tool
    async def count(frame: Frame) -> str:
        for number in range(1000):
            await frame.client.alog("error", f"{number}")
            await asyncio.sleep(0.01)
        return "done"

    return server


async def test_response_204_has_no_content_length() -> None:
    peer = await peer_of(shop())

    response = await peer.send(method="DELETE")

    assert response.status == 204
    assert response.header("content-length") is None


async def test_accept_header_in_two_lines_is_one_list() -> None:
    peer = Peer(shop())
    lines = [("accept", "text/event-stream"), ("accept", "application/json")]

    for accepts in (lines, lines[::-1]):
        response = await peer.send(peer.call("add"), without=["accept"], extra=accepts)
        assert response.status == 200


@spec("isolation-20")
async def test_repr_of_the_transport_shows_no_secret() -> None:
    server = Server("shop")

    @server.tool
    async def describe(frame: Frame) -> str:
        return repr(frame.transport)

    secrets = [("authorization", "Bearer token-1"), ("cookie", "sessionid=cookie-2")]
    shown = text_of((await Peer(server, headers=secrets).tool("describe")).result)

    assert "token-1" not in shown
    assert "cookie-2" not in shown


def test_repr_of_the_stdio_transport_shows_no_environment() -> None:
    from django_mcp.frame import StdioTransport

    shown = repr(StdioTransport(env={"DATABASE_PASSWORD": "secret-3"}, os_pid=1))

    assert "secret-3" not in shown


async def test_upload_that_breaks_off_raises_nothing() -> None:
    peer = Peer(shop())
    message = peer.call("add")
    exchange = peer.open(message)
    exchange._incoming.get_nowait()
    exchange.feed(b'{"jsonrpc"', more=True)
    exchange.disconnect()

    async with exchange:
        response = await exchange.whole()

    assert response.raised is None


async def test_upload_that_breaks_off_leaves_no_traceback_in_the_log(tmp_path: Path) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {ACCEPT}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    async with worker() as site:
        _, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()
        await happens(lambda: "Traceback" in site.log, 1)

        assert "Traceback" not in site.log


async def test_server_that_raises_at_send_leaves_no_traceback() -> None:
    peer = Peer(shop())
    sent: list[Any] = []
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    message = peer.call("count", _meta={META + "logLevel": "debug"})
    incoming.put_nowait({"type": "http.request", "body": encoded(message), "more_body": False})

    async def send(piece: Any) -> None:
        """What ASGI says of a client that has gone: send raises OSError."""
        sent.append(piece)
        if len(sent) > 2:
            incoming.put_nowait({"type": "http.disconnect"})
            raise OSError("The client has gone")

    async with asyncio.timeout(5):
        raised = await outcome(peer.application(peer.scope("POST", message), incoming.get, send))

    assert raised is None, f"The application raised {raised!r}"


@pytest.mark.parametrize("fails_after", [1, 2])
async def test_server_that_raises_at_send_in_a_session_leaves_no_traceback(
    fails_after: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await peer_of(shop(), "2025-06-18")
    body = encoded(peer.call("count"))
    sent: list[Any] = []
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def send(piece: Any) -> None:
        sent.append(piece)
        if len(sent) > fails_after:
            raise OSError("The client has gone")

    async with asyncio.timeout(5):
        raised = await outcome(peer.application(peer.scope(), incoming.get, send))
    await peer.send(method="DELETE")
    gc.collect()

    assert raised is None, f"The application raised {raised!r}"
    assert "Traceback" not in caplog.text


async def test_client_that_leaves_before_it_sends_its_body_gets_no_response() -> None:
    peer = Peer(shop())
    exchange = peer.open(peer.call("add"))
    exchange._incoming.get_nowait()
    exchange.disconnect()

    async with exchange:
        response = await exchange.whole()

    assert (response.raised, response.status) == (None, None)


async def test_newline_in_a_notification_forges_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("shop")

    @server.hook
    def handle_notification(method: str, params: Any, frame: Frame) -> Any:
        raise LookupError

    peer = await peer_of(server)
    await peer.notify("x\nERROR django_mcp: the database is away \x1b[31m" + "y" * 180)

    (line,) = [line for line in caplog.messages if "handle_notification failed" in line]
    assert not re.search(r"[\n\x1b]", line)
    assert len(line) < 200


@spec("isolation-21")
async def test_newline_in_a_tool_name_forges_no_line_of_the_call_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "django_mcp.calls")
    peer = Peer(shop(), NEWEST_SESSION)
    await peer.initialize()

    await peer.tool("x\nINFO django_mcp.calls: tools/call transfer: ok \x1b[31m")

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("calls")]
    assert lines
    assert not re.search(r"[\n\x1b]", "".join(lines))


async def test_long_tool_name_is_cut_in_the_call_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "django_mcp.calls")
    peer = Peer(shop(), NEWEST_SESSION)
    await peer.initialize()

    await peer.tool("x" * 300_000)

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("calls")]
    assert max(map(len, lines), default=0) < 1000


# Row 10. Admin, checks, lifespan, documentation.


@pytest.fixture
def sessions_in_database(configure: Configure) -> None:
    configure(STORES={})


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sessions_in_database", "thread_sensitive")
async def test_session_ended_in_the_admin_ends_its_streams_and_sends_the_signal(
    configure: Configure,
) -> None:
    from django.contrib.auth import get_user_model

    from django_mcp.models import McpSession

    configure(STORES={})
    server = shop()
    received: list[Any] = []

    @server.tool
    async def wait(frame: Frame) -> str:
        frame.client.log("error", "started")
        await asyncio.sleep(60)
        return "done"

    def ended(sender: Any, **facts: Any) -> None:
        received.append(facts)

    user = await database_sync_to_async(get_user_model().objects.create_superuser)("boss")
    browser = AsyncClient()
    await browser.aforce_login(user)
    peer = await peer_of(server)
    signals.session_ended.connect(ended)
    try:
        async with peer.open(method="GET") as stream, peer.open(peer.call("wait")) as running:
            assert await stream.status() == 200
            await running.message()
            keys = [str(key) async for key in McpSession.objects.values_list("pk", flat=True)]
            page = "/admin/django_mcp/mcpsession/"
            form = {"action": "delete_selected", "_selected_action": keys, "post": "yes"}
            assert (await browser.post(page, form)).status_code == 302
            assert (await peer.tool("add")).status == 404
            has_ended = await happens(lambda: stream.is_complete, 2)
            is_cancelled = await happens(lambda: running.is_complete, 2)
    finally:
        signals.session_ended.disconnect(ended)

    assert has_ended, "The stream is still open"
    assert is_cancelled, "The call is still running"
    assert len(received) == 1


def test_check_command_does_not_open_servers() -> None:
    """In a process of its own, since checks may have run in this one."""
    code = """
import django
django.setup()
from django.core.management import call_command
from django_mcp import registry, tool
from django_mcp.stores import memory
from django_mcp import Server
appended = []
async def append(self, *args, **kwargs):
    appended.append(args)
    return 1
memory.MemoryEventStore.append = append
call_command("check")
@tool
def later() -> str:
    "Is registered later."
    return ""
import time; time.sleep(0.3)
print("announced" if appended else "silent")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=10,
    )

    assert done.stdout.strip().splitlines()[-1:] == ["silent"], done.stderr


async def test_lifespan_messages_reach_the_wrapped_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_servers", {})
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    seen: list[str] = []

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        while True:
            message = await receive()
            seen.append(message["type"])
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    incoming: asyncio.Queue[Any] = asyncio.Queue()
    sent: list[str] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    incoming.put_nowait({"type": "lifespan.startup"})
    incoming.put_nowait({"type": "lifespan.shutdown"})
    async with asyncio.timeout(5):
        await routing.mount(wrapped)({"type": "lifespan"}, incoming.get, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert seen == ["lifespan.startup", "lifespan.shutdown"]


def test_documented_transport_example_has_every_method_of_its_interface() -> None:
    from django_mcp.transports.connection.connection import MessageSink

    document = (ROOT / "docs" / "writing" / "transport.md").read_text()
    example = document.partition("class McpConsumer")[2].partition("```")[0]
    needed = [name for name in vars(MessageSink) if not name.startswith("_")]

    missing = [name for name in needed if not re.search(rf"\b(def )?{name}\b *[(:=]", example)]
    assert missing == []


# Row 11. Sessions, and values which nothing was prepared for.


async def test_request_state_means_nothing_in_a_session(configure: Configure) -> None:
    configure(REQUEST_STATE_SINGLE_USE=True)
    peer = await peer_of(shop())

    for state in (5, "text", "text"):
        response = await peer.tool("add", requestState=state)
        assert text_of(response.result) == "0"


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
async def test_request_state_means_nothing_to_a_method_that_never_asks(method: str) -> None:
    peer = Peer(shop())

    response = await peer.send(peer.request(method, {"requestState": "text"}))

    assert "result" in response.answer


async def test_progress_with_an_enormous_total_fails_no_handler() -> None:
    server = Server("shop")

    @server.tool
    async def count(frame: Frame) -> str:
        frame.client.progress(1, total=10**400)
        frame.client.progress(10**400)
        return "done"

    response = await Peer(server).tool("count", _meta={"progressToken": "p"})

    assert text_of(response.result) == "done"


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_capability_that_is_no_object_is_rejected_or_ignored(version: str) -> None:
    server = Server("shop")

    @server.tool(requests_input=True)
    async def ask(frame: Frame) -> str:
        answer = await frame.client.aelicit("Sure?", FORM)
        return str(answer.action)

    peer = Peer(server, version, capabilities={**ELICITS, "sampling": 5})
    if version == STATELESS:
        answer = (await peer.tool("ask")).answer
        works = "input_required" in str(answer)
    else:
        answer = (await peer.initialize(ready=False)).answer
        works = "result" in answer
        if works:
            await peer.notify("notifications/initialized")
            async with peer.open(peer.call("ask")) as exchange:
                answer = await exchange.message()
                works = answer.get("method") == "elicitation/create"

    assert works or answer.get("error", {}).get("code") == -32602, answer


async def test_unexpected_error_of_the_old_transport_is_json(configure: Configure) -> None:
    class Broken:
        async def authenticate(self, scope: Any, /) -> Any:
            raise RuntimeError("The database is away")

    configure(HTTP_SSE=True)
    server = Server("shop", authenticators=[Broken()])
    path, application = next(
        item for item in routing.endpoints(server).items() if item[0].endswith("/sse")
    )
    peer = Peer(server, "2024-11-05", application=application, path=path)

    response = await peer.send(method="GET")

    assert response.raised is None
    assert response.status == 500
    assert response.header("content-type") == "application/json"


async def test_early_cancellations_of_one_session_push_out_none_of_another() -> None:
    server = Server("shop")
    began: list[int] = []

    @server.tool
    async def work() -> str:
        began.append(1)
        return "done"

    one, other = await peer_of(server), await peer_of(server)
    await one.notify("notifications/cancelled", requestId=77)
    for number in range(1001):
        await other.notify("notifications/cancelled", requestId=number)
    async with one.open(one.call("work", id=77)) as exchange:
        await outcome(exchange.whole(2))

    assert began == [], "The cancelled request ran"
