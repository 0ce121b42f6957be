"""Input requests in the stateless revision: the result lists them, and the client retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import transaction
from pydantic import BaseModel

from django_mcp import Frame, MissingClientCapability, Server
from django_mcp.core.frame.client import input_requests
from django_mcp.testing import Client, ErrorResponse
from tests.spec import spec

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ALICE = {"action": "accept", "content": {"name": "Alice"}}


class Person(BaseModel):
    name: str


def server_with(*handlers: Any, **options: Any) -> Server:
    server = Server("shop")
    for handler in handlers:
        server.tool(**options)(handler)
    return server


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def call_once(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """The result of one tools/call, without the retries of ``client.call_tool``."""
    answer = await client.send(client.message("tools/call", params))
    assert answer is not None
    if "error" in answer:
        raise ErrorResponse(answer["error"])
    result: dict[str, Any] = answer["result"]
    return result


def greet(frame: Frame) -> str:
    """Greets whoever is there."""
    answer = frame.client.elicit("What is your name?", Person, key="name")
    return f"Hello, {answer.content.name}!" if answer.accepted else f"You said {answer.action}."


async def agreet(frame: Frame) -> str:
    """Greets whoever is there."""
    answer = await frame.client.aelicit("What is your name?", NAME)
    return f"Hello, {answer.content['name']}!" if answer.accepted else f"You said {answer.action}."


class TestInputRequest:
    @pytest.mark.parametrize("handler", [greet, agreet])
    async def test_accepted_elicitation_is_returned_to_the_handler(self, handler: Any) -> None:
        async with Client(server_with(handler), elicitation=ALICE) as client:
            assert (await client.call_tool(handler.__name__)).text == "Hello, Alice!"

    @pytest.mark.parametrize("handler", [greet, agreet])
    @pytest.mark.parametrize("action", ["decline", "cancel"])
    async def test_declined_or_cancelled_elicitation_is_returned_to_the_handler(
        self, handler: Any, action: str
    ) -> None:
        async with Client(server_with(handler), elicitation={"action": action}) as client:
            assert (await client.call_tool(handler.__name__)).text == f"You said {action}."

    async def test_input_request_is_repeated_after_an_invalid_response(self) -> None:
        answers = iter([{"action": "accept", "content": {"name": 5}}, ALICE])
        async with Client(server_with(greet), elicitation=lambda _: next(answers)) as client:
            assert (await client.call_tool("greet")).text == "Hello, Alice!"

    async def test_input_request_is_rejected_without_client_capability(self) -> None:
        async with Client(server_with(greet)) as client:
            with pytest.raises(ErrorResponse) as caught:
                await client.call_tool("greet")
        assert caught.value.code == -32021
        assert caught.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}

    @spec("ROOT-01", "2026/ROO-01")
    async def test_missing_client_capability_can_be_caught_by_the_handler(self) -> None:
        def careful(frame: Frame) -> str:
            try:
                frame.client.list_roots()
            except MissingClientCapability:
                return "No roots, then."
            return "Roots."

        async with Client(server_with(careful)) as client:
            assert (await client.call_tool("careful")).text == "No roots, then."


class TestSeveralInputRequests:
    @spec("2026/MRTR-03")
    async def test_aask_sends_several_input_requests_together(self) -> None:
        async def plan(frame: Frame) -> str:
            found = await frame.client.aask(
                name=input_requests.form("Name?", NAME),
                greeting=input_requests.sample("Greet", max_tokens=10),
            )
            return f"{found['greeting'].text} {found['name'].content['name']}"

        await self.assert_sent_together(plan)

    async def test_concurrent_input_requests_are_sent_together(self) -> None:
        async def plan(frame: Frame) -> str:
            name, greeting = await asyncio.gather(
                frame.client.aelicit("Name?", NAME), frame.client.acreate_message("Greet", 10)
            )
            return f"{greeting.text} {name.content['name']}"

        await self.assert_sent_together(plan)

    async def assert_sent_together(self, plan: Any) -> None:
        sampled = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
        server = server_with(plan)
        async with Client(server, elicitation=ALICE, sampling=sampled) as client:
            first = await call_once(client, {"name": "plan", "arguments": {}})
            assert sorted(item["method"] for item in first["inputRequests"].values()) == [
                "elicitation/create",
                "sampling/createMessage",
            ]
            assert (await client.call_tool("plan")).text == "Hi Alice"

    @spec("2026/MRTR-10")
    async def test_sequential_input_requests_take_one_retry_each(self) -> None:
        runs = 0

        def interview(frame: Frame) -> str:
            nonlocal runs
            runs += 1
            name = frame.client.elicit("Name?", NAME)
            again = frame.client.elicit("And your friend's?", NAME)
            return f"{name.content['name']} and {again.content['name']}"

        names = iter(["Alice", "Bob"])

        def answer(_: Any) -> dict[str, Any]:
            return {"action": "accept", "content": {"name": next(names)}}

        async with Client(server_with(interview), elicitation=answer) as client:
            assert (await client.call_tool("interview")).text == "Alice and Bob"
        assert runs == 3


class TestAssigns:
    async def test_assigns_before_an_input_request_are_restored_on_retry(self) -> None:
        seen: list[Any] = []

        def remember(frame: Frame) -> str:
            seen.append(frame.assigns.get("step"))
            frame = frame.assign(step="asked")
            return str(frame.client.elicit("Name?", NAME).content)

        async with Client(server_with(remember), elicitation=ALICE) as client:
            await client.call_tool("remember")
        assert seen == [None, "asked"]


class TestRequestState:
    async def state_of(self, client: Client, arguments: dict[str, Any]) -> str:
        params = {"name": "greet_one", "arguments": arguments}
        return str((await call_once(client, params))["requestState"])

    def server(self) -> Server:
        def greet_one(greeting: str, frame: Frame) -> str:
            return f"{greeting}, {frame.client.elicit('Name?', NAME).content['name']}"

        return server_with(greet_one)

    @spec("2026/MRTR-05", "2026/MRTR-06")
    @pytest.mark.parametrize(
        "forge", [lambda state: state + "-TAMPERED", lambda _: "x", lambda _: 5]
    )
    async def test_forged_request_state_is_rejected(self, forge: Any) -> None:
        async with Client(self.server(), elicitation=ALICE) as client:
            state = forge(await self.state_of(client, {"greeting": "Hi"}))
            params = {"name": "greet_one", "arguments": {"greeting": "Hi"}, "requestState": state}
            with pytest.raises(ErrorResponse) as caught:
                await call_once(client, params)
        assert caught.value.code == -32602

    async def test_request_state_of_another_call_is_rejected(self) -> None:
        async with Client(self.server(), elicitation=ALICE) as client:
            state = await self.state_of(client, {"greeting": "Hi"})
            params = {"name": "greet_one", "arguments": {"greeting": "Bye"}, "requestState": state}
            with pytest.raises(ErrorResponse):
                await call_once(client, params)

    @spec("2026/MRTR-11")
    @pytest.mark.parametrize("responses", [None, [], {"name": 12345}])
    async def test_malformed_input_responses_are_rejected(self, responses: Any) -> None:
        async with Client(server_with(greet), elicitation=ALICE) as client:
            params = {"name": "greet", "arguments": {}, "inputResponses": responses}
            with pytest.raises(ErrorResponse) as caught:
                await call_once(client, params)
        assert caught.value.code == -32602

    @spec("2026/MRTR-12")
    async def test_unknown_input_responses_are_ignored(self) -> None:
        async with Client(server_with(greet), elicitation=ALICE) as client:
            params = {"name": "greet", "arguments": {}}
            state = (await call_once(client, params))["requestState"]
            responses = {"name": ALICE, "unknown": {"ignored": True}}
            params |= {"inputResponses": responses, "requestState": state}
            assert text(await call_once(client, params)) == "Hello, Alice!"

    async def test_input_is_requested_again_after_responses_without_a_state(self) -> None:
        async with Client(server_with(greet), elicitation=ALICE) as client:
            responses = {"name": ALICE}
            params = {"name": "greet", "arguments": {}, "inputResponses": responses}
            assert [*(await call_once(client, params))["inputRequests"]] == ["name"]


def write(frame: Frame) -> str:
    Group.objects.get_or_create(name="first")
    count = Group.objects.count()
    frame.client.elicit("Name?", NAME)
    return f"{count}"


async def awrite(frame: Frame) -> str:
    await Group.objects.aget_or_create(name="first")
    count = await Group.objects.acount()
    await frame.client.aelicit("Name?", NAME)
    return f"{count}"


def read(frame: Frame) -> str:
    with transaction.atomic():
        count = Group.objects.count()
    return f"{count} {greet(frame)}"


async def aread(frame: Frame) -> str:
    return f"{await Group.objects.acount()} {await agreet(frame)}"


async def write_in_a_group(frame: Frame) -> str:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(awrite(frame))
    return running.result()


def write_in_a_group_in_a_thread(frame: Frame) -> str:
    return async_to_sync(write_in_a_group)(frame)


async def middleware_write(frame: Frame, call_next: Any) -> Any:
    await Group.objects.aget_or_create(name="middleware")
    return await call_next(frame)


@pytest.fixture(params=["threads", "thread_sensitive"])
def execution(request: pytest.FixtureRequest) -> Any:
    """Each way to run synchronous handlers."""
    return request.param


@pytest.mark.django_db(transaction=True)
class TestDeclaredHandler:
    @spec("2026/MRTR-09", "2026/ELI-05")
    @pytest.mark.parametrize(
        "handler", [write, awrite, write_in_a_group, write_in_a_group_in_a_thread]
    )
    async def test_writes_before_an_input_request_are_rolled_back(
        self, handler: Any, execution: Any
    ) -> None:
        server = server_with(handler, requests_input=True)
        async with Client(server, elicitation=ALICE, sync_execution=execution) as client:
            await call_once(client, {"name": handler.__name__, "arguments": {}})
            assert await Group.objects.acount() == 0
            assert (await client.call_tool(handler.__name__)).text == "1"
            assert await Group.objects.acount() == 1

    async def test_writes_are_kept_when_the_handler_raises_another_exception(self) -> None:
        def write(frame: Frame) -> str:
            Group.objects.create(name="first")
            raise ValueError

        server = server_with(write, requests_input=True)
        async with Client(server, roots=[], sync_execution="threads") as client:
            assert (await client.call_tool("write"))["isError"]
        assert await Group.objects.acount() == 1

    async def test_server_hook_of_a_declared_tool_is_rolled_back(self) -> None:
        server = Server("shop")

        @server.hook
        def handle_tool_call(name: str, params: Any, frame: Frame) -> Any:
            return write(frame)

        server.register_tool("write", requests_input=True)
        async with Client(server, elicitation=ALICE, sync_execution="threads") as client:
            await call_once(client, {"name": "write", "arguments": {}})
            assert await Group.objects.acount() == 0
            assert (await client.call_tool("write")).text == "1"


@pytest.mark.django_db(transaction=True)
class TestUndeclaredHandler:
    @pytest.mark.parametrize("handler", [write, awrite])
    async def test_writes_before_an_input_request_are_kept(
        self, handler: Any, execution: Any
    ) -> None:
        server = server_with(handler)
        async with Client(server, elicitation=ALICE, sync_execution=execution) as client:
            await call_once(client, {"name": handler.__name__, "arguments": {}})
        assert await Group.objects.acount() == 1

    @pytest.mark.parametrize("handler", [read, aread])
    async def test_input_request_after_a_read_is_sent(self, handler: Any, execution: Any) -> None:
        server = server_with(handler)
        async with Client(server, elicitation=ALICE, sync_execution=execution) as client:
            assert (await client.call_tool(handler.__name__)).text == "0 Hello, Alice!"

    async def test_input_request_in_a_helper_of_another_module_is_sent(self) -> None:
        module: dict[str, Any] = {"NAME": NAME}
        exec("def name(client): return client.elicit('Name?', NAME).content['name']", module)

        def hidden(frame: Frame) -> str:
            return str(module["name"](frame.client))

        async with Client(server_with(hidden), elicitation=ALICE) as client:
            assert (await client.call_tool("hidden")).text == "Alice"

    async def test_write_of_a_middleware_is_not_the_handlers(self) -> None:
        server = server_with(greet)
        server.middleware = (middleware_write,)
        async with Client(server, elicitation=ALICE, sync_execution="threads") as client:
            assert (await client.call_tool("greet")).text == "Hello, Alice!"

    async def test_write_after_the_last_input_request_is_kept(self) -> None:
        def late(frame: Frame) -> str:
            answer = greet(frame)
            Group.objects.create(name=answer)
            return answer

        server = server_with(late)
        async with Client(server, elicitation=ALICE, sync_execution="threads") as client:
            assert (await client.call_tool("late")).text == "Hello, Alice!"
        assert await Group.objects.acount() == 1

    async def test_server_hook_may_request_input(self) -> None:
        server = Server("shop")

        @server.hook
        def handle_tool_call(name: str, params: Any, frame: Frame) -> Any:
            return greet(frame)

        server.register_tool("greet")
        async with Client(server, elicitation=ALICE) as client:
            assert (await client.call_tool("greet")).text == "Hello, Alice!"


class TestSingleUseRequestState:
    @spec("2026/MRTR-08")
    async def test_reused_single_use_request_state_is_rejected(self, configure: Any) -> None:
        configure(REQUEST_STATE_SINGLE_USE=True)
        async with Client(server_with(greet), elicitation=ALICE) as client:
            params = {"name": "greet", "arguments": {}}
            state = (await call_once(client, params))["requestState"]
            again = {**params, "inputResponses": {"name": ALICE}, "requestState": state}
            assert text(await call_once(client, again)) == "Hello, Alice!"
            with pytest.raises(ErrorResponse) as caught:
                await call_once(client, again)
        assert caught.value.code == -32602

    async def test_request_state_of_a_failed_call_can_be_used_again(self, configure: Any) -> None:
        configure(REQUEST_STATE_SINGLE_USE=True)
        failures = iter([ValueError("The first time it fails"), None])
        server = Server("shop")

        @server.prompt
        def compose(frame: Frame) -> str:
            text = greet(frame)
            if error := next(failures):
                raise error
            return text

        async with Client(server, elicitation=ALICE) as client:
            first = await client.send(client.message("prompts/get", {"name": "compose"}))
            assert first is not None
            state = first["result"]["requestState"]
            params = {"name": "compose", "inputResponses": {"name": ALICE}, "requestState": state}
            answers = [await client.send(client.message("prompts/get", params)) for _ in range(3)]

        codes = [answer and answer.get("error", {}).get("code") for answer in answers]
        assert codes == [-32603, None, -32602]

    async def test_request_state_is_used_by_one_of_two_calls_at_the_same_time(
        self, configure: Any
    ) -> None:
        configure(REQUEST_STATE_SINGLE_USE=True)
        runs = 0
        server = Server("shop")

        @server.tool
        async def slow(frame: Frame) -> str:
            nonlocal runs
            text = await agreet(frame)
            runs += 1
            await asyncio.sleep(0.05)
            return text

        async with Client(server, elicitation=ALICE) as client:
            params: dict[str, Any] = {"name": "slow", "arguments": {}}
            required = await call_once(client, params)
            (key,) = required["inputRequests"]
            state = required["requestState"]
            params |= {"inputResponses": {key: ALICE}, "requestState": state}
            answers = await asyncio.gather(
                *(client.send(client.message("tools/call", params)) for _ in range(2))
            )

        assert runs == 1
        assert sorted("error" in (answer or {}) for answer in answers) == [False, True]
