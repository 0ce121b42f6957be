"""tasks/* and tool calls that become tasks, in both forms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import date, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import BaseModel

from django_mcp import Frame, McpError, Server, ToolError
from django_mcp.core.frame.client import input_requests
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import RELATED_TASK, Task
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import execution, store
from django_mcp.tasks.result_streams import Delivery
from django_mcp.tasks.store import TaskStore
from django_mcp.testing import Client, ErrorResponse
from tests import waiting
from tests.constants import SetConstants
from tests.memory_stores import Configure
from tests.spec import spec
from tests.tasks.stored import pass_time
from tests.waiting import SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
SESSION, STATELESS = "2025-11-25", "2026-07-28"
FORMS = (SESSION, STATELESS)
PATIENCE = SECONDS


class Name(BaseModel):
    name: str


def make_server(name: str = "factory", *, release: asyncio.Event | None = None) -> Server:
    """A server whose ``maybe`` and ``name_then_work`` wait for ``release``, if it is given."""
    server = Server(name)

    @server.tool
    async def plain() -> str:
        return "plain"

    @server.tool(task_support="required")
    async def steps(count: int, frame: Frame) -> str:
        for step in range(1, count + 1):
            await frame.client.aprogress(step, count, f"Step {step}")
            await frame.client.alog("info", f"Log {step}")
        return f"{count} steps"

    @server.tool(task_support="required")
    async def endless() -> str:
        await asyncio.sleep(3600)
        return "never"

    @server.tool(task_support="required")
    def endless_loop(frame: Frame) -> str:
        while True:
            frame.cancellation.raise_if_requested()
            time.sleep(0.01)

    @server.tool(task_support="required")
    async def greet(frame: Frame) -> str:
        answer = await frame.client.aelicit("Your name?", Name, key="name")
        return f"Hello, {answer.content.name}!" if answer.accepted else "Hello!"

    @server.tool(task_support="required")
    def greet_both(frame: Frame) -> str:
        answers = frame.client.ask(
            first=input_requests.form("First?", Name), second=input_requests.form("Second?", Name)
        )
        return " and ".join(answers[key].content.name for key in ("first", "second"))

    @server.tool(task_support="required")
    async def error_result() -> str:
        raise ToolError("No such ticket")

    @server.tool(task_support="required")
    async def protocol_error() -> str:
        raise McpError("Out of paper", code=4711, data={"tray": 2})

    @server.tool(task_support="optional", task_after=0.1)
    async def maybe(frame: Frame) -> str:
        await frame.client.aprogress(1, 2, "Half")
        if release is not None:
            await release.wait()
        return "ready"

    @server.tool(task_support="optional", task_after=0.1, requests_input=True)
    async def name_then_work(frame: Frame) -> str:
        answer = await frame.client.aelicit("Your name?", Name, key="name")
        assert release is not None
        await release.wait()
        again = await frame.client.aelicit("And again?", Name, key="name")
        return f"{answer.content.name} {again.content.name}"

    return server


def client_of(server: Server, version: str, **options: Any) -> Client:
    capabilities = {"elicitation": {}, **(EXTENSION if version == STATELESS else {})}
    return Client(server, version=version, capabilities=capabilities, **options)


async def create(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as a task; return the task."""
    wish = {"task": {"ttl": 60_000}} if client.revision.version == SESSION else {}
    created = await client.request("tools/call", {"name": tool, "arguments": arguments, **wish})
    task: dict[str, Any] = created["task"] if wish else created
    return task


async def until(client: Client, task: dict[str, Any], *statuses: str) -> dict[str, Any]:
    """Poll the task until it has one of the statuses."""

    async def poll() -> dict[str, Any] | None:
        state: dict[str, Any] = await client.request("tasks/get", {"taskId": task["taskId"]})
        return state if state["status"] in statuses else None

    return await waiting.until(poll, f"The task is {statuses}", seconds=PATIENCE)


async def call_once(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """Send a call, and return its result even if it requires input."""
    response = await client.send(client.message("tools/call", params))
    assert response is not None
    result: dict[str, Any] = response["result"]
    return result


async def rejected(request: Awaitable[Any]) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        await request
    return caught.value


@pytest.fixture(params=FORMS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@spec("TASK-20", "TASK-21", "TASK-22", "TASK-24", "TASK-A3", "2026/TASK-06")
async def test_task_is_stored_when_it_is_answered(version: str) -> None:
    async with client_of(make_server(), version) as client:
        task = await create(client, "endless")

        row = await McpTask._default_manager.aget(pk=task["taskId"])

    assert (row.tool, row.status, row.server) == ("endless", "working", "factory")
    assert task["status"] == "working"
    assert len(task["taskId"]) >= 43


async def test_arguments_and_result_are_encrypted_in_the_row(version: str) -> None:
    async with client_of(make_server(), version) as client:
        task = await create(client, "steps", count=3)
        await until(client, task, "completed")
        row = await McpTask._default_manager.aget(pk=task["taskId"])

    assert "steps" not in row.call + row.outcome
    assert len(row.outcome) > 50


@spec("TASK-42", "TASK-44")
async def test_result_of_a_task_is_that_of_the_call() -> None:
    server = make_server()
    async with client_of(server, SESSION) as client:
        task = await create(client, "steps", count=2)
        result = await client.request("tasks/result", {"taskId": task["taskId"]})
    async with client_of(server, STATELESS) as client:
        detailed = await until(client, await create(client, "steps", count=2), "completed")

    assert result["content"] == [{"type": "text", "text": "2 steps"}]
    assert result["_meta"][RELATED_TASK] == {"taskId": task["taskId"]}
    assert detailed["result"]["content"] == result["content"]


@spec("TASK-40")
async def test_progress_is_the_status_message(version: str) -> None:
    async with client_of(make_server(), version) as client:
        done = await until(client, await create(client, "steps", count=4), "completed")

    assert done["statusMessage"] == "Step 4"


async def test_progress_that_is_reported_often_is_stored_at_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[float] = []
    real = TaskStore.change

    async def change(self: TaskStore, *args: Any, **options: Any) -> Any:
        changed = await real(self, *args, **options)
        if changed is not None and not changed.after.is_final:
            times.append(time.monotonic())
        return changed

    monkeypatch.setattr(TaskStore, "change", change)
    server = Server("factory")

    @server.tool(task_support="required")
    async def report_often(frame: Frame) -> str:
        for step in count(1):
            await frame.client.aprogress(step)
            await asyncio.sleep(0.01)
            if len(times) >= 4:
                break
        return "done"

    async with client_of(server, STATELESS) as client:
        await until(client, await create(client, "report_often"), "completed")

    assert min(later - earlier for earlier, later in pairwise(times)) > 0.15


@spec("PROG-12", "PROG-13", "TASK-54", "TASK-57", "TASK-62")
async def test_messages_of_a_task_are_sent_on_the_stream_of_its_result() -> None:
    async with client_of(make_server(), SESSION) as client:
        task_id = (await create(client, "steps", count=2))["taskId"]
        await client.request("tasks/result", {"taskId": task_id})

    assert [each["progress"] for each in client.progress] == [1, 2]
    assert [each["data"] for each in client.logs] == ["Log 1", "Log 2"]
    metas = [each["_meta"] for each in client.progress + client.logs]
    assert metas == [{RELATED_TASK: {"taskId": task_id}}] * 4


async def test_log_of_a_task_without_progress_is_sent_on_the_stream_of_its_result() -> None:
    server = make_server()

    @server.tool(task_support="required")
    async def begin(frame: Frame) -> str:
        await frame.client.alog("info", "Begun")
        return "done"

    async with client_of(server, SESSION) as client:
        task = await create(client, "begin")
        await client.request("tasks/result", {"taskId": task["taskId"]})

    assert [each["data"] for each in client.logs] == ["Begun"]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        pytest.param("file \udce4.txt", "file ?.txt", id="surrogate"),
        pytest.param("file \0.txt", "file \ufffd.txt", id="NUL"),
        pytest.param(Path("file.txt"), "file.txt", id="object"),
    ],
)
async def test_progress_message_that_is_no_storable_text_is_stored_as_one(
    version: str, message: Any, status: str
) -> None:
    server = Server("factory")

    @server.tool(task_support="required")
    async def read(frame: Frame) -> str:
        await frame.client.aprogress(1, 2, message)
        return "done"

    async with client_of(server, version) as client:
        done = await until(client, await create(client, "read"), "completed")

    assert done["statusMessage"] == status


async def test_notification_of_a_task_is_stored_as_it_is_sent() -> None:
    server = Server("factory")

    @server.tool(task_support="required")
    async def begin(frame: Frame) -> str:
        await frame.client.anotify("com.example/begun", {"at": date(2026, 5, 1)})
        return "done"

    async with client_of(server, SESSION) as client:
        task = await create(client, "begin")
        await client.request("tasks/result", {"taskId": task["taskId"]})

    begun = client.params_of("com.example/begun")
    assert [each["at"] for each in begun] == ["2026-05-01"]


async def test_input_request_of_a_task_is_stored_as_it_is_sent() -> None:
    server = Server("factory")
    day = {"type": "string", "format": "date", "default": date(2026, 5, 1)}

    @server.tool(task_support="required")
    async def ask(frame: Frame) -> str:
        form = {"type": "object", "properties": {"day": day}}
        answer = await frame.client.aelicit("Which day?", form, key="day")
        return str(answer.content["day"])

    async with client_of(server, STATELESS) as client:
        task = await create(client, "ask")
        asked = (await until(client, task, "input_required"))["inputRequests"]
        accepted = {"action": "accept", "content": {"day": "2026-05-02"}}
        response = {"taskId": task["taskId"], "inputResponses": {"day": accepted}}
        await client.request("tasks/update", response)
        done = await until(client, task, "completed")

    schema = asked["day"]["params"]["requestedSchema"]
    assert schema["properties"]["day"]["default"] == "2026-05-01"
    assert done["result"]["content"][0]["text"] == "2026-05-02"


async def test_result_is_stored_although_the_progress_before_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = asyncio.Queue[float]()

    def refuse(task: Task, message: str | None, progress: float, *_: Any) -> Task:
        attempts.put_nowait(progress)
        raise ValueError("The column does not take it")

    monkeypatch.setattr(tasks, "report", refuse)
    server = Server("factory")

    @server.tool(task_support="required")
    async def work(frame: Frame) -> str:
        for number in (1, 2):
            await frame.client.aprogress(number)
            await attempts.get()  # Later progress is tried as well.
        await frame.client.aprogress(3)
        return "done"

    async with client_of(server, STATELESS) as client:
        done = await until(client, await create(client, "work"), "completed")

    assert done["result"]["content"][0]["text"] == "done"


@spec("2026/TASK-20")
async def test_no_progress_and_no_log_is_sent_for_tasks_of_the_extension() -> None:
    async with client_of(make_server(), STATELESS) as client:
        await until(client, await create(client, "steps", count=2), "completed")

    assert client.notifications == []


@spec("CANC-03", "TASK-80", "TASK-82", "2026/TASK-13")
@pytest.mark.parametrize("tool", ["endless", "endless_loop"])
async def test_cancelled_task_stops_its_handler(version: str, tool: str) -> None:
    threads = {"sync_execution": "threads"} if tool == "endless_loop" else {}
    async with client_of(make_server(), version, **threads) as client:
        task = await create(client, tool)
        cancelled = await client.request("tasks/cancel", {"taskId": task["taskId"]})
        again = await client.request("tasks/get", {"taskId": task["taskId"]})
        if version == SESSION:
            error = await rejected(client.request("tasks/cancel", {"taskId": task["taskId"]}))
            assert (cancelled["status"], error.code) == ("cancelled", -32602)
        else:
            await client.request("tasks/cancel", {"taskId": task["taskId"]})
            assert "taskId" not in cancelled

    assert again["status"] == "cancelled"


@spec("TASK-43", "TASK-93")
async def test_result_of_a_cancelled_task_is_an_error() -> None:
    async with client_of(make_server(), SESSION) as client:
        task = await create(client, "endless")
        waiting = asyncio.create_task(client.request("tasks/result", {"taskId": task["taskId"]}))
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        error = await rejected(waiting)

    assert (error.code, "cancelled" in error.message) == (-32602, True)


@spec("TASK-27", "TASK-28", "2026/TASK-09")
async def test_tool_error_is_a_failed_task_in_a_session_and_completed_in_the_extension() -> None:
    server = make_server()
    async with client_of(server, SESSION) as client:
        task = await create(client, "error_result")
        failed = await until(client, task, "failed")
        result = await client.request("tasks/result", {"taskId": task["taskId"]})
    async with client_of(server, STATELESS) as client:
        completed = await until(client, await create(client, "error_result"), "completed")

    assert failed["statusMessage"] == "No such ticket"
    assert result["isError"] is completed["result"]["isError"] is True


@spec("TASK-27", "TASK-42")
async def test_json_rpc_error_of_a_call_is_the_error_of_its_task() -> None:
    server = make_server()
    async with client_of(server, SESSION) as client:
        task = await create(client, "protocol_error")
        error = await rejected(client.request("tasks/result", {"taskId": task["taskId"]}))
    async with client_of(server, STATELESS) as client:
        failed = await until(client, await create(client, "protocol_error"), "failed")

    assert (error.code, error.message, error.data) == (4711, "Out of paper", {"tray": 2})
    assert failed["error"] == {"code": 4711, "message": "Out of paper", "data": {"tray": 2}}
    assert failed["statusMessage"] == "Out of paper"


@spec("TASK-20")
async def test_invalid_arguments_are_an_error_result_of_the_task(version: str) -> None:
    async with client_of(make_server(), version) as client:
        task = await create(client, "steps", count="many")
        done = await until(client, task, "completed", "failed")

    assert done["status"] == ("failed" if version == SESSION else "completed")


# Input requests.


@spec("2026/TASK-10", "2026/TASK-11")
async def test_input_request_is_answered_with_tasks_update() -> None:
    async with client_of(make_server(), STATELESS) as client:
        task = await create(client, "greet")
        waiting = await until(client, task, "input_required")
        (key,) = waiting["inputRequests"]
        answer = {"action": "accept", "content": {"name": "Ada"}}
        responses = {key: answer, "unknown": answer}
        params = {"taskId": task["taskId"], "inputResponses": responses}
        acknowledgement = await client.request("tasks/update", params)
        done = await until(client, task, "completed")

    assert waiting["inputRequests"][key]["method"] == "elicitation/create"
    assert "taskId" not in acknowledgement
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"


@spec("2026/TASK-12")
async def test_invalid_response_is_requested_again_under_another_key() -> None:
    async with client_of(make_server(), STATELESS) as client:
        task = await create(client, "greet")
        keys: list[str] = []
        for content in ({"surname": "Ada"}, {"name": "Ada"}):
            waiting = await until(client, task, "input_required")
            while not {*waiting["inputRequests"]} - {*keys}:
                waiting = await until(client, task, "input_required")
            (key,) = waiting["inputRequests"]
            keys.append(key)
            responses = {key: {"action": "accept", "content": content}}
            params = {"taskId": task["taskId"], "inputResponses": responses}
            await client.request("tasks/update", params)
        done = await until(client, task, "completed")

    assert keys == ["name", "name-2"]
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"


@spec("2026/TASK-11")
async def test_several_input_requests_of_a_sync_handler_are_answered_one_by_one() -> None:
    options = {"sync_execution": "threads"}
    async with client_of(make_server(), STATELESS, **options) as client:
        task = await create(client, "greet_both")
        waiting = await until(client, task, "input_required")
        answers = {"first": "Ada", "second": "Bob"}
        for key, name in answers.items():
            assert key in waiting["inputRequests"]
            responses = {key: {"action": "accept", "content": {"name": name}}}
            params = {"taskId": task["taskId"], "inputResponses": responses}
            await client.request("tasks/update", params)
            waiting = await client.request("tasks/get", {"taskId": task["taskId"]})
        done = await until(client, task, "completed")

    assert done["result"]["content"][0]["text"] == "Ada and Bob"


@spec("TASK-41", "TASK-50", "TASK-51", "TASK-52")
async def test_input_is_requested_on_the_stream_of_the_result_in_a_session() -> None:
    requested: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        requested.append(params)
        return {"action": "accept", "content": {"name": "Ada"}}

    async with Client(make_server(), version=SESSION, elicitation=answer) as client:
        task = await create(client, "greet")
        waiting = await until(client, task, "input_required")
        assert requested == []
        result = await client.request("tasks/result", {"taskId": task["taskId"]})

    assert "inputRequests" not in waiting
    assert result.text == "Hello, Ada!"
    assert requested[0]["_meta"] == {RELATED_TASK: {"taskId": task["taskId"]}}


@spec("TASK-46")
async def test_input_is_requested_once_for_several_waiting_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = asyncio.Event()
    begun: list[Any] = []
    become_receiver = Delivery._become_receiver

    async def begin(delivery: Delivery, **options: Any) -> Any:
        task = await become_receiver(delivery, **options)
        begun.append(delivery)
        if len(begun) == 3:
            release.set()
        return task

    monkeypatch.setattr(Delivery, "_become_receiver", begin)
    requested: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        requested.append(params)
        return {"action": "accept", "content": {"name": "Ada"}}

    server = make_server()

    @server.tool(task_support="required")
    async def greet_later(frame: Frame) -> str:
        await release.wait()
        name = await frame.client.aelicit("Your name?", Name, key="name")
        return f"Hello, {name.content.name}!"

    async with Client(server, version=SESSION, elicitation=answer) as client:
        task = await create(client, "greet_later")
        params = {"taskId": task["taskId"]}
        waiting = [client.request("tasks/result", params) for _ in range(3)]
        results = await asyncio.gather(*waiting)

    assert len(requested) == 1
    assert {result["content"][0]["text"] for result in results} == {"Hello, Ada!"}


# The server decides.


@spec("2026/TASK-04")
async def test_call_that_ends_early_is_no_task() -> None:
    async with client_of(make_server(), STATELESS) as client:
        result = await client.request("tools/call", {"name": "maybe", "arguments": {}})

    assert result["resultType"] == "complete"
    assert await McpTask._default_manager.acount() == 0


@spec("2026/TASK-04", "2026/TASK-05", "2026/TASK-14")
async def test_call_that_takes_long_is_continued_as_a_task() -> None:
    release = asyncio.Event()
    async with client_of(make_server(release=release), STATELESS) as client:
        task = await client.request("tools/call", {"name": "maybe", "arguments": {}})
        release.set()
        done = await until(client, task, "completed")

    assert task["resultType"] == "task"
    assert done["result"]["content"][0]["text"] == "ready"


@spec("2026/TASK-07")
async def test_input_is_requested_by_round_trips_before_a_call_becomes_a_task() -> None:
    params: dict[str, Any] = {"name": "name_then_work", "arguments": {}}

    def accepted(name: str) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": name}}

    release = asyncio.Event()
    async with client_of(make_server(release=release), STATELESS) as client:
        first = await call_once(client, params)
        responses = {"name": accepted("Ada")}
        state = {"inputResponses": responses, "requestState": first["requestState"]}
        task = await call_once(client, {**params, **state})
        release.set()
        waiting = await until(client, task, "input_required")
        responses = dict.fromkeys(waiting["inputRequests"], accepted("Bob"))
        update = {"taskId": task["taskId"], "inputResponses": responses}
        await client.request("tasks/update", update)
        done = await until(client, task, "completed")

    assert (first["resultType"], task["resultType"]) == ("input_required", "task")
    assert not {"requestState", "inputRequests"} & task.keys()
    assert done["result"]["content"][0]["text"] == "Ada Bob"


async def test_continued_call_can_be_cancelled() -> None:
    async with client_of(make_server(release=asyncio.Event()), STATELESS) as client:
        task = await client.request("tools/call", {"name": "maybe", "arguments": {}})
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        found = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert found["status"] == "cancelled"


@spec("TASK-12")
@pytest.mark.parametrize("version", ["2025-06-18", SESSION])
async def test_call_without_task_is_plain_and_reports_progress(version: str) -> None:
    async with Client(make_server(), version=version) as client:
        result = await client.call_tool("maybe")

    assert result.text == "ready"
    assert [each["progress"] for each in client.progress] == [1]


async def test_required_tool_is_a_plain_call_in_revisions_without_tasks() -> None:
    async with Client(make_server(), version="2025-06-18") as client:
        result = await client.call_tool("steps", {"count": 1})

    assert result.text == "1 steps"


async def test_call_of_the_site_is_never_a_task() -> None:
    result = await make_server().acall_tool("steps", {"count": 1})

    assert result["content"][0]["text"] == "1 steps"


# Negotiation.


@spec("TASK-01", "TASK-02", "2026/TASK-01")
async def test_tasks_are_declared_in_the_form_of_the_revision() -> None:
    server = make_server()
    ada = await User.objects.acreate_user("ada")
    async with Client(server, version=SESSION, user=ada) as client:
        of_session = client.initialize_result["capabilities"]
    async with Client(server, version=STATELESS) as client:
        of_extension = (await client.request("server/discover"))["capabilities"]
    async with Client(server, version="2025-06-18") as client:
        older = client.initialize_result["capabilities"]

    wanted: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert of_session["tasks"] == wanted
    assert "extensions" not in of_session
    assert of_extension["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert "tasks" not in of_extension
    assert not {"tasks", "extensions"} & older.keys()


@spec("TOOL-34")
async def test_task_support_of_tools_is_listed_in_sessions_alone() -> None:
    server = make_server()
    listed = {}
    for version in FORMS:
        async with Client(server, version=version) as client:
            listed[version] = {tool["name"]: tool for tool in await client.list_tools()}

    assert listed[SESSION]["steps"]["execution"] == {"taskSupport": "required"}
    assert "execution" not in listed[SESSION]["plain"]
    assert all("execution" not in tool for tool in listed[STATELESS].values())


@spec("TASK-11", "TASK-13")
async def test_session_call_must_match_the_task_support_of_its_tool() -> None:
    async with Client(make_server(), version=SESSION) as client:
        forbidden = {"name": "plain", "arguments": {}, "task": {}}
        no_task = {"name": "steps", "arguments": {"count": 1}}
        errors = [await rejected(client.request("tools/call", p)) for p in (forbidden, no_task)]
        unknown = await rejected(client.request("tools/call", {**forbidden, "name": "nothing"}))

    assert [error.code for error in errors] == [-32601, -32601]
    assert unknown.code == -32602


@pytest.mark.parametrize("metadata", [1, {"ttl": -1}, {"ttl": "long"}, {"ttl": 1.5}, {"ttl": True}])
async def test_invalid_task_metadata_is_rejected(metadata: Any) -> None:
    async with Client(make_server(), version=SESSION) as client:
        params = {"name": "steps", "arguments": {"count": 1}, "task": metadata}
        error = await rejected(client.request("tools/call", params))

    assert error.code == -32602


@spec("TASK-06", "TASK-10")
async def test_task_parameter_is_ignored_where_tasks_are_not_declared() -> None:
    server = Server("small", capabilities={"tasks": None})

    @server.tool(task_support="required")
    async def work() -> str:
        return "done"

    async with Client(server, version=SESSION) as client:
        params = {"name": "work", "arguments": {}, "task": {"ttl": 1000}}
        result = await client.request("tools/call", params)
        tools = await client.list_tools()
        error = await rejected(client.request("tasks/list"))

    assert result.text == "done"
    assert "execution" not in tools[0]
    assert error.code == -32601


@spec("TASK-03")
async def test_undeclared_task_methods_are_not_found() -> None:
    requests: dict[str, Any] = {"requests": {"tools": {"call": {}}}}
    server = make_server()
    server.capabilities.replace({"tools": {}, "tasks": requests})

    async with Client(server, version=SESSION) as client:
        task = await create(client, "endless")
        params = {"taskId": task["taskId"]}
        listing = await rejected(client.request("tasks/list"))
        cancelling = await rejected(client.request("tasks/cancel", params))
        await client.request("tasks/get", params)

    assert (listing.code, cancelling.code) == (-32601, -32601)


async def test_update_without_responses_is_rejected() -> None:
    async with client_of(make_server(), STATELESS) as client:
        task = await create(client, "greet")
        await until(client, task, "input_required")
        error = await rejected(client.request("tasks/update", {"taskId": task["taskId"]}))
        present = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert (error.code, present["status"]) == (-32602, "input_required")


@spec("2026/TASK-02", "2026/TASK-03", "2026/TASK-16", "2026/TASK-25")
async def test_extension_is_required_before_a_task_is_looked_up() -> None:
    async with Client(make_server(), version=STATELESS, capabilities={}) as client:
        call = {"name": "steps", "arguments": {"count": 1}}
        errors = [await rejected(client.request("tools/call", call))]
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            params = {"taskId": "unknown", "inputResponses": {}}
            errors.append(await rejected(client.request(method, params)))
        plain = await client.call_tool("maybe")

    required = {"requiredCapabilities": EXTENSION}
    assert [(error.code, error.data) for error in errors] == [(-32021, required)] * 4
    assert plain.text == "ready"


@spec("2026/TASK-17")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_sessions_are_not_found_in_the_extension(method: str) -> None:
    async with client_of(make_server(), STATELESS) as client:
        error = await rejected(client.request(method, {"taskId": "x"}))

    assert error.code == -32601


# Owners, lists and limits.


@spec("TASK-55", "TASK-90", "2026/TASK-15")
@pytest.mark.parametrize("task_id", ["unknown", "x" * 5000, 1, None])
async def test_unknown_task_is_rejected(version: str, task_id: Any) -> None:
    params = {"taskId": task_id, "inputResponses": {}}
    own = ("tasks/result",) if version == SESSION else ("tasks/update",)

    async with client_of(make_server(), version) as client:
        methods = ("tasks/get", "tasks/cancel", *own)
        codes = [(await rejected(client.request(m, params))).code for m in methods]

    assert codes == [-32602] * 3


@spec("TASK-A0", "TASK-A1", "TASK-A2", "2026/TASK-21")
async def test_task_of_somebody_else_is_unknown(version: str) -> None:
    ada, bob = [await User.objects.acreate_user(name) for name in ("ada", "bob")]
    server = make_server()
    async with (
        client_of(server, version, user=ada) as hers,
        client_of(server, version, user=bob) as his,
    ):
        task = await create(hers, "endless")
        params = {"taskId": task["taskId"], "inputResponses": {}}
        own = "tasks/result" if version == SESSION else "tasks/update"
        errors = [
            await rejected(his.request(m, params)) for m in ("tasks/get", "tasks/cancel", own)
        ]
        unknown = await rejected(his.request("tasks/get", {"taskId": "unknown"}))
        present = await hers.request("tasks/get", params)
        if version == SESSION:
            assert (await his.request("tasks/list"))["tasks"] == []

    assert {(error.code, error.message) for error in errors} == {(unknown.code, unknown.message)}
    assert present["status"] == "working"


async def test_task_of_an_anonymous_session_is_unknown_in_another_one() -> None:
    server = make_server()
    async with client_of(server, SESSION) as one, client_of(server, SESSION) as other:
        task = await create(one, "endless")
        error = await rejected(other.request("tasks/get", {"taskId": task["taskId"]}))

    assert error.code == -32602


@spec("TASK-A5")
async def test_listing_tasks_is_not_declared_to_anonymous_callers() -> None:
    async with Client(make_server(), version=SESSION) as client:
        declared = client.initialize_result["capabilities"]["tasks"]
        error = await rejected(client.request("tasks/list"))

    assert declared == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert error.code == -32601


async def test_task_is_unknown_on_another_server(version: str) -> None:
    ada = await User.objects.acreate_user("ada")
    other = make_server("other")
    async with (
        client_of(make_server(), version, user=ada) as client,
        client_of(other, version, user=ada) as elsewhere,
    ):
        task = await create(client, "endless")
        params = {"taskId": task["taskId"]}
        error = await rejected(elsewhere.request("tasks/get", params))
        cancelling = await rejected(elsewhere.request("tasks/cancel", params))
        present = await client.request("tasks/get", params)

    assert (error.code, cancelling.code, present["status"]) == (-32602, -32602, "working")


@spec("TASK-70", "TASK-71", "TASK-72", "TASK-91")
async def test_own_tasks_are_listed_in_pages() -> None:
    ada = await User.objects.acreate_user("ada")
    server = make_server()
    server.page_size = 2
    async with client_of(server, SESSION, user=ada) as client:
        created = [await create(client, "endless") for _ in range(5)]
        pages = [await client.request("tasks/list")]
        while "nextCursor" in pages[-1]:
            pages.append(await client.request("tasks/list", {"cursor": pages[-1]["nextCursor"]}))
        error = await rejected(client.request("tasks/list", {"cursor": "forged"}))

    listed = [task["taskId"] for page in pages for task in page["tasks"]]
    assert [len(page["tasks"]) for page in pages] == [2, 2, 1]
    assert listed == [task["taskId"] for task in created]
    assert error.code == -32602


@spec("TASK-A6", "TASK-B0")
async def test_number_of_tasks_of_a_caller_is_limited(
    set_constants: SetConstants, version: str
) -> None:
    set_constants(MAX_TASKS_PER_CALLER=2)
    async with client_of(make_server(), version) as client:
        for _ in range(2):
            await create(client, "endless")
        error = await rejected(create(client, "endless"))

    assert "too many tasks" in error.message


async def test_call_is_not_continued_as_a_task_above_the_limit(
    set_constants: SetConstants, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(MAX_TASKS_PER_CALLER=1)
    release = asyncio.Event()
    reports: list[str] = []

    async def create_once(self: TaskStore, *args: Any, **options: Any) -> Any:
        try:
            return await real(self, *args, **options)
        except StoreFull as error:
            reports.append(str(error))
            release.set()
            raise

    real = TaskStore.create
    monkeypatch.setattr(TaskStore, "create", create_once)
    async with client_of(make_server(release=release), STATELESS) as client:
        await create(client, "endless")
        result = await client.call_tool("maybe")

    assert len(reports) == 1

    assert result["content"][0]["text"] == "ready"


@spec("TASK-32", "TASK-33", "TASK-B0")
@pytest.mark.parametrize(("wish", "ttl"), [(None, 3_600_000), (10, 1000), (10**12, 7_200_000)])
async def test_requested_lifetime_is_bounded(
    set_constants: SetConstants, wish: int | None, ttl: int
) -> None:
    set_constants(MAX_TASK_TTL_MS=7_200_000)
    async with Client(make_server(), version=SESSION) as client:
        params = {"name": "endless", "arguments": {}, "task": {"ttl": wish}}
        created = await client.request("tools/call", params)

    assert created["task"]["ttl"] == ttl


@spec("TASK-34", "2026/TASK-22")
async def test_expired_task_is_unknown(version: str) -> None:
    async with client_of(make_server(), version) as client:
        task = await create(client, "endless")
        past = timezone.now() - timedelta(seconds=1)
        await McpTask._default_manager.filter(pk=task["taskId"]).aupdate(expires_at=past)
        error = await rejected(client.request("tasks/get", {"taskId": task["taskId"]}))

    assert error.code == -32602


async def test_task_whose_lease_ended_has_failed(version: str) -> None:
    async with client_of(make_server(), version) as client:
        task = await create(client, "endless")
        past = timezone.now() - timedelta(seconds=1)
        async with asyncio.timeout(PATIENCE):
            rows = McpTask._default_manager.filter(pk=task["taskId"]).exclude(started_at=None)
            await waiting.until(lambda: rows.aupdate(lease_until=past))
        noted = await client.request("tasks/get", {"taskId": task["taskId"]})
        await pools.run(pass_time, store.LEASE + 1)
        found = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert noted["status"] == "working"
    assert (found["status"], "stopped" in found["statusMessage"]) == ("failed", True)


async def test_task_of_a_deactivated_user_fails(version: str, configure: Configure) -> None:
    configure(TASK_RUNNER={"BACKEND": "tests.tasks.runners.ManualRunner"})
    ada = await User.objects.acreate_user("ada")
    async with client_of(make_server(), version, user=ada) as client:
        task = await create(client, "steps", count=1)
        await User.objects.aupdate(is_active=False)
        await execution.run(task["taskId"])
        found = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert (found["status"], "not active" in found["statusMessage"]) == ("failed", True)


async def test_task_runs_once_however_often_it_is_submitted(configure: Configure) -> None:
    configure(TASK_RUNNER={"BACKEND": "tests.tasks.runners.ManualRunner"})
    runs = []
    server, others_returned = Server("counter"), asyncio.Event()

    @server.tool(task_support="required")
    async def count() -> int:
        runs.append(1)
        await others_returned.wait()
        return len(runs)

    async with client_of(server, STATELESS) as client:
        task = await create(client, "count")
        running = {asyncio.create_task(execution.run(task["taskId"])) for _ in range(5)}
        async with asyncio.timeout(PATIENCE):
            while len(running) > 1:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            others_returned.set()
            await asyncio.wait(running)
        await execution.run(task["taskId"])
        done = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert (len(runs), done["status"]) == (1, "completed")


async def test_process_runs_a_limited_number_of_tasks_at_once(configure: Configure) -> None:
    backend = "django_mcp.tasks.runners.in_process.InProcessRunner"
    configure(TASK_RUNNER={"BACKEND": backend, "OPTIONS": {"concurrency": 4}})
    server, release = Server("factory"), asyncio.Event()
    running: set[int] = set()
    most = 0

    @server.tool(task_support="required")
    async def work(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await release.wait()
        running.remove(number)

    async with client_of(server, STATELESS) as client:
        created = [await create(client, "work", number=number) for number in range(5)]
        started = McpTask._default_manager.exclude(started_at=None)
        async with asyncio.timeout(PATIENCE):
            while await started.acount() < len(created):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        release.set()
        for task in created:
            await until(client, task, "completed")

    # Half of the four: another caller finds a free one.
    assert most == 2


@spec("2026/TASK-24")
async def test_input_request_without_the_capability_fails_the_call() -> None:
    async with Client(make_server(), version=STATELESS, capabilities=EXTENSION) as client:
        failed = await until(client, await create(client, "greet"), "failed")

    assert failed["error"]["code"] == -32021


@spec("TASK-B1")
async def test_creation_and_end_of_a_task_are_in_the_call_log(
    caplog: pytest.LogCaptureFixture, version: str
) -> None:
    caplog.set_level("INFO", logger="django_mcp.calls")
    async with client_of(make_server(), version) as client:
        await until(client, await create(client, "steps", count=1), "completed")

    outcomes = [getattr(record, "mcp_outcome", None) for record in caplog.records]
    assert sorted(filter(None, outcomes)) == ["ok", "task"]


# Notifications.


@spec("TASK-56", "TASK-60")
async def test_status_is_sent_to_the_session_when_it_changes() -> None:
    async with (
        Client(
            make_server(),
            version=SESSION,
            elicitation={"action": "accept", "content": {"name": "Ada"}},
        ) as client,
        client.listen(),
    ):
        task = await create(client, "greet")
        await client.request("tasks/result", {"taskId": task["taskId"]})
        method = "notifications/tasks/status"
        sent = [await client.wait_for(method) for _ in range(3)]

    assert [each["status"] for each in sent] == ["input_required", "working", "completed"]
    assert "_meta" not in sent[0]


@spec("2026/TASK-19")
async def test_listen_stream_receives_the_states_of_a_task() -> None:
    server = make_server()
    async with client_of(server, STATELESS) as client, client_of(server, STATELESS) as other:
        task = await create(client, "greet")
        ids = [task["taskId"], "unknown"]
        await until(client, task, "input_required")
        async with other.listen(tasks=ids):
            await client.request("tasks/cancel", {"taskId": task["taskId"]})
            sent = await other.wait_for("notifications/tasks")
        acknowledged = other.params_of("notifications/subscriptions/acknowledged")[0]

    assert acknowledged["notifications"]["taskIds"] == [task["taskId"]]
    assert (sent["taskId"], sent["status"]) == (task["taskId"], "cancelled")
    assert "io.modelcontextprotocol/subscriptionId" in sent["_meta"]


async def test_listen_stream_receives_the_result_of_a_task() -> None:
    """What the scenario tasks-status-notifications of the official suite demands."""
    release = asyncio.Event()
    async with client_of(make_server(release=release), STATELESS) as client:
        task = await client.request("tools/call", {"name": "maybe", "arguments": {}})
        async with client.listen(tasks=[task["taskId"]]):
            release.set()
            sent = await client.wait_for("notifications/tasks")

    assert (sent["taskId"], sent["status"]) == (task["taskId"], "completed")
    assert sent["result"]["content"] == [{"type": "text", "text": "ready"}]


async def test_listening_for_a_task_that_has_ended_says_so() -> None:
    async with client_of(make_server(), STATELESS) as client:
        task = await create(client, "steps", count=1)
        await until(client, task, "completed")
        async with client.listen(tasks=[task["taskId"]]):
            sent = await client.wait_for("notifications/tasks")

    assert (sent["taskId"], sent["status"]) == (task["taskId"], "completed")


@spec("TASK-55", "TASK-90", "2026/TASK-15", "2026/TASK-19")
async def test_id_that_the_database_refuses_is_an_unknown_task(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TaskStore.load

    async def load(self: TaskStore, task_id: str, owner: str) -> Task | None:
        if "\0" in task_id:
            raise ValueError("A string literal cannot contain NUL")  # As psycopg does.
        return await real(self, task_id, owner)

    monkeypatch.setattr(TaskStore, "load", load)
    last = "result" if version == SESSION else "update"
    task_id = "a\0b" * 8
    params = {"taskId": task_id, "inputResponses": {}}
    async with client_of(make_server(), version, user=User(pk=1)) as client:
        for method in ("get", "cancel", last):
            error = await rejected(client.request(f"tasks/{method}", params))
            assert error.code == -32602
        if version == STATELESS:
            async with client.listen(tasks=[task_id]):
                acknowledged = client.params_of("notifications/subscriptions/acknowledged")[0]
            assert "taskIds" not in acknowledged["notifications"]


@spec("2026/TASK-19")
async def test_task_of_somebody_else_is_left_out_of_a_listen_stream() -> None:
    ada, bob = [await User.objects.acreate_user(name) for name in ("ada", "bob")]
    server = make_server()
    async with (
        client_of(server, STATELESS, user=ada) as hers,
        client_of(server, STATELESS, user=bob) as his,
    ):
        task = await create(hers, "endless")
        async with his.listen(tasks=[task["taskId"]]):
            acknowledged = his.params_of("notifications/subscriptions/acknowledged")[0]

    assert "taskIds" not in acknowledged["notifications"]


@spec("2026/TASK-16")
async def test_listening_for_tasks_requires_the_extension() -> None:
    async with Client(make_server(), version=STATELESS, capabilities={}) as client:
        params = {"notifications": {"taskIds": ["unknown"]}}
        error = await rejected(client.request("subscriptions/listen", params))

    assert error.code == -32021
