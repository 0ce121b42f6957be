"""Extensions: what each part of one adds, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from django.apps import AppConfig
from django.core.checks import Warning as CheckWarning
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from pydantic import BaseModel

from django_mcp import Frame, McpError, Server, Tool, ToolError, registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.tool import tool_component
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.server.components import Expected
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.extensions import (
    CallPlan,
    Extension,
    Kind,
    ListenFilter,
    Method,
    Option,
    Serve,
    Step,
    Stream,
    installed,
    list_components,
    of_apps,
)
from django_mcp.runtime import background, housekeeping, lifespan
from django_mcp.tasks import execution
from django_mcp.testing import Client, ErrorResponse

NAME = "com.example/receipts"
RATE = Option(name="rate", meta=lambda value: {"com.example/rate": value}, label="Rate")


class Sent(BaseModel):
    to: str
    copies: int = 1


async def refuse_many(frame: Frame, plan: CallPlan, arguments: dict[str, Any]) -> Any:
    if arguments.get("copies", 0) > plan.component.options["rate"]:
        raise ToolError("Too many copies")


def with_signature(
    frame: Frame, component: Component, value: Any, result: dict[str, Any]
) -> dict[str, Any]:
    return {**result, "_meta": {"com.example/signed": True}}


RECEIPTS = Extension(
    name=NAME,
    settings=lambda server, revision: {"version": 1} if server.name == "shop" else None,
    options=[RATE],
    methods=[
        Method(
            name="receipts/send",
            params=Sent,
            call=lambda params, frame: {"sent": params.to * params.copies},
        ),
        Method(name="receipts/declared", call=lambda frame: {"ok": True}, needs_declaration=True),
    ],
    notifications=["notifications/receipts/sent"],
    before_arguments=[Step(refuse_many)],
    after_result=[Step(with_signature)],
)


@pytest.fixture
def shop() -> Iterator[Server]:
    with installed(RECEIPTS):
        server = Server("shop")

        @server.tool
        class PrintReceipt(Tool):
            rate = 2

            def execute(self, copies: int) -> int:
                return copies

        @server.tool
        async def plain(copies: int) -> int:
            return copies

        yield server


@pytest.mark.parametrize("version", BY_VERSION)
async def test_method_of_extension_is_called_with_its_parameters(
    shop: Server, version: str
) -> None:
    async with Client(shop, version=version) as client:
        result = await client.request("receipts/send", {"to": "Ann", "copies": 2})
    assert result["sent"] == "AnnAnn"


async def test_invalid_parameters_are_named(shop: Server) -> None:
    async with Client(shop) as client:
        with pytest.raises(ErrorResponse, match="Invalid params.*copies"):
            await client.request("receipts/send", {"to": "Ann", "copies": "many"})


async def test_parameter_may_be_a_long_text(shop: Server) -> None:
    name = "Ann" * 20_000
    async with Client(shop) as client:
        assert (await client.request("receipts/send", {"to": name}))["sent"] == name
        with pytest.raises(ErrorResponse, match="Invalid params.*copies"):
            await client.request("receipts/send", {"to": name, "copies": "many"})


async def test_method_is_not_found_on_a_server_without_the_extension(shop: Server) -> None:
    async with Client(Server("other")) as client:
        with pytest.raises(ErrorResponse, match="Method not found"):
            await client.request("receipts/send", {"to": "Ann"})


async def test_method_needs_the_declaration_of_the_client(shop: Server) -> None:
    async with Client(shop) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.request("receipts/declared", {})
    assert caught.value.data["requiredCapabilities"] == {"extensions": {NAME: {}}}
    declared: dict[str, Any] = {"extensions": {NAME: {}}}
    async with Client(shop, capabilities=declared) as client:
        assert (await client.request("receipts/declared", {}))["ok"]


@pytest.mark.parametrize("revisions", [("2025-11-25",), ("2026-07-28",)])
async def test_method_of_other_revisions_is_not_found(revisions: Sequence[str]) -> None:
    method = Method(name="receipts/count", call=lambda frame: {"n": 3}, revisions=revisions)
    extension = Extension(name=NAME, settings=lambda *_: {}, methods=[method])
    with installed(extension):
        for version in ("2025-11-25", "2026-07-28"):
            async with Client(Server("shop"), version=version) as client:
                if version in revisions:
                    assert (await client.request("receipts/count", {}))["n"] == 3
                else:
                    with pytest.raises(ErrorResponse, match="Method not found"):
                        await client.request("receipts/count", {})


async def test_answer_about_other_parameters_of_a_method_is_not_accepted() -> None:
    sent: list[str] = []

    def send(params: Sent, frame: Frame) -> dict[str, Any]:
        question = f"Send a receipt to {params.to}?"
        if frame.client.elicit(question, {"type": "object", "properties": {}}, key="send").accepted:
            sent.append(params.to)
        return {}

    method = Method(name="receipts/send", params=Sent, call=send, requests_input=True)
    extension = Extension(name=NAME, settings=lambda *_: {}, methods=[method])
    with installed(extension):
        async with Client(Server("shop"), elicitation={"action": "accept"}) as client:
            first = await client.send(client.message("receipts/send", {"to": "Ann"}))
            assert first is not None
            confirmed = {
                "requestState": first["result"]["requestState"],
                "inputResponses": {"send": {"action": "accept", "content": {}}},
            }
            other = await client.send(client.message("receipts/send", {"to": "Bob", **confirmed}))
            await client.send(client.message("receipts/send", {"to": "Ann", **confirmed}))

    assert other is not None
    assert other["error"]["code"] == -32602
    assert sent == ["Ann"]


async def test_settings_are_declared_per_server(shop: Server) -> None:
    assert shop.get_capabilities()["extensions"] == {NAME: {"version": 1}}
    assert "extensions" not in Server("other").get_capabilities()


async def test_option_is_read_and_described(shop: Server) -> None:
    component = shop.components.find("tool", "print_receipt")
    assert component is not None
    assert component.options == {"rate": 2}
    async with Client(shop) as client:
        (tool,) = [it for it in await client.list_tools() if it["name"] == "print_receipt"]
    assert tool["_meta"] == {"com.example/rate": 2}


async def test_steps_are_there_for_components_with_an_option_only(shop: Server) -> None:
    async with Client(shop) as client:
        assert (await client.call_tool("plain", {"copies": 9})).data == 9
        signed = await client.call_tool("print_receipt", {"copies": 2})
        assert signed["_meta"]["com.example/signed"]
        refused = await client.call_tool("print_receipt", {"copies": 3})
    assert refused.is_error
    assert "Too many copies" in refused.text
    revision = shop.by_version["2026-07-28"]
    plain = shop.components.find("tool", "plain")
    assert plain is not None
    assert INSTALLED.steps("before_arguments", plain, revision) == ()


async def test_step_before_the_handler_may_answer() -> None:
    async def answer(frame: Frame, plan: CallPlan, arguments: Any, validated: Any) -> Any:
        return {"content": [{"type": "text", "text": f"{validated}"}]}, frame

    step = Step(answer, lambda component, revision: component.name == "stopped")
    with installed(Extension(name=NAME, before_handler=[step])):
        server = Server("shop")
        server.tool(name="stopped")(lambda copies=1: 1 / 0)
        async with Client(server) as client:
            assert "copies" in (await client.call_tool("stopped", {"copies": 1})).text


async def test_step_that_decides_stands_before_those_of_other_extensions() -> None:
    ran: list[str] = []

    def noting(word: str) -> Any:
        async def note(frame: Frame, plan: CallPlan, arguments: Any, validated: Any) -> None:
            ran.append(word)

        return note

    def is_tool(component: Component, revision: Any) -> bool:
        return component.kind == "tool"

    count = Extension(name=NAME, before_handler=[Step(noting("count"), is_tool)])
    decide = Step(noting("decide"), is_tool, decides=True)
    ask = Extension(name="com.example/ask", before_handler=[decide])
    with installed(count, ask):
        server = Server("shop")
        server.tool(name="work")(lambda: 1)
        async with Client(server) as client:
            assert (await client.call_tool("work")).text == "1"
    assert ran == ["decide", "count"]


async def test_component_is_refused_when_its_extension_has_gone() -> None:
    with installed(RECEIPTS):
        server = Server("shop")
        server.tool(name="print_receipt", rate=2)(lambda: 1)  # type: ignore[call-overload]
        connected = Client(server, raise_exceptions=True)
    async with connected as client:
        with pytest.raises(ConfigurationError, match="has rate, which no installed app reads"):
            await client.call_tool("print_receipt")
    with pytest.raises(ConfigurationError, match="which no installed app reads"):
        registry.configure(server)


async def test_method_belongs_to_a_capability_of_the_protocol() -> None:
    async def count(frame: Frame) -> dict[str, Any]:
        return {"count": 1}

    method = Method(name="com.example/count", call=count, runs_as_handler=False)
    with installed(Extension(name=NAME, of_capability="prompts", methods=[method])):
        server = Server("shop")
        async with Client(server) as client:
            with pytest.raises(ErrorResponse, match="Method not found"):
                await client.request("com.example/count")
        server.prompt(name="greet")(lambda: "Hello")
        async with Client(server, version="2025-11-25") as client:
            assert (await client.request("com.example/count"))["count"] == 1
            assert "extensions" not in client.initialize_result["capabilities"]


def paper_of(tool: Component) -> dict[str, Any]:
    return {"title": f"On {tool.options['paper']}", "_meta": {"com.example/paper": 1}}


def read_paper(value: Any, where: str) -> str | None:
    return None if value == "none" else str(value)


PAPER = Option(
    name="paper",
    read=read_paper,
    may_be_method=True,
    listed=paper_of,
    is_listed=lambda server, revision: server.name == "shop" and revision.version > "2025",
    always_load=True,
    is_for_models=False,
)


@pytest.mark.parametrize("server_name", ["shop", "office"])
async def test_option_adds_members_to_lists_for_some_servers_and_revisions(
    server_name: str,
) -> None:
    with installed(Extension(name=NAME, options=[PAPER], meta_members=["com.example/paper"])):
        server = Server(server_name)
        options: dict[str, Any] = {"paper": "A4", "meta": {"com.example/own": 2}}
        server.tool(name="print", **options)(lambda: None)
        server.tool(name="scan", meta={"com.example/own": 2})(lambda: None)
        lists = []
        for version in ("2025-06-18", "2024-11-05"):
            async with Client(server, version=version) as client:
                lists.append(await client.list_tools())
    (printed, scanned), (oldest_printed, oldest_scanned) = lists
    assert printed.get("title") == ("On A4" if server_name == "shop" else None)
    assert printed["_meta"] == {"com.example/paper": 1, "com.example/own": 2}
    assert scanned["_meta"] == {"com.example/own": 2}
    assert oldest_printed["_meta"] == printed["_meta"]
    assert "_meta" not in oldest_scanned


def test_option_is_read_from_a_method_and_nothing_is_left_out() -> None:
    with installed(Extension(name=NAME, options=[PAPER])):

        class PrintBill(Tool):
            def paper(self) -> str:
                return "A5"

            def execute(self) -> None: ...

        printed = tool_component(PrintBill)
        plain: Any = {"paper": "none"}
        other = tool_component(lambda: None, name="other", **plain)
        assert (printed.options, other.options) == ({"paper": "A5"}, {})
        assert (printed.always_load, other.always_load) == (True, False)
        assert (printed.is_for_models, other.is_for_models) == (False, True)


async def test_flags_of_a_capability_are_for_a_server_and_a_caller() -> None:
    def narrow(principal: Principal, flags: Json) -> Json:
        return {} if principal.is_anonymous else flags

    extension = Extension(
        name=NAME,
        of_capability="logging",
        flags=lambda server: {"com.example/level": 1} if server.name == "shop" else None,
        narrow_flags=narrow,
    )
    with installed(extension):
        server = Server("shop")
        assert server.capabilities.current()["logging"] == {"com.example/level": 1}
        assert Server("office").capabilities.current()["logging"] == {}
        anonymous = Principal(scheme="anonymous")
        declared = server.capabilities.declared_to(BY_VERSION["2025-11-25"], anonymous)
    assert declared["logging"] == {}


def test_kinds_that_an_option_brings_are_expected_before_they_are_built() -> None:
    brings = Option(name="paper", brings=["resource"])
    with installed(Extension(name=NAME, options=[brings])):
        server = Server("shop")
        expected = [Expected("tool", options={"paper": "A4"})]
        server.components.defer(list, lambda: expected)
        assert "resources" in server.capabilities.current()


@pytest.mark.usefixtures("db")
def test_messages_of_an_extension_are_system_checks() -> None:
    message = CheckWarning("Out of paper", id="com.example.W001")
    with installed(Extension(name=NAME, check=lambda: [message])):
        assert message in run_checks(tags=["django_mcp"])
    assert message not in run_checks(tags=["django_mcp"])


async def test_job_of_an_extension_runs_where_tasks_run() -> None:
    async def print_all() -> None:
        done.append(1)

    done: list[int] = []
    with installed(Extension(name=NAME, jobs={"print-all": print_all})):
        await execution.run("print-all")
    assert done == [1]


async def test_filter_of_listen_sends_what_the_caller_may_have() -> None:
    closed: list[str] = []

    async def accept(frame: Frame, values: Sequence[str]) -> list[str]:
        return [value for value in values if value != "secret"]

    async def opened(stream: Stream, values: Sequence[str]) -> Callable[[], None]:
        # Before the client has the acknowledgement: it is sent after that.
        stream.send("notifications/receipts/sent", {"of": [*values]})
        background.spawn(later(stream))
        return lambda: closed.extend(values)

    async def later(stream: Stream) -> None:
        stream.send("notifications/receipts/later", {"to": stream.frame.principal.subject})

    listened = ListenFilter(name="receipts", accept=accept, open=opened)
    extension = Extension(name=NAME, settings=lambda *_: {}, filters=[listened])
    with installed(extension):
        client = Client(Server("shop"), version="2026-07-28")
        async with client, client.listen(receipts=["a", "secret"]):
            sent = await client.wait_for("notifications/receipts/sent")
            later_sent = await client.wait_for("notifications/receipts/later")
    assert sent["of"] == ["a"]
    assert later_sent["to"] == ""
    assert closed == ["a"]


async def test_extension_starts_once_and_stops_with_the_process() -> None:
    done: list[str] = []

    def note(word: str) -> Callable[[], Awaitable[None]]:
        async def noted() -> None:
            done.append(word)

        return noted

    with installed(Extension(name=NAME, start=note("start"), stop=note("stop"))):
        for name in ("one", "two"):
            await lifespan.start(Server(name))
        await background.finish()
    assert done == ["start", "stop"]


@pytest.mark.django_db
async def test_housekeeping_prunes_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[str] = []

    async def claimed(name: str, seconds: float) -> bool:
        return True

    claim: Port[Any] = Port("claims", default=claimed)
    steps: Port[Any] = Port("prunes", default=())
    monkeypatch.setattr(housekeeping, "CLAIM", claim)
    monkeypatch.setattr(housekeeping, "STEPS", steps)
    extension = Extension(name=NAME, prune=lambda: pruned.append("rows"))
    monkeypatch.setattr(INSTALLED, "all", (extension,))
    assert await housekeeping.run()
    assert pruned == ["rows"]


@pytest.mark.django_db
def test_prune_command_prints_the_sentence_of_an_extension(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with installed(Extension(name=NAME, prune=lambda: "Deleted 3 receipts.")):
        call_command("mcp_prune")
    assert "Deleted 3 receipts." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Extension(name="receipts"), "no extension"),
        (lambda: Option(name="rate", kinds=["tol"]), "Did you mean 'tool'"),
        (lambda: Option(name="two words"), "cannot be written"),
        (lambda: Method(name="send", call=print), "no namespace"),
        (
            lambda: Method(name="receipts/send", call=print, revisions=["2026-07-29"]),
            "Did you mean '2026-07-28'",
        ),
        (lambda: Extension(name=NAME, notifications=["sent"]), "notifications/sent"),
        (lambda: Extension(name=NAME, short_lists=["tools"]), "Did you mean 'tool'"),
    ],
)
def test_unknown_names_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([RECEIPTS, RECEIPTS], "Two extensions have the extension"),
        ([RECEIPTS, Extension(name="com.example/b", options=[RATE])], "the option 'rate'"),
        (
            [Extension(name=NAME, methods=[Method(name="tools/call", call=print)])],
            "which the protocol has",
        ),
    ],
)
def test_clashing_extensions_are_refused(others: Sequence[Extension], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message), installed(*others):
        pass  # pragma: no cover - it is never entered


def test_unknown_option_of_a_component_is_refused(shop: Server) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'rate'"):
        shop.tool(name="other", rat=2)(lambda: 1)  # type: ignore[call-overload]


def test_option_may_be_refused_for_components_of_a_session() -> None:
    option = Option(name="rate", only_on_server="rates are counted for all sessions")
    with (
        installed(Extension(name=NAME, options=[option])),
        pytest.raises(ConfigurationError, match="counted for all sessions"),
    ):
        Frame().register_tool("once", handler="tests.constants:CONSTANTS", rate=1)


def test_misspelt_attribute_of_an_app_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Misspelt(AppConfig):
        name = "tests"
        mcp_extensions = RECEIPTS

    config = Misspelt("tests", __import__("tests"))
    monkeypatch.setattr("django.apps.apps.get_app_configs", lambda: [config])
    with pytest.raises(ImproperlyConfigured, match="did you mean 'mcp_extension'"):
        of_apps()


# Kinds of components.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report(Component):
    kind: ClassVar[str] = "report"

    def descriptor(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.listed_description}


async def list_reports(frame: Frame) -> Any:
    return await list_components(frame, "report", "reports")


REPORTS = Extension(
    name="com.example/reports",
    settings=lambda server, revision: {"listChanged": True},
    capability="reports",
    kinds=[Kind(name="report", category="reports", list_filter="reportsListChanged")],
    notifications=["notifications/reports/list_changed"],
    methods=[Method(name="reports/list", call=list_reports)],
)


@pytest.fixture
def press() -> Iterator[Server]:
    with installed(REPORTS):
        server = Server("press")
        server.components.add(Report(name="sales", description="Sales", group="money"))
        server.components.add(Report(name="staff", permission="staff_member"))
        yield server


async def names(client: Client) -> list[str]:
    return [each["name"] for each in (await client.request("reports/list"))["reports"]]


async def test_components_of_a_kind_are_listed_to_those_who_may_use_them(press: Server) -> None:
    async with Client(press) as client:
        assert await names(client) == ["sales"]
    press.components.switch_off({("report", "sales")})
    async with Client(press) as client:
        assert await names(client) == []


async def test_group_of_a_component_of_a_kind_can_be_selected(press: Server) -> None:
    press.tool(name="count", group="stock")(lambda: 1)
    async with Client(press, query="groups=stock", transport="http") as client:
        assert await names(client) == []
    async with Client(press, query="groups=money", transport="http") as client:
        assert await names(client) == ["sales"]


async def test_listener_learns_of_changes_of_the_list_of_a_kind(press: Server) -> None:
    filters: dict[str, Any] = {"reportsListChanged": True}
    async with Client(press) as client, client.listen(**filters):
        press.components.add(Report(name="stock"))
        await client.wait_for("notifications/reports/list_changed")


async def test_capability_of_an_extension_is_declared_beside_it(press: Server) -> None:
    capabilities = press.get_capabilities()
    assert capabilities["reports"] == capabilities["extensions"]["com.example/reports"]
    async with Client(press) as client:
        assert (await client.request("server/discover"))["capabilities"]["reports"]


def test_two_extensions_with_a_kind_are_refused() -> None:
    other = Extension(name="com.example/other", kinds=[Kind(name="report", category="others")])
    with (
        pytest.raises(ConfigurationError, match="Two extensions have the kind 'report'"),
        installed(REPORTS, other),
    ):
        pass


class OutOfPaper(McpError):
    reason = "out_of_paper"


async def test_error_of_an_extension_has_its_code() -> None:
    def fail(frame: Frame) -> None:
        raise OutOfPaper("Add paper")

    extension = Extension(
        name=NAME,
        settings=lambda *_: {},
        errors=lambda: {"out_of_paper": 17},
        methods=[Method(name="receipts/print", call=fail)],
    )
    with installed(extension):
        async with Client(Server("shop")) as client:
            with pytest.raises(ErrorResponse) as caught:
                await client.request("receipts/print")
    assert caught.value.code == 17


# Streams.


async def count_up(params: Any, frame: Frame) -> Serve:
    if params.copies > 9:
        raise ToolError("Too many")

    async def serve(stream: Stream) -> None:
        for number in range(params.copies):
            stream.send("notifications/receipts/count", {"number": number})
        if params.copies == 9:
            await asyncio.Event().wait()

    return serve


COUNTING = Extension(
    name=NAME,
    settings=lambda *_: {},
    notifications=["notifications/receipts/count"],
    methods=[Method(name="receipts/count", params=Sent, call=count_up, streams=True)],
)
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_method_streams_until_its_function_returns(
    transport: Literal["memory", "http"],
) -> None:
    with installed(COUNTING):
        async with Client(Server("shop", authenticators=PUBLIC), transport=transport) as client:
            result = await client.request("receipts/count", {"to": "a", "copies": 3})
            sent = [each["params"] for each in client.notifications]
    assert [each["number"] for each in sent if "number" in each] == [0, 1, 2]
    assert {each["_meta"][SUBSCRIPTION] for each in sent if "number" in each} == {
        result["_meta"][SUBSCRIPTION]
    }


PUBLIC = ["django_mcp.auth.anonymous.AnonymousAuthentication"]


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_stream_without_end_is_cancelled_with_its_client(
    transport: Literal["memory", "http"],
) -> None:
    with installed(COUNTING):
        async with Client(Server("shop", authenticators=PUBLIC), transport=transport) as client:
            opened = client.request("receipts/count", {"to": "a", "copies": 9})
            task = asyncio.ensure_future(opened)
            await client.wait_for("notifications/receipts/count")
            assert not task.done()
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(5):
            while background.tasks():
                await asyncio.sleep(0.01)


async def test_stream_that_is_refused_is_an_error() -> None:
    with installed(COUNTING):
        async with Client(Server("shop", authenticators=PUBLIC), transport="http") as client:
            with pytest.raises(ErrorResponse):
                await client.request("receipts/count", {"to": "a", "copies": "x"})
            assert client.notifications == []
