"""The skills of the example site: in commands, in the workbench, over WSGI and over stdio."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

from django_mcp import registry, routing
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.checks import check_skills
from django_mcp.contrib.skills.declaration import SKILLS
from django_mcp.contrib.skills.extension import facts
from django_mcp.testing import Client
from tests.contrib.skills.conftest import uris
from tests.http_client import stateless
from tests.wsgi.requests import environ, perform

TRIAGE = "skill://triage/SKILL.md"
DECLARATIONS = dict(SKILLS.declarations)
SERVERS = set(SKILLS._servers)


@pytest.fixture(autouse=True)
def _declared_by_the_site(_declared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SKILLS, "declarations", DECLARATIONS)
    monkeypatch.setattr(SKILLS, "_servers", SERVERS)
    for server in SERVERS:
        # The first test to read them may be one without the declarations of the site.
        for component in SKILLS._build(server):
            if server.components.find(component.kind, component.key) is None:
                server.components.add(component)


def test_skills_of_the_site_have_no_findings() -> None:
    assert check_skills(None) == []


@pytest.mark.django_db(transaction=True)
async def test_skills_of_the_helpdesk_are_for_those_who_can_use_their_tools() -> None:
    agent = await User.objects.acreate(username="agent")
    await agent.user_permissions.aadd(await Permission.objects.aget(codename="add_refund"))
    admin = await User.objects.acreate(username="admin", is_staff=True, is_superuser=True)
    listed = {}
    for user in (None, agent, admin):
        async with Client(user=user) as client:
            listed[user] = [uri.split("/")[2] for uri in await uris(client)]
            prompts = {each["name"] for each in await client.list_prompts()}
            assert ("refunds" in prompts) is (user is not None)
    assert listed == {
        None: ["triage"],
        agent: ["refunds", "triage"],
        admin: ["django-mcp", "refunds", "triage"],
    }


def test_command_lists_skills(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mcp_show", "--server", registry.default.name)
    assert "skill://refunds/SKILL.md" in (shown := capsys.readouterr().out)
    assert "example_site.helpdesk.skills.refunds" in shown

    call_command("mcp_show", TRIAGE, "--json")
    (fact,) = json.loads(capsys.readouterr().out)
    assert fact["app"] == "helpdesk"
    assert fact["listed"]["mimeType"] == "text/markdown"


def test_workbench_lists_skills() -> None:
    ((heading, text),) = facts(registry.default)
    assert str(heading) == "Skills"
    assert text.startswith("django-mcp (1: ")
    assert "refunds (2: " in text


def test_workbench_says_why_a_skill_is_not_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "SKILL.md").write_text("broken")
    root = finding.Root(tmp_path, str(tmp_path), False)
    broken = finding.Skill("triage", tmp_path, root)
    monkeypatch.setattr(finding, "find", lambda: finding.Found({"triage": broken}, [], {}, {}))

    ((_, text),) = facts(registry.default)
    assert text.startswith("triage (it has no front matter")


@pytest.mark.django_db(transaction=True)
def test_skills_are_served_by_a_wsgi_server() -> None:
    application = routing.mount(get_wsgi_application())

    def result(method: str, **params: Any) -> Any:
        body, headers = stateless(method, params)
        headers |= {"Host": "testserver"}
        sent = environ(path="/conformance", headers=headers, body=body.encode())
        reply = perform(application, sent)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)["result"]

    first, second = result("skills/list")["skills"]
    assert first["uri"] == "skill://checklist/SKILL.md"
    assert result("skills/get", uri=second["uri"])["skill"] == second
    assert len(result("resources/directory/read", uri="skill://checklist")["resources"]) == 3


def test_server_without_skills_has_no_facts() -> None:
    assert [*facts(registry.get("helpdesk-admin"))] == []
