"""Finding skills, and saying who may use them."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from django_mcp import Server, conf, registry
from django_mcp.contrib.skills import declaration, finding, skill
from django_mcp.contrib.skills.declaration import SKILLS
from django_mcp.core.components.base import ConfigurationError
from django_mcp.testing import Client
from tests.contrib.skills.conftest import Folder, uris


@pytest.mark.parametrize(
    ("paths", "options", "said"),
    [
        (["refund"], {}, "no skill 'refund'.*Did you mean 'refunds'"),
        (["refunds/x"], {}, "no skill 'refunds/x'"),
        ([], {}, "names no skill"),
        (["refunds"], {"permision": "x.y"}, "no option 'permision'.*Did you mean 'permission'"),
        (["refunds"], {"name": "other"}, "no option 'name'"),
        (["refunds"], {"permission": "everybody"}, "permission of skills.refunds is"),
        (["refunds"], {"permission": 7}, "permission of skills.refunds is"),
        (["refunds"], {"group": "a b"}, "The group of skills.refunds is 'a b'"),
        (["refunds", "refunds"], {}, "declared twice"),
    ],
)
def test_declaration_that_cannot_work_is_refused(
    folder: Folder, server: Server, paths: list[str], options: Any, said: str
) -> None:
    folder.skill("refunds")

    with pytest.raises(ConfigurationError, match=said):
        skill(*paths, server=server, **options)


async def test_skill_without_declaration_is_served_by_the_default_server(
    folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "default", Server("site"))
    SKILLS.serve_on(registry.default)
    folder.skill("refunds")
    folder.skill("returns")
    skill("returns", server=server)

    async with Client(registry.default) as client:
        listed = await uris(client)
    assert "skill://refunds/SKILL.md" in listed
    assert "skill://returns/SKILL.md" not in listed
    # The guide of the package is for sites that name it.
    assert "skill://django-mcp/SKILL.md" not in listed


async def test_skill_is_served_by_several_servers(folder: Folder, server: Server) -> None:
    other = Server("other")
    folder.skill("refunds")
    skill("refunds", server=[server, other])

    for each in (server, other):
        async with Client(each) as client:
            assert await uris(client) == ["skill://refunds/SKILL.md"]


async def test_order_of_skills_is_that_of_components(folder: Folder, server: Server) -> None:
    folder.skill("a")
    folder.skill("b")
    skill("a", server=server, order=2)
    skill("b", server=server, order=1)

    async with Client(server) as client:
        assert await uris(client) == ["skill://b/SKILL.md", "skill://a/SKILL.md"]


async def test_skill_below_another_one_has_its_declaration(folder: Folder, server: Server) -> None:
    folder.skill("outer")
    folder.skill("outer/inner")
    skill("outer", server=server, permission=lambda frame: False)

    async with Client(server) as client:
        assert await uris(client) == []


async def test_prompt_has_the_body_for_clients_that_know_no_skills(
    client_for: Any, folder: Folder, server: Server
) -> None:
    folder.skill("refunds", "# Refunds\n\nSee [a](a.md).\n")
    folder.skill("returns", "# Returns\n")
    folder.write("refunds/a.md", "A")
    skill("refunds", server=server, prompt=True, title="Refund")
    skill("returns", server=server, prompt=True)

    async with client_for(server) as client:
        prompts = {each["name"]: each for each in await client.list_prompts()}
        texts = {
            name: [
                message["content"]["text"]
                for message in (await client.request("prompts/get", {"name": name}))["messages"]
            ]
            for name in prompts
        }
    assert prompts["refunds"]["description"] == "How to do refunds"
    assert texts["refunds"] == [
        "# Refunds\n\nSee [a](a.md).",
        "Relative links lead to resources below skill://refunds/",
    ]
    assert texts["returns"] == ["# Returns"]


def test_folder_of_an_app_and_of_the_project_are_searched(folder: Folder) -> None:
    folder.skill("own")

    found = finding.find().skills
    assert found["own"].source == str(folder.root / "own")
    assert found["refunds"].source == "example_site.helpdesk.skills.refunds"
    assert found["checklist/review"].root.module == "example_site.conformance.skills"


def test_first_of_two_folders_is_served(folder: Folder) -> None:
    folder.skill("refunds")

    found = finding.find()
    assert found.skills["refunds"].folder == folder.root / "refunds"
    assert [other.source for _, other in found.twice] == ["example_site.helpdesk.skills.refunds"]


@pytest.mark.parametrize("value", ["skills", ["skills"], [7]])
def test_folders_are_absolute_paths(settings: Settings, value: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": value}
    with pytest.raises(ImproperlyConfigured, match="SKILLS_DIRS"):
        conf.get()


def test_module_has_only_its_public_name() -> None:
    from django_mcp.contrib import skills

    assert skills.skill is declaration.skill
    with pytest.raises(AttributeError, match="has no attribute 'skil'"):
        skills.skil  # noqa: B018 - reading it is the test
