"""A member of the staff works with the admin by the official SDK, under three servers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.clients.conftest import KINDS, Command, connected
from tests.clients.real_client import RealClient
from tests.processes import ROOT
from tests.running_site import RunningSite, running_site

pytestmark = pytest.mark.nightly

TICKET = "helpdesk.Ticket"
SERVERS: dict[str, Command] = {
    "runserver": ["manage", "runserver", "--noreload", "127.0.0.1:{port}"],
    "gunicorn": [
        "gunicorn",
        *("--bind", "127.0.0.1:{port}", "--workers", "2"),
        "example_site.wsgi:application",
    ],
    "uvicorn": ["uvicorn", "--port", "{port}", "example_site.asgi:application"],
}


@pytest.fixture(scope="module", params=SERVERS)
def staff_site(request: pytest.FixtureRequest) -> Iterator[RunningSite]:
    """The example site under a server; clients have the token of its superuser."""
    module = "tests.clients.plain_settings"
    command = SERVERS[request.param]
    with running_site(command, demo_data=True, DJANGO_SETTINGS_MODULE=module) as site:
        yield replace(site, environment={**site.environment, "CLIENT_TOKEN": token_of(site)})
        logged = site.log
    assert "Traceback" not in logged, logged


def token_of(site: RunningSite) -> str:
    create = ["mcp_token", "create", "admin", "--name", "Laptop", "--scope", "helpdesk"]
    done = subprocess.run(
        [site.python, "manage.py", *create, "--server", "helpdesk-admin"],
        cwd=ROOT,
        env=site.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1]


class Staff:
    """A person whose program calls the tools, and who is asked before something is undone."""

    def __init__(self, client: RealClient) -> None:
        self.client = client
        self.asked: list[str] = []

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, and agree to what is asked; return what it says."""
        call = self.client.start("tools/call", name=f"admin_{tool}", arguments=arguments)
        while "method" in (line := self.client.next_line()):
            self.asked.append(line["params"]["message"])
            self.client.answer(line, {"action": "accept", "content": {"sure": True}})
        assert line["id"] == call, line
        result = line["result"]
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])


@pytest.mark.parametrize("sdk", ["python_2_http", "python_2_legacy_http"])
def test_staff_works_with_the_admin(staff_site: RunningSite, sdk: str) -> None:
    with connected(KINDS[sdk], staff_site, "helpdesk-admin") as client:
        assert client.connected["connected"] == KINDS[sdk].version
        staff = Staff(client)
        listed = staff.call("search", model=TICKET, text="Bakery", ordering=["-created"])["rows"]
        assert {row["values"]["customer"]["label"] for row in listed} == {"Alder Street Bakery"}
        tickets = [staff.call("get", model=TICKET, pk=row["pk"]) for row in listed]
        ticket = next(each for each in tickets if each["inlines"]["comments"])
        change_comment(staff, ticket)
        assign(staff, ticket["pk"])
        history = staff.call("history", model=TICKET, pk=ticket["pk"])["entries"]
        assert [entry["message"] for entry in history] == [
            f"Changed Text for comment “{NEW_TEXT}”.",
            "Assigned to agent.",
        ]
        assert history[0]["program"]
        delete(staff, ticket["pk"])


NEW_TEXT = "We have called."


def change_comment(staff: Staff, ticket: Any) -> None:
    """Change one row of an inline; the others stay."""
    first, *others = ticket["inlines"]["comments"]
    rows = {"comments": [{"pk": first["pk"], "text": NEW_TEXT}]}
    staff.call("change", model=TICKET, pk=ticket["pk"], inlines=rows)
    changed = staff.call("get", model=TICKET, pk=ticket["pk"])
    assert changed["values"] == ticket["values"]
    texts = [row["text"] for row in changed["inlines"]["comments"]]
    assert texts == [NEW_TEXT, *(row["text"] for row in others)]


def assign(staff: Staff, pk: int) -> None:
    """Run an action that asks on a page who works on the ticket."""
    action = {"model": TICKET, "action": "assign", "pks": [pk]}
    page = staff.call("run_action", **action)["page"]
    assert "Who works on 1 ticket?" in str(page)
    agent = next(option for option in options_of(page, "assignee") if option["title"] == "agent")
    done = staff.call("run_action", **action, form={"assignee": agent["const"]})
    assert done == {"done": True, "messages": ["Assigned to agent."]}
    assert staff.asked.pop().startswith("Assign selected tickets: #")
    values = staff.call("get", model=TICKET, pk=pk)["values"]
    assert values["assignee"]["label"] == "agent"


def options_of(page: Any, name: str) -> Any:
    return page["fields"][name]["oneOf"]


def delete(staff: Staff, pk: int) -> None:
    """Delete a ticket after its user has seen what goes with it."""
    staff.asked.clear()
    done = staff.call("delete", model=TICKET, pk=pk)
    (question,) = staff.asked
    assert question.startswith(f"Delete #{pk} ")
    assert "comment" in question
    assert done["deleted"]["tickets"] == 1
    filters = {"id": pk}
    assert staff.call("search", model=TICKET, filters=filters)["rows"] == []
