"""manage.py mcp_events: lists the types of events, emits one, and delivers to webhooks."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from django_mcp import registry
from django_mcp.contrib.events import delivery
from django_mcp.contrib.events.declaration import KIND, EventComponent
from django_mcp.contrib.events.models import Subscription
from django_mcp.core.protocol.texts import similar


def events() -> Iterator[EventComponent]:
    """Yield the events of all servers."""
    registry.raise_broken()
    for server in registry.servers():
        for component in server.components.all():
            if component.kind == KIND and isinstance(component, EventComponent):
                yield component


def find(name: str, server: str | None) -> EventComponent:
    """Return the event of this name; raises CommandError, with a similar name, for none."""
    declared = list(events())
    matching = [each for each in declared if each.name == name and server in (None, _server(each))]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise CommandError(f"Several servers have the event {name!r}: name one with --server.")
    near = similar(name, [each.name for each in declared])
    question = f" Did you mean {near!r}?" if near else " See mcp_events list."
    raise CommandError(f"There is no event {name!r}.{question}")


def _server(component: EventComponent) -> str:
    return "" if component.event.server is None else component.event.server.name


class Command(BaseCommand):
    help = "Lists the types of events, emits one, and delivers to webhooks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        show = actions.add_parser("list", help="list the types of events, with their subscriptions")
        show.add_argument("--json", action="store_true", help="print them as JSON")
        emit = actions.add_parser("emit", help="report that an event has happened")
        emit.add_argument("event", help="its name")
        emit.add_argument(
            "value", help="the payload as JSON, or the primary key of the object of its model"
        )
        emit.add_argument("--id", help="a stable id: receivers recognize a repetition by it")
        emit.add_argument("--server", help="where several servers have an event of this name")
        deliver = actions.add_parser("deliver", help="deliver to webhooks in this process")
        deliver.add_argument("--once", action="store_true", help="end when nothing is due")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        run: dict[str, Callable[..., None]] = {
            "list": self._list,
            "emit": self._emit,
            "deliver": self._deliver,
        }
        run[action](**options)

    def _list(self, **options: Any) -> None:
        rows = [_facts(component) for component in events()]
        if options["json"]:
            self.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False))
            return
        if not rows:
            self.stdout.write("There are no events.")
        for row in rows:
            delivery = ", ".join(row["delivery"])
            self.stdout.write(
                f"{row['server']}  {row['name']}  {delivery}  {row['subscriptions']} webhooks"
            )

    def _deliver(self, once: bool, **_: Any) -> None:
        delivery.run_command(once=once)

    def _emit(self, event: str, value: str, id: str | None, server: str | None, **_: Any) -> None:
        component = find(event, server)
        payload = _value(component, value)
        try:
            emitted = component.event.emit(payload, id=id)
        except ValueError as error:  # An id that cannot be sent.
            raise CommandError(str(error)) from error
        if emitted is None:
            self.stdout.write("Nobody listens: nothing was written.")
        else:
            self.stdout.write(f"Emitted {emitted}")


def _value(component: EventComponent, value: str) -> Any:
    model = component.event.model
    if model is not None:
        try:
            return model._base_manager.get(pk=value)
        except (model.DoesNotExist, ValueError, ValidationError) as error:
            raise CommandError(f"There is no {model.__name__} with the key {value!r}.") from error
    try:
        payload = json.loads(value)
        component.event.dump(payload)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"This is not a payload of {component.name}: {error}") from error
    return payload


def _facts(component: EventComponent) -> dict[str, Any]:
    server = _server(component)
    live = Subscription.objects.current().live().filter(server=server, event=component.name)
    return {
        "server": server,
        "name": component.name,
        "delivery": [*component.delivery],
        "source": component.source,
        "subscriptions": live.count(),
    }
