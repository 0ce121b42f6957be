"""The whole OAuth flow of an SDK against the example site, as the user and the client see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.clients import environments
from tests.clients.conftest import SDKS, Command
from tests.clients.oauth.pages import CLIENT_ID, ClientPages
from tests.clients.oauth.users import User
from tests.clients.real_client import RealClient, real_client
from tests.running_site import RunningSite, running_site

EXPIRE = """
from datetime import timedelta
from django.utils import timezone
from oauth2_provider.models import AccessToken
AccessToken.objects.update(expires=timezone.now() - timedelta(seconds=1))
"""


def python() -> Command:
    return [environments.python("sdk2"), "-m", "tests.clients.sdks.python_2_oauth"]


def typescript() -> Command:
    return [environments.node(), SDKS / "typescript_oauth.cjs"]


@contextmanager
def site_for(pages: ClientPages, **environment: str) -> Iterator[RunningSite]:
    """Serve the example site with demo data; it knows the pages of the client."""
    own = {"DJANGO_SETTINGS_MODULE": "tests.clients.oauth.settings", "CLIENT_PAGES": pages.origin}
    with running_site(demo_data=True, **own, **environment) as site:
        yield site
        # It goes with the folder of the process.
        logged = site.log
    assert "Traceback" not in logged, logged


class Flow:
    """One client and its user."""

    def __init__(self, client: RealClient, site: RunningSite, user: User) -> None:
        self.client, self.site, self.user = client, site, user

    def log_in(self) -> dict[str, str]:
        """Let the user log in where even connecting needs it; return what the client asks for."""
        requested = self._allow(self.client.connected)
        self.client.connected = self.client.next_line()
        return requested

    def call_with_consent(self, tool: str, **arguments: Any) -> tuple[Any, dict[str, str]]:
        """Call a tool for which the client asks the user; return the result and what it asks."""
        number = self.client.start("tools/call", name=tool, arguments=arguments)
        requested = self._allow(self.client.next_request())
        return self.client.until_done(number)[-1]["result"], requested

    def _allow(self, request: Any) -> dict[str, str]:
        assert request["method"] == "authorize", request
        url = request["params"]["url"]
        assert url.startswith(self.site.url("/o/authorize?"))
        self.client.answer(request, self.user.allow(url))
        return dict(parse_qsl(urlsplit(url).query))

    def state(self) -> Any:
        """What the client has stored."""
        return self.client.request("oauth/state")

    def expire(self) -> None:
        """Let the access tokens expire, on the server and for the client."""
        self.site.manage("shell", "--verbosity", "0", "--command", EXPIRE)
        self.client.request("oauth/expire")


@contextmanager
def connected(
    command: Callable[[], Command],
    site: RunningSite,
    pages: ClientPages,
    user: User,
    *,
    published: bool,
) -> Iterator[Flow]:
    """Connect a client, which publishes a metadata document or registers."""
    identity: Command = [CLIENT_ID] if published else []
    words = [*command(), site.url("/mcp"), pages.redirect_uri, *identity]
    modules = {"NODE_PATH": str(environments.CLIENTS / "ts" / "node_modules")}
    with real_client(words, {**site.environment, **modules}) as client:
        yield Flow(client, site, user)


def check_whole_flow(flow: Flow, *, published: bool) -> None:
    """Connect without an account, log in, call, ask for a further scope, and refresh."""
    tools = {each["name"] for each in flow.client.request("tools/list")["tools"]}
    assert {"search_tickets", "my_tickets", "set_priority"} <= tools
    assert not {"close_ticket", "delete_ticket"} & tools
    assert not flow.client.call("search_tickets", limit=1).get("isError")
    assert not any(flow.state().values())

    mine, requested = flow.call_with_consent("my_tickets")
    assert {each["assignee"] for each in structured(mine)} == {"agent"}
    assert requested["scope"] == "helpdesk"
    assert requested["code_challenge_method"] == "S256"
    assert requested["resource"] == flow.site.url("/mcp")
    assert (requested["client_id"] == CLIENT_ID) is published
    first = flow.state()
    assert first["client_id"] == requested["client_id"]
    assert first["tokens"]["scope"] == "helpdesk"
    # The permission of the user counts now, and nobody is prompted again.
    assert "close_ticket" in {each["name"] for each in flow.client.request("tools/list")["tools"]}

    number = structured(mine)[0]["number"]
    changed, requested = flow.call_with_consent("set_priority", number=number, priority="urgent")
    assert structured(changed)["priority"] == "urgent"
    assert {*requested["scope"].split()} == {"helpdesk", "helpdesk:write"}
    second = flow.state()["tokens"]
    assert {*second["scope"].split()} == {"helpdesk", "helpdesk:write"}

    flow.expire()
    again = flow.client.call("set_priority", number=number, priority="low")
    assert structured(again)["priority"] == "low"
    third = flow.state()["tokens"]
    assert third["access_token"] != second["access_token"]
    assert third["refresh_token"] != second["refresh_token"]


def structured(result: Any) -> Any:
    """Return what a tool returned; a list is in an object in revisions with sessions."""
    assert not result.get("isError"), result
    content = result["structuredContent"]
    return content["result"] if [*content] == ["result"] else content
