"""Columns of files: rows show the URL by which anybody else names the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.files.storage import InMemoryStorage
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import Frame, Server
from django_mcp.testing import Client
from django_mcp.toolsets import ModelToolset

if TYPE_CHECKING:
    from pytest_django import Settings

LONG = "scans/" + "a" * 90
URL = "https://shop.example/media/"


@pytest.fixture
def scan(transactional_db: None, settings: Settings) -> Iterator[Any]:
    """A model with files, and two rows: the second has none."""
    settings.MEDIA_URL = "/media/"
    with isolate_apps("tests.toolsets.desk"):

        class Scan(models.Model):
            page = models.FileField(storage=InMemoryStorage(), blank=True)
            back = models.ImageField(storage=InMemoryStorage(), null=True)
            of = models.ForeignKey("self", on_delete=models.CASCADE, null=True)

            class Meta:
                app_label = "toolset_desk"

        with connection.schema_editor() as editor:
            editor.create_model(Scan)
        first = Scan._default_manager.create(page=LONG, back="scans/b.png")
        Scan._default_manager.create(of=first)
        yield Scan
        with connection.schema_editor() as editor:
            editor.delete_model(Scan)


def server_of(model: Any) -> Server:
    declared = {
        "model": model,
        "fields": ["pk", "page", "back", "of__page"],
        "filter_fields": {"page": ["startswith"]},
        "group_fields": ["back"],
        "operations": ["list", "get", "aggregate"],
        "max_text": 10,
        "ordering": ["pk"],
    }
    server = Server("scans")
    type("Scans", (ModelToolset,), declared)().register(server)

    @server.tool
    def newest(frame: Frame) -> dict[str, Any]:
        """Return the files of the first row, as a handler writes them."""
        row = model.objects.first()
        return {"page": row.page, "back": row.back}

    return server


async def test_rows_and_results_have_one_absolute_url(scan: Any, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://shop.example"}
    user = await User.objects.acreate(username="ann", is_superuser=True)
    async with Client(server_of(scan), user=user) as client:
        listed = (await client.call_tool("list_scans")).structured["items"]
        pk = listed[0]["pk"]
        got = (await client.call_tool("get_scan", {"pk": pk})).structured
        by_hand = (await client.call_tool("newest")).structured
        groups = (await client.call_tool("aggregate_scans", {"group_by": ["back"]})).structured
        tools = {tool["name"]: tool for tool in await client.list_tools()}

    files = {"page": f"{URL}{LONG}", "back": f"{URL}scans/b.png"}
    assert listed[0] == got == {"pk": pk, **files, "of__page": None}
    assert listed[1] == {"pk": pk + 1, "page": None, "back": None, "of__page": files["page"]}
    assert by_hand == files
    assert {group["back"] for group in groups["groups"]} == {files["back"], None}
    schema = tools["get_scan"]["outputSchema"]["properties"]["page"]
    assert schema == {"title": "Page", "type": ["string", "null"]}


async def test_host_is_that_of_the_request_without_a_base_url(scan: Any) -> None:
    user = await User.objects.acreate(username="ann", is_superuser=True)
    for transport, start in (("http", "http://testserver/media/"), ("stdio", "/media/")):
        async with Client(server_of(scan), user=user, transport=transport) as client:  # type: ignore[arg-type]
            listed = (await client.call_tool("list_scans")).structured["items"]
            by_hand = (await client.call_tool("newest")).structured
        assert listed[0]["back"] == by_hand["back"] == f"{start}scans/b.png"


async def test_filters_compare_the_name_in_the_storage(scan: Any) -> None:
    user = await User.objects.acreate(username="ann", is_superuser=True)
    async with Client(server_of(scan), user=user) as client:
        for typed, found in (("scans/", 1), ("/media/", 0)):
            result = await client.call_tool("list_scans", {"page__startswith": typed})
            assert len(result.structured["items"]) == found


async def test_url_with_a_host_is_kept(scan: Any, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://shop.example"}
    user = await User.objects.acreate(username="ann", is_superuser=True)
    for prefix in ("https://cdn.example/", "//cdn.example/"):
        settings.MEDIA_URL = prefix
        async with Client(server_of(scan), user=user) as client:
            row = (await client.call_tool("newest")).structured
        assert row["back"] == "https://cdn.example/scans/b.png"
