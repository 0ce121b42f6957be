"""The management commands mcp_show and mcp_call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command

from django_mcp import CacheHint, Frame, ResourceNotFound, Response, Server, ToolError, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.pubsub import switches
from django_mcp.runtime.pages import absolute_url
from tests.admin.site import entry_of

# Database connections are checked around each handler, even if it uses none.
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with a component of each kind, besides the default one."""
    server = Server("shop", path="/our/shop", authenticators=[AnonymousAuthentication()])

    @server.tool(permission="auth.view_user", cache=CacheHint(5000))
    def stock(item: str) -> int:
        """How many there are."""
        return len(item)

    @server.tool
    def greet(frame: Frame) -> str:
        """Greet whoever calls."""
        if not frame.user.is_authenticated:
            raise ToolError("I talk to no strangers")
        return f"Hello {frame.user.username} at {frame.transport.type}"  # type: ignore[union-attr]

    @server.tool
    def work(frame: Frame) -> str:
        """Work, and talk about it."""
        frame.client.progress(1, total=2, message="half")
        frame.client.log("info", "working")
        frame.client.log("debug", "thinking")
        return "done"

    @server.tool
    async def ask(frame: Frame) -> str:
        """Ask back."""
        return str(await frame.client.aelicit("Sure?", {"type": "object", "properties": {}}))

    @server.tool(scopes={"till"})
    def count() -> list[int]:
        """Count."""
        return [1, 2]

    @server.resource("shop://item/{number}", permission=is_visible)
    def item(number: int) -> str:
        """One item."""
        if number > 9:
            raise ResourceNotFound
        return f"Item {number}"

    @server.prompt
    def haggle(item: str) -> Any:
        """Haggle."""
        return Response.prompt().user(f"Sell me {item}").user("Cheaply")

    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default, "shop": server})
    return server


def is_visible(frame: Frame) -> bool:
    """Everybody may."""
    return True


def run(capsys: pytest.CaptureFixture[str], *arguments: str, **options: Any) -> str:
    call_command(*arguments, **options)
    return capsys.readouterr().out.rstrip("\n")


def call(capsys: pytest.CaptureFixture[str], name: str, *arguments: str, **options: Any) -> str:
    return run(capsys, "mcp_call", name, *arguments, server="shop", **options)


# mcp_show


def test_mcp_show_prints_one_row_per_component(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "mcp_show", server="shop").splitlines()
    rows = [line.split() for line in lines]
    assert rows[0] == ["SERVER", "PATH", "KIND", "NAME", "PERMISSION", "SOURCE"]
    assert [row[-3] for row in rows[1:]] == [
        *("ask", "count", "greet", "stock", "work"),
        *("shop://item/{number}", "haggle"),
    ]
    assert rows[4][:5] == ["shop", "/our/shop", "tool", "stock", "auth.view_user"]
    assert rows[4][5].startswith(f"{__name__}:")
    assert rows[6][-2] == f"{__name__}.is_visible()"
    assert len({line.index(row[-1]) for line, row in zip(lines, rows, strict=True)}) == 1


def test_mcp_show_prints_all_servers_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    servers = {line.split()[0] for line in run(capsys, "mcp_show").splitlines()[1:]}
    assert servers == {"mcp", "shop"}


def test_mcp_show_prints_the_details_of_one_component(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "mcp_show", "stock")
    assert "description: How many there are." in shown
    assert "permission: auth.view_user" in shown
    assert 'cache:\n{\n  "ttl_ms": 5000,' in shown
    assert 'inputSchema:\n{\n  "type": "object",' in shown


def test_mcp_show_finds_a_template_by_name_and_by_uri(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = run(capsys, "mcp_show", "shop://item/{number}")
    assert shown == run(capsys, "mcp_show", "item")
    assert "kind: resource_template" in shown


def test_mcp_show_is_coloured_on_a_terminal(
    capsys: pytest.CaptureFixture[str], shop: Server
) -> None:
    switches.switch_off([entry_of(shop, "stock")], by="boss")
    heading, *rows = run(capsys, "mcp_show", server="shop", force_color=True).splitlines()
    assert heading.startswith("\x1b[")
    coloured = [row for row in rows if "\x1b[" in row]
    assert ["stock (switched off)" in row for row in coloured] == [True]
    details = run(capsys, "mcp_show", "greet", force_color=True)
    assert "\x1b[0m Greet whoever calls." in details


def test_mcp_show_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    (facts,) = json.loads(run(capsys, "mcp_show", "count", as_json=True))
    assert facts["scopes"] == ["till"]
    assert facts["listed"]["name"] == "count"
    assert len(json.loads(run(capsys, "mcp_show", server="shop", as_json=True))) == 7


def test_mcp_show_raises_command_error_for_an_unknown_name() -> None:
    with pytest.raises(CommandError, match="Nothing named 'nothing'"):
        call_command("mcp_show", "nothing")
    with pytest.raises(CommandError, match="no MCP server 'nothing'; there are: mcp, shop"):
        call_command("mcp_show", server="nothing")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("stok", "Did you mean 'stock'?"),
        ("shop://item/{numbr}", "Did you mean 'shop://item/{number}'?"),
        ("zzzzzz", "See mcp_show without a name."),
    ],
)
def test_mcp_show_suggests_a_similar_name(name: str, hint: str) -> None:
    with pytest.raises(CommandError) as raised:
        call_command("mcp_show", name)
    assert str(raised.value) == f"Nothing named {name!r} is registered. {hint}"


# mcp_call


def test_mcp_guide_prints_the_guide_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mcp_guide")

    printed = capsys.readouterr().out
    assert printed.startswith("---\nname: django-mcp\n")
    assert "# Writing MCP servers with django_mcp" in printed
    assert "@tool(read_only=True)" in printed


def test_mcp_call_is_anonymous_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="I talk to no strangers"):
        call(capsys, "greet")


def test_mcp_call_runs_as_the_given_user(capsys: pytest.CaptureFixture[str]) -> None:
    get_user_model().objects.create_user("alice")
    assert call(capsys, "greet", user="alice") == "Hello alice at stdio"


def test_mcp_call_checks_permissions(capsys: pytest.CaptureFixture[str]) -> None:
    user = get_user_model().objects.create_user("alice")
    message = r"Unknown tool: stock \(It is not for everybody: see --user and --scope\)"
    with pytest.raises(CommandError, match=message):
        call(capsys, "stock", '{"item": "tea"}')
    message = r"Unknown tool: stock \(It needs the permission auth\.view_user, which alice does not"
    with pytest.raises(CommandError, match=message):
        call(capsys, "stock", '{"item": "tea"}', user="alice")
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert call(capsys, "stock", '{"item": "tea"}', user="alice") == "3"


def never(frame: Frame) -> bool:
    return False


def test_mcp_call_names_the_function_that_refuses_the_user(
    capsys: pytest.CaptureFixture[str],
) -> None:
    get_user_model().objects.create_user("alice")
    registry.get("shop").tool(name="closed", permission=never)(lambda: "")
    message = r"It needs the permission tests\.management\.test_commands\.never\(\), which alice"
    with pytest.raises(CommandError, match=message):
        call(capsys, "closed", user="alice")


def test_mcp_call_checks_scopes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="see --user and --scope"):
        call(capsys, "count")
    assert json.loads(call(capsys, "count", scope=["till", "shop"])) == [1, 2]


def test_mcp_call_prints_notifications_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mcp_call", "work", server="shop")
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert 'notifications/progress {"progress": 1, "total": 2, "message": "half"}' in shown.err
    assert "working" in shown.err
    assert "thinking" not in shown.err


@pytest.mark.parametrize(("verbosity", "working", "thinking"), [(0, False, False), (2, True, True)])
def test_mcp_call_selects_log_messages_by_verbosity(
    capsys: pytest.CaptureFixture[str], verbosity: int, working: bool, thinking: bool
) -> None:
    call_command("mcp_call", "work", server="shop", verbosity=verbosity)
    output = capsys.readouterr().err
    assert ("working" in output, "thinking" in output) == (working, thinking)


def test_mcp_call_raises_command_error_for_an_input_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CommandError, match="elicitation"):
        call(capsys, "ask")


def test_mcp_call_names_a_missing_setting_without_a_traceback(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, shop: Server
) -> None:
    @shop.tool
    def link(frame: Frame) -> str:
        """Return the URL of a page."""
        return absolute_url(frame.transport, "admin:index")

    with pytest.raises(CommandError, match=r'set DJANGO_MCP\["BASE_URL"\]'):
        call(capsys, "link")
    assert caplog.text == ""


def test_mcp_call_logs_other_failures_of_a_handler(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, shop: Server
) -> None:
    @shop.tool
    def fail() -> str:
        """Fail."""
        raise ZeroDivisionError("by zero")

    with pytest.raises(CommandError):
        call(capsys, "fail")
    assert "ZeroDivisionError: by zero" in caplog.text


def test_mcp_call_reads_a_resource(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "shop://item/3") == "Item 3"
    with pytest.raises(CommandError, match="Resource not found"):
        call(capsys, "shop://item/10")


def test_mcp_call_gets_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "haggle", '{"item": "tea"}') == "Sell me tea\nCheaply"


def test_mcp_call_prints_the_result_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(call(capsys, "haggle", '{"item": "tea"}', as_json=True))
    assert result["messages"][0]["content"] == {"type": "text", "text": "Sell me tea"}


def test_mcp_call_raises_command_error_for_invalid_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CommandError, match="number: unknown argument"):
        call(capsys, "work", '{"number": 1}')


@pytest.mark.parametrize(
    ("name", "arguments", "options", "message"),
    [
        ("work", "{", {}, "The arguments are not JSON"),
        pytest.param("work", "[" * 100_000, {}, "The arguments are not JSON", id="deep"),
        ("work", "[]", {}, "The arguments are an object"),
        ("work", '{"a": "\\ud800"}', {}, "The arguments are not JSON"),
        ("work", '{"a": "\udcff"}', {}, "The arguments are not JSON"),
        ("\udcff", "{}", {}, "The name is no UTF-8"),
        ("work", "{}", {"user": "\udcff"}, "The username is no UTF-8"),
        ("nothing", "{}", {}, "has no tool and no prompt 'nothing': see mcp_show"),
        ("wrok", "{}", {}, "has no tool and no prompt 'wrok': did you mean 'work'?"),
        ("work", "{}", {"server": "nothing"}, "There is no MCP server 'nothing'"),
    ],
)
def test_mcp_call_raises_command_error_for_an_invalid_call(
    name: str, arguments: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("mcp_call", name, arguments, **{"server": "shop", **options})


def test_mcp_call_raises_command_error_for_an_unknown_user(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CommandError, match="There is no user 'mallory'"):
        call(capsys, "work", user="mallory")
