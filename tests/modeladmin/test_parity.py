"""A browser and the tools do the same: operations at random, each done in both ways.

After each of them, the rows, the entries of the history, the refusals and the errors are equal.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.utils import timezone

from django_mcp import Server
from django_mcp.modeladmin import admin_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Customer, Refund, Ticket
from tests.modeladmin import parity_site
from tests.modeladmin.browser import Browser

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.modeladmin.conftest import Staff

MODELS = (User, Group, Customer, Ticket, Comment, Refund)
WORDS = ("Acme", "Umbrella", "printer", "screen", "", "a b", "x" * 120, "Ärger", "<b>")
OUTCOMES = ("saved", "refused", "errors", "rows")
NOT_COMPARED = ("password", "last_login")


class Draw:
    """Values at random, valid and invalid ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self) -> str:
        return self.random.choice(WORDS)

    def pk(self, model: Any) -> Any:
        keys = [*model.objects.order_by("pk").values_list("pk", flat=True)]
        return self.random.choice([*keys, 9999]) if self.random.random() < 0.9 or not keys else 9999

    def maybe(self, value: Any) -> Any:
        return value if self.random.random() < 0.7 else None

    def values(self, model: Any, *, is_new: bool) -> dict[str, Any]:
        """Some fields of the form of a model."""
        drawn = {name: draw() for name, draw in self.fields(model, is_new).items()}
        if is_new:
            return drawn
        count = self.random.randint(1, min(3, len(drawn)))
        return {name: drawn[name] for name in self.random.sample([*drawn], count)}

    def fields(self, model: Any, is_new: bool) -> Mapping[str, Callable[[], Any]]:
        pick = self.random.choice
        of_model: dict[Any, dict[str, Callable[[], Any]]] = {
            Customer: {"name": self.word, "email": self.email, "city": self.word},
            Ticket: {
                "customer": lambda: self.pk(Customer),
                "subject": self.word,
                "description": self.word,
                "status": lambda: pick(["open", "closed", "odd"]),
                "priority": lambda: pick(["low", "urgent"]),
                "assignee": lambda: self.maybe(self.pk(User)),
                "created": lambda: "2026-01-02T03:04:05Z",
            },
            Refund: {
                "ticket": lambda: self.pk(Ticket),
                "amount": lambda: pick(["12.50", "3", "-", "99999999"]),
                "reason": self.word,
                "requested_by": lambda: self.maybe(self.pk(User)),
            },
            Group: {"name": self.word, "permissions": self.permissions},
        }
        if model is not User:
            return of_model[model]
        if is_new:
            return {"username": self.word, "usable_password": lambda: "false"}
        return {
            "username": self.word,
            "first_name": self.word,
            "email": self.email,
            "is_active": lambda: True,
            "groups": lambda: [pk for pk in [self.pk(Group)] if pk != 9999],
        }

    def email(self) -> str:
        return self.random.choice(["a@example.org", "b@example.org", "c@example.org", "no"])

    def permissions(self) -> list[int]:
        keys = [*Permission.objects.order_by("pk").values_list("pk", flat=True)]
        return sorted(self.random.sample(keys, 2))

    def rows(self, pk: Any) -> dict[str, list[dict[str, Any]]]:
        """Rows of the comments of a ticket."""
        rows: list[dict[str, Any]] = []
        if pk is not None:
            for comment in Comment.objects.filter(ticket=pk).order_by("pk"):
                change = self.random.choice(["keep", "text", "delete"])
                if change == "text":
                    rows.append({"pk": comment.pk, "text": self.word()})
                elif change == "delete":
                    rows.append({"pk": comment.pk, "delete": True})
        for _ in range(self.random.randint(0, 2)):
            author = self.maybe(self.pk(User))
            rows.append(
                {"text": self.word() or "t", **({} if author is None else {"author": author})}
            )
        return {"comments": rows} if rows else {}


def snapshot() -> dict[str, Any]:
    """All rows, and the history, of which the times and the programs are left out."""
    shot: dict[str, Any] = {}
    for model in MODELS:
        fields = [field for field in model._meta.fields if field.name not in NOT_COMPARED]
        objects: Any = model._default_manager
        shot[model.__name__] = [
            [without_now(field.value_from_object(row)) for field in fields]
            for row in objects.order_by("pk")
        ]
    shot["groups"] = [*User.groups.through._default_manager.order_by("pk").values_list()]
    shot["permissions"] = [*Group.permissions.through._default_manager.order_by("pk").values_list()]
    shot["history"] = [
        (entry.user_id, entry.content_type_id, entry.object_id, entry.object_repr,
         entry.action_flag, message_of(entry))
        for entry in LogEntry.objects.order_by("pk")
    ]  # fmt: skip
    return shot


def without_now(value: Any) -> Any:
    is_now = isinstance(value, datetime) and timezone.now() - value < timedelta(minutes=5)
    return "now" if is_now else value


def message_of(entry: LogEntry) -> Any:
    if not entry.change_message.startswith("["):
        return entry.change_message
    return [part for part in json.loads(entry.change_message) if "mcp" not in part]


class Tools:
    """The same operations by tools."""

    def __init__(self, server: Server, user: User) -> None:
        self.server = server
        self.user = user

    def call(self, tool: str, model: Any, **arguments: Any) -> Any:
        with SyncClient(self.server, user=self.user) as client:
            return client.call_tool(tool, {"model": model._meta.label, **arguments})

    def save(self, model: Any, pk: Any, values: Any, rows: Any) -> Any:
        tool = "add" if pk is None else "change"
        key = {} if pk is None else {"pk": pk}
        result = self.call(tool, model, **key, values=values, inlines=rows)
        if not result.is_error:
            return "saved"
        first, *lines = result.text.splitlines()
        return sorted(lines) if first == "The form is not valid." else "refused"

    def delete(self, model: Any, pk: Any) -> Any:
        return self._in_two_steps("delete", model, pk=pk)

    def run_action(self, model: Any, action: str, pks: list[Any]) -> Any:
        return self._in_two_steps("run_action", model, action=action, pks=pks)

    def _in_two_steps(self, tool: str, model: Any, **arguments: Any) -> Any:
        preview = self.call(tool, model, **arguments)
        if preview.is_error:
            return "refused"
        confirm = json.loads(preview.text)["confirm"]
        result = self.call(tool, model, **arguments, confirm=confirm)
        return "refused" if result.is_error else "saved"

    def search(self, model: Any, query: Mapping[str, Any]) -> Any:
        filters = {name: value for name, value in query.items() if name != "q"}
        text = query.get("q", "")
        result = self.call("search", model, text=text, filters=filters, limit=100)
        if not result.is_error:
            return [row["pk"] for row in json.loads(result.text)["rows"]]
        return "no such list" if "no such filter" in result.text else "refused"


class ToolsOfModels(Tools):
    """The same operations by the tools that each model has of its own."""

    def call(self, tool: str, model: Any, **arguments: Any) -> Any:
        options = model._meta
        name = f"{tool}_{options.app_label}_{options.model_name}"
        with SyncClient(self.server, user=self.user) as client:
            return client.call(name, **arguments)


def operations(draw: Draw) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yield operations, each drawn when it is needed: its name, its model and its arguments."""
    offered = (User, Group, Customer, Ticket, Ticket, Refund)
    while True:
        model = draw.random.choice(offered)
        name = draw.random.choice(["add", "change", "change", "delete", "run_action", "search"])
        if name == "add":
            rows = draw.rows(None) if model is Ticket else {}
            yield "save", model, (None, draw.values(model, is_new=True), rows)
        elif name == "change":
            pk = draw.pk(model)
            rows = draw.rows(pk) if model is Ticket else {}
            yield "save", model, (pk, draw.values(model, is_new=False), rows)
        elif name == "delete":
            yield "delete", model, (draw.pk(model),)
        elif name == "run_action":
            actions = ["delete_selected", "close"] if model is Ticket else ["delete_selected"]
            pks = sorted({draw.pk(model) for _ in range(2)})
            yield "run_action", model, (draw.random.choice(actions), pks)
        else:
            queries = [{"q": draw.word()}, {}, {"odd": "1"}, {"pk__gt": "2"}]
            yield "search", model, (draw.random.choice(queries),)


def people(staff: Staff) -> list[User]:
    """A superuser, somebody with some permissions, and somebody with those of objects."""
    some = ("view_ticket", "change_ticket", "view_comment", "add_comment", "view_customer")
    sam = staff(*(f"helpdesk.{name}" for name in some), "auth.view_user", "helpdesk.add_refund")
    owen = staff("helpdesk.change_comment", "helpdesk.view_customer", name=parity_site.OWNER)
    return [User.objects.create_superuser("root"), sam, owen]


def furnish(users: list[User]) -> None:
    for number, name in enumerate(("Acme", "Umbrella", "Initech")):
        customer = Customer.objects.create(name=name, email=f"{name}@example.org", city="Graz")
        for _ in range(3):
            ticket = Ticket.objects.create(
                customer=customer, subject="s", description="d", assignee=users[number]
            )
            Comment.objects.create(ticket=ticket, text="c")
        Refund.objects.create(ticket=ticket, amount="1.00", reason="r")
        Group.objects.create(name=f"Group {number}")


class Undo(Exception):
    """Ends the transaction of one of the two ways."""


def done(way: Any, name: str, model: Any, arguments: Any, *, keep: bool) -> Any:
    """Do an operation; return its outcome and what there is then."""
    result: Any = None
    try:
        with transaction.atomic():
            outcome = getattr(way, name)(model, *arguments)
            result = (outcome, snapshot())
            if not keep:
                raise Undo
    except Undo:
        pass
    return result


def compare(
    staff: Staff, seed: int, count: int, *, one_set_per_model: bool = False
) -> Counter[tuple[str, str, str]]:
    users = people(staff)
    furnish(users)
    server = Server("parity")
    admin_tools(parity_site.site, server=server, prefix="", one_set_per_model=one_set_per_model)
    tools = ToolsOfModels if one_set_per_model else Tools
    draw = Draw(seed)
    counts: Counter[tuple[str, str, str]] = Counter()
    drawn = operations(draw)
    browsers = {user.pk: Browser("parity", user) for user in users}
    for number in range(count):
        user = draw.random.choice(users)
        user = User.objects.filter(pk=user.pk).first() or user
        name, model, arguments = next(drawn)
        if model is User and name != "search" and arguments[0] in browsers:
            continue  # The three stay as they are.
        if name == "run_action" and model is User and browsers.keys() & {*arguments[1]}:
            continue
        in_browser = done(browsers[user.pk], name, model, arguments, keep=False)
        by_tool = done(tools(server, user), name, model, arguments, keep=True)
        context = f"seed {seed}, {number}: {user} {name} {model.__name__} {arguments}"
        assert by_tool[0] == in_browser[0], f"{context}: {by_tool[0]}, not {in_browser[0]}"
        assert by_tool[1] == in_browser[1], context
        outcome = in_browser[0] if isinstance(in_browser[0], str) else kind_of(name)
        counts[user.username, name, outcome] += 1
    return counts


def kind_of(name: str) -> str:
    return "rows" if name == "search" else "errors"


@pytest.fixture(autouse=True)
def parity_urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.modeladmin.parity_site"


@pytest.mark.parametrize("one_set_per_model", [False, True])
def test_tools_do_what_a_browser_does(staff: Staff, one_set_per_model: bool) -> None:
    counts = compare(staff, seed=39, count=60, one_set_per_model=one_set_per_model)
    assert {outcome for _, _, outcome in counts} >= {"saved", "refused", "errors", "rows"}


@pytest.mark.nightly
@pytest.mark.parametrize("one_set_per_model", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tools_do_what_a_browser_does_at_length(
    staff: Staff, seed: int, one_set_per_model: bool
) -> None:
    counts = compare(staff, seed=seed, count=200, one_set_per_model=one_set_per_model)
    for key, number in sorted(counts.items()):
        print(*key, number)
