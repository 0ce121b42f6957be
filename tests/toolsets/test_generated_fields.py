"""Fields whose values the database generates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import Server
from django_mcp.testing import SyncClient
from django_mcp.toolsets import ModelToolset


@pytest.fixture
def box(transactional_db: None) -> Iterator[Any]:
    with isolate_apps("example_site.helpdesk"):

        class Box(models.Model):
            side = models.IntegerField(default=1)
            label = models.CharField(max_length=9, unique=True)
            area = models.GeneratedField(
                expression=models.F("side") * models.F("side"),
                output_field=models.IntegerField(),
                db_persist=True,
            )

            class Meta:
                app_label = "helpdesk"

        with connection.schema_editor() as editor:
            editor.create_model(Box)
        yield Box
        with connection.schema_editor() as editor:
            editor.delete_model(Box)


def test_rows_are_created_and_updated_with_the_values_that_the_database_generates(
    box: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("boxes")
    declared = {
        "model": box,
        "fields": ["pk", "label", "area"],
        "write_fields": ["side", "label"],
        "operations": ["create", "update"],
    }
    type("Boxes", (ModelToolset,), declared)().register(server)
    user = User.objects.create(username="ann", is_superuser=True)
    with SyncClient(server, user=user) as client:
        created = client.call_tool("create_box", {"side": 3, "label": "a"}).assert_ok()
        assert created.structured["area"] == 9
        key = created.structured["pk"]
        updated = client.call_tool("update_box", {"pk": key, "side": 4}).assert_ok()
        assert updated.structured["area"] == 16
        # The other row is found by the database alone.
        monkeypatch.setattr(box, "validate_unique", lambda self, exclude: None)
        conflict = client.call_tool("create_box", {"label": "a"})
    conflict.assert_error("conflict with those of another row")
