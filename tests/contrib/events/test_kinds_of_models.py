"""Events of models with proxies, children, expressions and values that the database computes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps as installed
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, models
from django.test.utils import isolate_apps
from pydantic import BaseModel

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.contrib.events import Event, event, interest
from django_mcp.contrib.events.models import Occurrence
from django_mcp.pubsub import model_changes as signals_of_models

pytestmark = pytest.mark.django_db(transaction=True)


class AccountData(BaseModel):
    doubled: int


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with isolate_apps("example_site.helpdesk") as apps:

        class Account(models.Model):
            balance = models.IntegerField(default=0)
            doubled = models.GeneratedField(
                expression=models.F("balance") * 2,
                output_field=models.IntegerField(),
                db_persist=True,
            )
            owners = models.ManyToManyField("self")
            tags = models.JSONField(default=list)
            opened = models.DateField(null=True)

            class Meta:
                app_label = "helpdesk"

        class Listed(Account):
            class Meta:
                app_label = "helpdesk"
                proxy = True

        class Savings(Account):
            rate = models.IntegerField(default=1)

            class Meta:
                app_label = "helpdesk"

        class Parcel(models.Model):
            id = models.UUIDField(primary_key=True, default=uuid4)
            facts = models.JSONField(default=dict, encoder=DjangoJSONEncoder)

            class Meta:
                app_label = "helpdesk"

        made: list[Any] = [Account, Savings, Parcel]
        with connection.schema_editor() as editor:
            for model in made:
                editor.create_model(model)
        monkeypatch.setattr(signals_of_models, "apps", apps)
        for kind in made:
            # A copy of an object asks the registry for its class.
            models_by_name = installed.all_models["helpdesk"]
            monkeypatch.setitem(models_by_name, kind.__name__.lower(), kind)
        yield SimpleNamespace(account=Account, listed=Listed, savings=Savings, parcel=Parcel)
        with connection.schema_editor() as editor:
            for model in reversed(made):
                editor.delete_model(model)


def declared(server: Server, model: Any, **options: Any) -> Event:
    made = event("account.changed", model=model, permission=None, server=server, **options)

    @made
    class Changed:
        """An account has changed."""

        def may_receive(self, account: Any, frame: Frame) -> bool:
            return True

        def payload(self, account: Any, frame: Frame) -> AccountData:
            return AccountData(doubled=account.doubled)

    made.__mcp_register__(server)
    interest.begin("desk", made.name)
    return made


def keys() -> list[str]:
    return [*Occurrence.objects.order_by("pk").values_list("object_key", flat=True)]


def test_condition_compares_the_value_of_an_expression(server: Server, kinds: Any) -> None:
    declared(server, kinds.account, when=lambda account: account.balance <= 0)
    row = kinds.account.objects.create(balance=2)
    row.balance = models.F("balance") - 1
    row.save()
    assert keys() == []
    row.refresh_from_db()
    row.balance = models.F("balance") - 1
    row.save()
    assert keys() == [str(row.pk)]
    row.balance = -1
    row.save()
    assert keys() == [str(row.pk)]


def test_condition_compares_the_value_that_the_database_has_generated(
    server: Server, kinds: Any
) -> None:
    declared(server, kinds.account, when=lambda account: account.doubled > 4)
    row = kinds.account.objects.create(balance=1)
    row.balance = 3
    row.save()
    row.balance = 4
    row.save()
    assert keys() == [str(row.pk)]


def test_generated_value_is_new_after_a_save_of_other_fields(server: Server, kinds: Any) -> None:
    declared(server, kinds.account, when=lambda account: account.doubled > 4)
    row = kinds.account.objects.create(balance=1)
    row.refresh_from_db()
    row.balance = 3
    row.save(update_fields=["balance"])
    assert keys() == [str(row.pk)]


def test_condition_compares_a_value_that_was_changed_in_place(server: Server, kinds: Any) -> None:
    declared(server, kinds.account, when=lambda account: "large" in account.tags)
    row = kinds.account.objects.get(pk=kinds.account.objects.create().pk)
    row.tags.append("large")
    row.save()
    row.save()
    assert keys() == [str(row.pk)]


def test_event_of_a_proxy_happens_for_all_rows_of_its_table(server: Server, kinds: Any) -> None:
    declared(server, kinds.listed)
    rows = [kind.objects.create() for kind in (kinds.account, kinds.listed)]
    assert keys() == [str(row.pk) for row in rows]


def test_row_of_a_child_is_deleted_once(server: Server, kinds: Any) -> None:
    made = declared(server, kinds.account, on="deleted")
    row = kinds.savings.objects.create(balance=3)
    key = str(row.pk)
    row.delete()
    kinds.savings.objects.create().delete(keep_parents=True)
    occurrence = Occurrence.objects.get()
    assert occurrence.object_key == key
    assert made.restore(occurrence.data, occurrence.event_id).doubled == 6


def test_object_with_deferred_fields_is_deleted_with_all_its_values(
    server: Server, kinds: Any
) -> None:
    made = declared(server, kinds.account, on="deleted")
    kinds.account.objects.create(balance=21)
    kinds.account.objects.only("pk").get().delete()
    occurrence = Occurrence.objects.get()
    restored = made.restore(occurrence.data, occurrence.event_id)
    assert (restored.balance, restored.doubled) == (21, 42)


def test_object_with_the_text_of_a_date_and_an_expression_is_deleted_with_its_values(
    server: Server, kinds: Any
) -> None:
    made = declared(server, kinds.account, on="deleted")
    row = kinds.account.objects.create(opened="2026-01-31", balance=2)
    row.balance = models.F("balance") + 1
    row.save()
    assert row.delete()[0] == 1
    occurrence = Occurrence.objects.get()
    restored = made.restore(occurrence.data, occurrence.event_id)
    assert (restored.opened, restored.balance) == (date(2026, 1, 31), 3)


def test_object_whose_key_is_a_text_in_another_form_is_found(server: Server, kinds: Any) -> None:
    made = declared(server, kinds.parcel)
    row = kinds.parcel.objects.create(id=uuid4().hex)
    frame: Any = None
    found = made.rows(made.subscription(None), frame, keys())
    assert [*found] == keys()
    row.refresh_from_db()
    assert [*found.values()] == [row]


def test_object_with_values_of_a_json_encoder_is_deleted_as_its_row_has_them(
    server: Server, kinds: Any
) -> None:
    made = declared(server, kinds.parcel, on="deleted")
    row = kinds.parcel.objects.create(facts={"sent": date(2026, 7, 28)})
    row.delete()
    occurrence = Occurrence.objects.get()
    restored = made.restore(occurrence.data, occurrence.event_id)
    assert restored.facts == {"sent": "2026-07-28"}


def test_object_with_deferred_fields_whose_row_is_gone_is_no_event(
    server: Server, kinds: Any
) -> None:
    declared(server, kinds.account, on="deleted")
    pk = kinds.account.objects.create().pk
    former = kinds.account.objects.only("pk").get()
    kinds.account.objects.get().delete()
    former.delete()
    assert keys() == [str(pk)]


def test_relation_to_many_rows_is_no_argument(server: Server, kinds: Any) -> None:
    def payload(self: Any, account: Any, frame: Frame) -> AccountData:
        return AccountData(doubled=0)

    members = {"payload": payload, "__annotations__": {"owners": int}}
    with pytest.raises(ConfigurationError, match="'owners', which is no field of Account"):
        event("account.changed", model=kinds.account)(type("Changed", (), members))


def test_key_of_several_columns_is_an_error(server: Server) -> None:
    with isolate_apps("example_site.helpdesk"):

        class Line(models.Model):
            pk = models.CompositePrimaryKey("order", "number")
            order = models.IntegerField()
            number = models.IntegerField()

            class Meta:
                app_label = "helpdesk"

    with pytest.raises(ConfigurationError, match="has several columns"):
        declared(server, Line)
