"""The example site: its data, its page, and its servers as clients see them."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, cast

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client as Browser

from django_mcp import Frame
from django_mcp.core.frame.cancellation import Cancellation
from django_mcp.core.frame.client.base import Client
from django_mcp.core.protocol.errors import Cancelled
from django_mcp.testing import Client as McpClient
from example_site.helpdesk.mcp import check_answer_times
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.processes import ROOT
from tests.running_site import RunningSite, running_site
from tests.spec import spec

STATELESS = "2026-07-28"
WITH_SESSIONS = "2025-11-25"
META = "io.modelcontextprotocol/"
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}
TICKET = "ticket://3"


@spec("T-HTTP-05", "T-SSE-06", "2026/HTTP-03")
def test_serve_binds_only_to_this_machine_by_default() -> None:
    script = (ROOT / "scripts" / "serve").read_text()

    assert 'HOST="${HOST:-127.0.0.1}"' in script
    assert '--bind "$HOST"' in script
    assert "0.0.0.0" not in script


# The data and the page, in this process.


def rows() -> list[Any]:
    """Every row of the helpdesk."""
    return [list(model.objects.order_by("pk").values()) for model in (Customer, Ticket, Comment)]


@pytest.mark.django_db
def test_demo_data_covers_every_status_and_unassigned_tickets() -> None:
    call_command("demo_data", verbosity=0)
    customers, tickets, comments = map(len, rows())
    assert (customers, tickets) == (20, 200)
    assert comments > tickets
    for status in Ticket.Status:
        assert Ticket.objects.filter(status=status).count() > 20
    assert Ticket.objects.filter(assignee=None).exists()


@pytest.mark.django_db
def test_second_run_of_demo_data_changes_nothing() -> None:
    call_command("demo_data")
    ticket = Ticket.objects.earliest("pk")
    Ticket.objects.filter(pk=ticket.pk).update(subject="Changed by somebody")
    admin = get_user_model().objects.get(username="admin")
    admin.set_password("a better one")
    admin.save()
    before = rows()
    call_command("demo_data")
    assert rows() == before
    admin.refresh_from_db()
    assert admin.check_password("a better one")


@pytest.mark.django_db
def test_demo_data_is_deterministic() -> None:
    call_command("demo_data")
    customers, tickets, comments = rows()
    Customer.objects.all().delete()
    call_command("demo_data")
    again = rows()
    ids = {"id", "customer_id", "ticket_id"}
    for first, second in zip((customers, tickets, comments), again, strict=True):
        assert [without(row, ids) for row in first] == [without(row, ids) for row in second]


def without(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.django_db
def test_the_migrations_match_the_models() -> None:
    call_command("makemigrations", "helpdesk", check=True, dry_run=True, verbosity=0)


def test_front_page_shows_the_server_urls() -> None:
    page = Browser().get("/").content.decode()
    assert "http://testserver/mcp" in page
    assert "http://testserver/conformance" in page
    assert 'href="/admin/django_mcp/"' in page


class CancelsOnProgress(Client):
    """A client that cancels its request at the first progress notification."""

    def __init__(self, cancellation: Cancellation) -> None:
        self.cancellation = cancellation
        self.progress_values: list[float] = []

    def log(self, *args: Any, **options: Any) -> None:
        """Ignore the message."""

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self.progress_values.append(progress)
        self.cancellation.request()

    async def _request(self, requests: Any, timeout: float | None) -> dict[str, Any]:
        return {}


@pytest.mark.django_db
def test_a_synchronous_tool_stops_when_its_call_is_cancelled() -> None:
    call_command("demo_data")
    cancellation = Cancellation()
    client = CancelsOnProgress(cancellation)
    with pytest.raises(Cancelled):
        check_answer_times(Frame(client=client, cancellation=cancellation))
    assert client.progress_values == [10]


# The servers over HTTP.


class Caller:
    """A client of the running site: stateless, or in a session after ``initialize``."""

    def __init__(self, http: httpx.Client, site: RunningSite, path: str) -> None:
        self.http = http
        self.site = site
        self.path = path
        self.session: dict[str, str] | None = None

    def initialize(self) -> None:
        """Open a session for all further requests."""
        params = {
            "protocolVersion": WITH_SESSIONS,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        response = self.post("initialize", params, {})
        self.session = {
            "Mcp-Session-Id": response.headers["mcp-session-id"],
            "MCP-Protocol-Version": WITH_SESSIONS,
        }

    def log_in(self, username: str) -> None:
        """Log in as a demo user through the form of the admin."""
        url = self.site.url("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.http.get(url).text)
        assert token is not None
        form = {"username": username, "password": username, "csrfmiddlewaretoken": token[1]}
        assert self.http.post(url, data=form).status_code == 302

    def request(self, method: str, **params: Any) -> list[dict[str, Any]]:
        """The messages of a response stream, the response last."""
        if self.session is not None:
            response = self.post(method, params, self.session)
        else:
            response = self.post(method, with_request_meta(params), request_headers(method, params))
        return messages(response)

    def result(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        response = self.request(method, **params)[-1]
        assert "result" in response, response
        return response["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """The result of a tool."""
        return self.result("tools/call", name=tool, arguments=arguments)

    def read(self, uri: str) -> str:
        """The text of a resource."""
        (contents,) = self.result("resources/read", uri=uri)["contents"]
        return cast(str, contents["text"])

    def post(self, method: str, params: Any, headers: Mapping[str, str]) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.http.post(self.site.url(self.path), json=message, headers=headers)


Connect = Callable[..., Caller]


def with_request_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    meta = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}}
    return {**params, "_meta": {**meta, **params.get("_meta", {})}}


def request_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
    named = params.get("name") or params.get("uri")
    return {**headers, "Mcp-Name": named} if named else headers


def messages(response: httpx.Response) -> list[dict[str, Any]]:
    if response.headers["content-type"] == "application/json":
        return [response.json()]
    lines = response.text.splitlines()
    data = (line.removeprefix("data:") for line in lines if line.startswith("data:"))
    return [json.loads(event) for event in data if event.strip()]


@pytest.fixture(scope="module")
def site() -> Iterator[RunningSite]:
    with running_site(demo_data=True) as running:
        yield running


@pytest.fixture
def connect(site: RunningSite) -> Iterator[Connect]:
    """Creates clients of the running site, each with its own cookies."""
    with ExitStack() as stack:

        def connect(path: str = "/mcp") -> Caller:
            return Caller(
                stack.enter_context(httpx.Client(headers=MCP_HEADERS, verify=False)), site, path
            )

        yield connect


@pytest.fixture
def caller(connect: Connect) -> Caller:
    return connect()


def test_anonymous_comment_is_stored_and_read(caller: Caller) -> None:
    assert "a guest" in caller.call("add_comment", number=3, text="Seen.")["content"][0]["text"]
    assert caller.read(TICKET).endswith("Seen.")


def test_agent_closes_tickets_and_comments_under_their_name(caller: Caller) -> None:
    caller.log_in("agent")
    assert "close_ticket" in names(caller)
    assert caller.call("close_ticket", number=199)["structuredContent"]["status"] == "closed"
    assert caller.call("close_ticket", number=199)["structuredContent"]["status"] == "closed"
    caller.call("add_comment", number=199, text="Closed.")
    assert "**agent**" in caller.read("ticket://199")


def names(caller: Caller) -> list[str]:
    return [tool["name"] for tool in caller.result("tools/list")["tools"]]


# Tools that not everybody may use.


def call_response(caller: Caller, tool: str, **arguments: Any) -> httpx.Response:
    params = {"name": tool, "arguments": arguments}
    headers = request_headers("tools/call", params)
    return caller.post("tools/call", with_request_meta(params), headers)


@pytest.mark.parametrize(
    ("tool", "arguments", "scope"),
    [
        ("my_tickets", {}, "helpdesk"),
        ("set_priority", {"number": 5, "priority": "low"}, "helpdesk helpdesk:write"),
    ],
)
def test_tool_that_needs_more_is_listed_and_its_challenge_names_the_scopes(
    caller: Caller, tool: str, arguments: dict[str, Any], scope: str
) -> None:
    assert tool in names(caller)
    response = call_response(caller, tool, **arguments)
    challenge = response.headers["www-authenticate"]
    metadata = caller.site.url("/.well-known/oauth-protected-resource/mcp")
    assert response.status_code == 401
    assert f'resource_metadata="{metadata}"' in challenge
    assert f'scope="{scope}"' in challenge


def test_ticket_is_deleted_only_by_who_has_the_permission(connect: Connect) -> None:
    agent, admin = connect(), connect()
    agent.log_in("agent")
    admin.log_in("admin")
    words = {"customer": "Foxglove", "subject": "Weeds", "description": "Everywhere."}
    number = agent.call("open_ticket", **words)["structuredContent"]["number"]
    assert "delete_ticket" not in names(agent)
    assert f"#{number} Weeds" in admin.call("delete_ticket", number=number)["content"][0]["text"]
    assert admin.call("delete_ticket", number=number)["isError"]


def welcome(site: RunningSite) -> str:
    """What scripts/serve prints before it starts the server."""
    here = {"HOST": "127.0.0.1", "PORT": "0"}
    done = subprocess.run(
        [site.python, "scripts/welcome.py"],
        cwd=ROOT,
        env={**site.environment, **here},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_token_that_serve_prints_works_until_the_next_start(
    connect: Connect, site: RunningSite
) -> None:
    first, second = connect(), connect()
    for caller in (first, second):
        text = welcome(site)
        (token,) = set(re.findall(r"djmcp_\w{49}", text))
        caller.http.headers["Authorization"] = f"Bearer {token}"
    assert "claude mcp add --transport http mcp http://127.0.0.1:0/mcp\n" in text
    assert f"--header 'Authorization: Bearer {token}'" in text
    number = second.call("my_tickets", limit=1)["structuredContent"][0]["number"]
    changed = second.call("set_priority", number=number, priority="urgent")
    assert changed["structuredContent"]["priority"] == "urgent"
    assert second.call("set_priority", number=100_000, priority="low")["isError"]
    assert call_response(first, "my_tickets").status_code == 401


def test_login_page_leads_back_to_the_front_page(site: RunningSite) -> None:
    with httpx.Client(follow_redirects=True) as http:
        login = http.get(site.url("/tokens/"))
        assert str(login.url) == site.url("/login/?next=/tokens/")
        fields = {"username": "agent", "password": "agent", "next": "/"}
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', login.text)
        assert token is not None
        home = http.post(login.url, data={**fields, "csrfmiddlewaretoken": token[1]})
    assert str(home.url) == site.url("/")
    assert "You are agent." in home.text
    for path in ("/tokens/", "/o/access"):
        assert f'href="{path}"' in home.text


def test_progress_and_log_messages_come_before_the_result(caller: Caller) -> None:
    messages = caller.request(
        "tools/call",
        name="check_answer_times",
        arguments={},
        _meta={"progressToken": "here", f"{META}logLevel": "warning"},
    )
    *before, response = messages
    progress = [m["params"] for m in before if m["method"] == "notifications/progress"]
    assert [step["progress"] for step in progress] == list(range(10, 201, 10))
    logged = [m["params"] for m in before if m["method"] == "notifications/message"]
    report = response["result"]["structuredContent"]
    assert report["checked"] == 200
    assert len(logged) == len(report["late"]) > 0


@pytest.mark.parametrize(
    ("ref", "argument", "typed", "values"),
    [
        ({"type": "ref/prompt", "name": "summarise_ticket"}, "number", "20", ["20", "200"]),
        ({"type": "ref/prompt", "name": "summarise_ticket"}, "length", "s", ["short"]),
        ({"type": "ref/resource", "uri": "ticket://{pk}"}, "pk", "20", ["20", "200"]),
        ({"type": "ref/resource", "uri": "units://{quantity}"}, "quantity", "v", ["volume"]),
        (
            {"type": "ref/prompt", "name": "explain_unit"},
            "unit",
            "m",
            ["metre", "mile", "millilitre"],
        ),
    ],
)
def test_arguments_are_completed(
    caller: Caller, ref: dict[str, str], argument: str, typed: str, values: list[str]
) -> None:
    completed = {"name": argument, "value": typed}
    result = caller.result("completion/complete", ref=ref, argument=completed)
    assert result["completion"]["values"] == values


def test_completion_uses_the_other_arguments(caller: Caller) -> None:
    result = caller.result(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "explain_unit"},
        argument={"name": "unit", "value": "m"},
        context={"arguments": {"quantity": "length"}},
    )
    assert result["completion"]["values"] == ["metre", "mile"]


def test_units_are_converted_only_within_a_quantity(caller: Caller) -> None:
    result = caller.call("convert_units", amount=2, source="mile", target="kilometre")
    assert result["structuredContent"]["amount"] == pytest.approx(3.218688)
    result = caller.call("convert_units", amount=2, source="mile", target="gram")
    assert result["isError"]
    assert json.loads(caller.read("units://mass"))["gram"] == 0.001


def test_last_calculation_is_stored_in_its_session(connect: Connect) -> None:
    here, there = connect(), connect()
    here.initialize()
    there.initialize()
    assert here.call("calculator", operation="divide", a=1, b=4)["content"][0]["text"] == "0.25"
    assert here.call("last_calculation")["content"][0]["text"] == "0.25"
    assert there.call("last_calculation")["isError"]


def test_division_by_zero_is_a_tool_error(caller: Caller) -> None:
    result = caller.call("calculator", operation="divide", a=1, b=0)
    assert result["isError"]
    assert result["content"][0]["text"] == "Cannot divide by zero"


def test_note_is_listed_only_in_its_session(connect: Connect) -> None:
    here, there = connect(), connect()
    here.initialize()
    there.initialize()
    assert not here.call("take_note", title="milk", text="Buy milk").get("isError")
    assert here.read("note://milk") == "Buy milk"
    assert "note://milk" in uris(here)
    assert "note://milk" not in uris(there)


def uris(caller: Caller) -> list[str]:
    return [resource["uri"] for resource in caller.result("resources/list")["resources"]]


def test_take_note_without_a_session_is_a_tool_error(caller: Caller) -> None:
    assert caller.call("take_note", title="milk", text="Buy milk")["isError"]


def test_the_timer_reports_each_second(caller: Caller) -> None:
    messages = caller.request(
        "tools/call", name="timer", arguments={"seconds": 1}, _meta={"progressToken": 0}
    )
    assert [m["params"]["progress"] for m in messages[:-1]] == [0]
    assert messages[-1]["result"]["content"][0]["text"] == "1 s are over."


def test_conformance_server_lists_the_components_called_first_at_the_top(connect: Connect) -> None:
    caller = connect("/conformance")
    tools = caller.result("tools/list")["tools"]
    assert tools[0]["name"] == "test_simple_text"
    assert all(tool["description"] for tool in tools)
    assert caller.result("resources/list")["resources"][0]["uri"] == "test://static-text"
    assert caller.read("test://template/123/data") == (
        '{"id":"123","templateTest":true,"data":"Data for ID: 123"}'
    )


def test_admin_css_is_served(site: RunningSite) -> None:
    response = httpx.get(site.url("/static/admin/css/base.css"))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/css")


# The customers, which are a model toolset.


@pytest.mark.django_db(transaction=True)
async def test_customers_are_tools_for_users_with_the_permission() -> None:
    await sync_to_async(call_command)("demo_data", verbosity=0)
    users = get_user_model().objects
    admin, agent = await users.aget(username="admin"), await users.acreate(username="guest")
    async with McpClient(user=admin) as client:
        page = await client.call_tool("list_customers", {"city__icontains": "y", "limit": 2})
        items = page["structuredContent"]["items"]
        assert [set(item) for item in items] == [{"pk", "name", "city"}] * 2
        contents = await client.read_resource(f"customer://{items[0]['pk']}")
        assert items[0]["name"] in contents.text
        changed = {"pk": items[0]["pk"], "city": "Bath"}
        updated = await client.call_tool("update_customer", changed)
        assert updated["structuredContent"] == {**items[0], "city": "Bath"}
    async with McpClient(user=agent) as client:
        names = [tool["name"] for tool in await client.list_tools()]
        assert not [name for name in names if "customer" in name]
