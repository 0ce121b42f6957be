"""What tasks of a process hold: what was accepted waits, and a question holds nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from django_mcp import Frame, Server
from django_mcp.models import McpTask
from django_mcp.runtime import pools, request_scope
from django_mcp.testing import Client
from tests.memory_stores import Configure, configure
from tests.waiting import until

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

SESSION, STATELESS = "2025-11-25", "2026-07-28"
CAPABILITIES: dict[str, Any] = {
    "elicitation": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANSWER = {"action": "accept", "content": {"name": "Ada"}}
THREADS = 2
TIMEOUT = 30.0


@pytest.fixture(autouse=True)
def _two_threads(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configure(SYNC_THREAD_POOL_SIZE=THREADS)
    monkeypatch.setattr(pools, "START_TIMEOUT", 0.5)
    yield
    pools.shutdown()


class Shop:
    """A server with tasks that wait until the test tells them to end."""

    def __init__(self) -> None:
        self.server = Server("shop")
        self.may_end = threading.Event()
        self.running = 0
        tools: list[Any] = [self.work, self.work_async, self.query_and_wait]
        for function in (*tools, self.ask, self.ask_async):
            self.server.tool(task_support="required")(function)
        self.server.tool(task_support="optional", task_after=0.1)(self.call)
        self.server.tool(task_support="optional", task_after=0.1)(self.call_and_ask)

    def work(self) -> str:
        self.running += 1
        self.may_end.wait(TIMEOUT)
        return "done"

    async def work_async(self) -> str:
        self.running += 1
        while not self.may_end.is_set():
            await asyncio.sleep(0.01)
        return "done"

    async def query_and_wait(self) -> str:
        await User.objects.acount()
        return await self.work_async()

    def ask(self, frame: Frame) -> str:
        return str(frame.client.elicit("Your name?", FORM).content)

    async def ask_async(self, frame: Frame) -> str:
        return str((await frame.client.aelicit("Your name?", FORM)).content)

    def call(self) -> str:
        return self.work()

    def call_and_ask(self, frame: Frame) -> str:
        # Its call has become a task by then.
        while frame.client.is_multi_round_trip:
            threading.Event().wait(0.01)
        return self.ask(frame)

    def client(self, version: str = STATELESS, **options: Any) -> Client:
        return Client(
            self.server,
            version=version,
            capabilities=CAPABILITIES,
            sync_execution="threads",
            **options,
        )


async def create(client: Client, name: str) -> str:
    """Call a tool; return the id of its task."""
    task: dict[str, Any] = {"task": {}} if client.revision.version == SESSION else {}
    created = await client.request("tools/call", {"name": name, "arguments": {}, **task})
    return str(created["task"]["taskId"] if task else created["taskId"])


async def all_have(status: str, *tasks: str) -> None:
    rows = McpTask._default_manager.filter(pk__in=tasks, status=status)

    async def is_so() -> bool:
        return await rows.acount() == len(tasks)

    await until(is_so, f"the tasks are {status}")


@pytest.mark.parametrize("tool", ["ask", "ask_async", "call_and_ask"])
async def test_next_task_runs_while_questions_have_no_answer(tool: str) -> None:
    shop = Shop()
    other = "call" if tool == "call_and_ask" else "work"
    shop.may_end.set()
    async with shop.client() as client:
        asking = []
        for _ in range(3 * THREADS):
            # One after the other has its turn, and asks.
            asking.append(await create(client, tool))
            await all_have("input_required", *asking)
        message = client.message("tools/call", {"name": other, "arguments": {}})
        response = await client.send(message)
        assert response is not None
        if "taskId" in response["result"]:
            await all_have("completed", response["result"]["taskId"])
        else:
            assert response["result"]["content"][0]["text"] == "done"
        for task in asking:
            keys = (await client.request("tasks/get", {"taskId": task}))["inputRequests"]
            answers = {"taskId": task, "inputResponses": dict.fromkeys(keys, ANSWER)}
            await client.request("tasks/update", answers)
        await all_have("completed", *asking)


@pytest.mark.parametrize("tool", ["work", "work_async", "query_and_wait", "call"])
async def test_accepted_tasks_of_one_caller_wait_until_all_are_done(tool: str) -> None:
    shop = Shop()
    ada = await User.objects.acreate_user("ada")
    async with shop.client(user=ada) as client:
        tasks = [await create(client, tool) for _ in range(8)]
        await until(lambda: shop.running)
        await asyncio.sleep(4 * pools.START_TIMEOUT)
        shop.may_end.set()
        await all_have("completed", *tasks)


async def test_task_of_another_caller_runs_beside_those_of_the_first() -> None:
    shop = Shop()
    ada, bob = [await User.objects.acreate_user(name) for name in ("ada", "bob")]
    async with shop.client(user=ada) as hers, shop.client(user=bob) as his:
        tasks = [await create(hers, "work") for _ in range(4)]
        await until(lambda: shop.running)
        tasks.append(await create(his, "work"))
        await until(lambda: shop.running == 2)
        assert await McpTask._default_manager.filter(status="working").acount() == 5
        shop.may_end.set()
        await all_have("completed", *tasks)


@pytest.mark.parametrize("tool", ["work", "work_async", "query_and_wait", "call"])
async def test_authentication_and_stores_answer_while_tasks_run(tool: str) -> None:
    shop = Shop()
    users = [await User.objects.acreate_user(f"user{number}") for number in range(4)]
    tasks = []
    for user in users:
        async with shop.client(user=user) as client:
            tasks += [await create(client, tool) for _ in range(2)]
    await until(lambda: shop.running >= THREADS)
    try:
        async with asyncio.timeout(TIMEOUT):
            look_ups = [request_scope.run(User.objects.acount) for _ in range(2 * THREADS)]
            assert await asyncio.gather(*look_ups) == [4] * len(look_ups)
            await asyncio.gather(*(pools.run_in_store_pool(int) for _ in range(2 * THREADS)))
    finally:
        shop.may_end.set()
    await all_have("completed", *tasks)


async def test_authentication_answers_while_queries_of_handlers_hold_their_threads() -> None:
    shop = Shop()

    async def handle() -> None:
        await request_scope.run_async(query())

    async def query() -> None:
        await User.objects.acount()
        await shop.work_async()

    calls = [asyncio.create_task(request_scope.run(handle)) for _ in range(2 * THREADS)]
    await until(lambda: shop.running >= THREADS)
    try:
        assert await request_scope.run(User.objects.acount) == 0
    finally:
        shop.may_end.set()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_cancelled_tasks_hold_their_slots_until_their_threads_end() -> None:
    shop = Shop()
    async with shop.client() as client:
        tasks = []
        for _ in range(3 * THREADS):
            tasks.append(await create(client, "work"))
            await client.request("tasks/cancel", {"taskId": tasks[-1]})
        await all_have("cancelled", *tasks)
        await asyncio.sleep(0.1)
        assert shop.running <= THREADS
        shop.may_end.set()


async def test_task_that_was_asked_goes_on_on_the_thread_where_it_waited() -> None:
    shop = Shop()
    idents: list[int] = []

    @shop.server.tool(task_support="required")
    def ask_and_work(frame: Frame) -> str:
        idents.append(threading.get_ident())
        frame.client.elicit("Your name?", FORM)
        idents.append(threading.get_ident())
        return "done"

    async with shop.client(SESSION, elicitation=ANSWER) as client:
        task = await create(client, "ask_and_work")
        await client.request("tasks/result", {"taskId": task})
    assert idents[0] == idents[1]


async def test_queries_of_a_task_use_no_thread_of_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    purposes: list[str] = []
    real = pools.for_queries

    def for_queries(purpose: str) -> Any:
        purposes.append(purpose)
        return real(purpose)

    monkeypatch.setattr(pools, "for_queries", for_queries)

    @sync_to_async
    def count() -> int:
        return User.objects.count()

    async def before_and_in_handler() -> None:
        await count()
        await request_scope.run_async(count())

    await request_scope.run(before_and_in_handler)
    assert purposes == [pools.REQUESTS, pools.QUERIES_OF_HANDLERS]
