"""Compares random operations of three users in the admin of their site with those of its tools.

It runs in the environment of a project, with its settings: python compare_admin.py SEED

Each operation is done by posting the pages of the admin, is rolled back, and is done by tools: with
the same outcome, the same errors by field, and afterwards the same rows and the same history.
"""

import json
import random
import re
import sys
from collections import Counter
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache

import django

OPERATIONS = 400
WORDS = ("Acme", "a b", "", "tea", "x" * 300, "Ärger", "<b>", "7")
DIFFERS = re.compile(r"[a-z0-9]{16,}", re.IGNORECASE)
"""What two writes have made by themselves, such as a key."""
MISSING = 99_999


def main():
    django.setup()
    from django.test.utils import setup_test_environment
    from real import data

    setup_test_environment()
    chance = random.Random(int(sys.argv[1]))
    data.create()
    run = Run(chance, passed_by=data.PASSED_BY)
    for number in range(OPERATIONS):
        run.once(number)
    run.report()
    sys.exit(bool(run.differences) or run.counts.total() < OPERATIONS / 2)


class Run:
    def __init__(self, chance, passed_by):
        from browser import Browser
        from django.contrib import admin

        from django_mcp import Server
        from django_mcp.modeladmin import admin_tools

        self.chance = chance
        self.counts = Counter()
        self.differences = []
        self.refused = []
        self.server = Server("parity", authenticators=[])
        admin_tools(server=self.server, prefix="", exclude=["django_mcp"])
        self.admins = [
            each for model, each in admin.site._registry.items()
            if model._meta.app_label != "django_mcp"
        ]  # fmt: skip
        self.passed_by = passed_by
        self.users = people(chance)
        self.browsers = {user.pk: Browser("admin", user) for user in self.users}

    def once(self, number):
        user = self.chance.choice([self.users[0], *self.users])
        model_admin = self.chance.choice(self.admins)
        name, arguments = Draw(self.chance, model_admin, self.users[0]).operation()
        model = model_admin.model
        if name != "search" and model._meta.label in self.passed_by:
            return
        by_tools = Tools(self.server, type(user).objects.get(pk=user.pk))
        in_browser = done(self.browsers[user.pk], name, model, arguments, keep=False)
        by_tool = done(by_tools, name, model, arguments, keep=True)
        what = f"{number}: {user} {name} {model._meta.label} {arguments}"
        if by_tool[0] != in_browser[0]:
            self.differences.append(f"{what}: {by_tool[0]}, not {in_browser[0]}; {by_tools.said}")
        elif by_tool[1] != in_browser[1]:
            unlike = [key for key in by_tool[1] if by_tool[1][key] != in_browser[1][key]]
            self.differences.append(f"{what}: other rows of {unlike}")
        outcome = in_browser[0]
        if not isinstance(outcome, str):
            outcome = "lists equal" if name == "search" else "errors"
        self.counts[user.username, outcome] += 1
        if outcome == "refused" and user == self.users[0]:
            self.refused.append(f"{what}: {by_tools.said}")

    def report(self):
        print(f"{len(self.admins)} models, {self.counts.total()} operations")
        outcomes = sorted({outcome for _, outcome in self.counts})
        print("user", *outcomes, sep=" | ")
        for user in self.users:
            numbers = (self.counts[user.username, outcome] for outcome in outcomes)
            print(user.username, *numbers, sep=" | ")
        print("Refused to the superuser, for example:", *self.refused[:5], sep="\n")
        print(f"{len(self.differences)} differences", *self.differences[:20], sep="\n")


def people(chance):
    """A superuser, somebody with half of the permissions, and somebody who may only look."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission

    users = get_user_model().objects
    root = users.create_superuser("root", "root@example.org", "x")
    some, reader = (
        users.create_user(name, f"{name}@example.org", "x", is_staff=True)
        for name in ("some", "reader")
    )
    permissions = [*Permission.objects.order_by("pk")]
    some.user_permissions.set(chance.sample(permissions, len(permissions) // 2))
    reader.user_permissions.set([each for each in permissions if each.codename.startswith("view_")])
    return [root, some, reader]


class Draw:
    """An operation at random, for one model."""

    def __init__(self, chance, model_admin, root):
        from django.test import RequestFactory

        self.chance = chance
        self.model_admin = model_admin
        self.model = model_admin.model
        self.request = RequestFactory().get("/")
        self.request.user = root

    def operation(self):
        names = ["add", "change", "change", "delete", "run_action", "search"]
        has_rows = self.model_admin.get_queryset(self.request).exists()
        name = self.chance.choice(names if has_rows else ["add", "add", "search"])
        if name == "add":
            return "save", (None, self.values(None), self.rows(None))
        if name == "change":
            pk = self.pk()
            obj = self.model_admin.get_queryset(self.request).filter(pk=pk).first()
            values = self.values(obj)
            some = self.chance.sample([*values], min(len(values), self.chance.randint(1, 3)))
            return "save", (pk, {field: values[field] for field in some}, self.rows(obj))
        if name == "delete":
            return "delete", (self.pk(),)
        if name == "run_action":
            actions = [*self.model_admin.get_actions(self.request)] or ["delete_selected"]
            pks = sorted({self.pk() for _ in range(2)}, key=str)
            return "run_action", (self.chance.choice(actions), pks)
        queries = [{"q": self.word()}, {}, {"odd": "1"}, {"pk__gt": "2"}]
        return "search", (self.chance.choice(queries),)

    def word(self):
        return self.chance.choice(WORDS)

    def pk(self):
        keys = [*self.model._base_manager.order_by("pk").values_list("pk", flat=True)]
        return self.chance.choice([*keys, *keys, *keys, MISSING])

    def values(self, obj):
        form = self.model_admin.get_form(self.request, obj, change=obj is not None)
        return self._of_fields(form.base_fields)

    def rows(self, obj):
        """Rows of the inlines."""
        if obj is None and self.chance.random() < 0.5:
            return {}
        rows = {}
        for formset, _ in self.model_admin.get_formsets_with_inlines(self.request, obj):
            if formset.model._meta.pk.name != "id" or self.chance.random() < 0.5:
                continue
            kept = {"id", "DELETE", formset.fk.name} if hasattr(formset, "fk") else {"id"}
            fields = {
                name: field for name, field in formset.form.base_fields.items() if name not in kept
            }
            drawn = [self._of_fields(fields) for _ in range(self.chance.randint(0, 1))]
            existing = formset(instance=obj).queryset if obj is not None else ()
            for row in existing:
                choice = self.chance.choice(["keep", "change", "delete"])
                if choice == "delete":
                    drawn.append({"pk": row.pk, "delete": True})
                elif choice == "change" and fields:
                    values = self._of_fields(fields)
                    name = self.chance.choice([*values]) if values else None
                    drawn.append({"pk": row.pk, **({name: values[name]} if name else {})})
            if drawn:
                rows[formset.get_default_prefix()] = drawn
        return rows

    def _of_fields(self, fields):
        drawn = {name: self.value(field) for name, field in fields.items()}
        return {name: value for name, value in drawn.items() if value is not SKIPPED}

    def value(self, field):
        """A value of a field of a form, mostly a valid one."""
        from django import forms

        if field.disabled or isinstance(field, (forms.FileField, forms.JSONField)):
            return SKIPPED
        if isinstance(field, forms.ModelMultipleChoiceField):
            keys = self._keys(field)
            return self.chance.sample(keys, min(2, len(keys)))
        if isinstance(field, forms.ModelChoiceField):
            keys = self._keys(field)
            empty = [] if field.required else [None]
            return self.chance.choice([*keys, *keys, *keys, *empty, MISSING])
        if isinstance(field, forms.ChoiceField):
            keys = [str(key) for key, _ in flat(field.choices) if key not in ("", None)]
            return self.chance.choice([*keys, *keys, *keys, "odd"])
        for kind, draw in self._kinds().items():
            if isinstance(field, kind):
                return draw()
        return SKIPPED

    def _keys(self, field):
        rows = () if field.queryset is None else field.queryset[:50]
        return [field.prepare_value(row) for row in rows]

    def _kinds(self):
        from django import forms

        pick = self.chance.choice
        return {
            forms.BooleanField: lambda: pick([True, False]),
            forms.DecimalField: lambda: pick(["12.50", "3", "0", "-", "99999999999"]),
            forms.IntegerField: lambda: pick([0, 1, 5, -1]),
            forms.DateTimeField: lambda: "2026-01-02T03:04:05Z",
            forms.SplitDateTimeField: lambda: "2026-01-02T03:04:05Z",
            forms.DateField: lambda: "2026-01-02",
            forms.EmailField: lambda: pick(["a@example.org", "no"]),
            forms.URLField: lambda: pick(["https://example.org/", "no"]),
            forms.SlugField: lambda: pick(["a-b", "a b", "tea"]),
            forms.CharField: self.word,
        }


SKIPPED = object()


def flat(choices):
    for key, label in choices:
        if isinstance(label, (list, tuple)):
            yield from label
        else:
            yield key, label


class Tools:
    """The operations by tools."""

    said = ""

    def __init__(self, server, user):
        self.server = server
        self.user = user

    def call(self, tool, model, **arguments):
        from django_mcp.testing import SyncClient

        with SyncClient(self.server, user=self.user, raise_exceptions=False) as client:
            result = client.call_tool(tool, {"model": model._meta.label, **arguments})
        self.said = result.text[:300]
        return result

    def save(self, model, pk, values, rows):
        key = {} if pk is None else {"pk": pk}
        tool = "add" if pk is None else "change"
        result = self.call(tool, model, **key, values=values, inlines=rows)
        if not result.is_error:
            return "saved"
        first, *lines = result.text.splitlines()
        return sorted(lines) if first == "The form is not valid." else "refused"

    def delete(self, model, pk):
        return self._in_two_steps("delete", model, pk=pk)

    def run_action(self, model, action, pks):
        return self._in_two_steps("run_action", model, action=action, pks=pks)

    def _in_two_steps(self, tool, model, **arguments):
        preview = self.call(tool, model, **arguments)
        if preview.is_error:
            return "refused"
        confirm = json.loads(preview.text)["confirm"]
        result = self.call(tool, model, **arguments, confirm=confirm)
        return "refused" if result.is_error else "saved"

    def search(self, model, query):
        filters = {name: value for name, value in query.items() if name != "q"}
        result = self.call("search", model, text=query.get("q", ""), filters=filters, limit=100)
        if not result.is_error:
            return [str(row["pk"]) for row in json.loads(result.text)["rows"]]
        return "no such list" if "no such filter" in result.text else "refused"


def done(way, name, model, arguments, *, keep):
    """Do an operation; return its outcome and what there is then."""
    with kept_if(keep):
        outcome = getattr(way, name)(model, *arguments)
        if name == "search" and isinstance(outcome, list):
            outcome = [*map(str, outcome)]
        return outcome, snapshot()


@contextmanager
def kept_if(keep):
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(not keep)


def snapshot():
    """All rows, and the history without its times and programs."""
    from django.contrib.admin.models import LogEntry

    shot = {
        model._meta.label: [
            tuple(without_own(field.value_from_object(row)) for field in model._meta.fields)
            for row in model._base_manager.order_by("pk")
        ]
        for model in models_with_rows()
    }
    shot["history"] = [
        (entry.user_id, entry.content_type_id, entry.object_id, without_own(entry.object_repr),
         entry.action_flag, message_of(entry))
        for entry in LogEntry.objects.order_by("pk")
    ]  # fmt: skip
    return shot


@cache
def models_with_rows():
    """The models that have a table, without sessions, the history and those of this package."""
    from django.apps import apps
    from django.db import connection

    tables = connection.introspection.table_names()
    left_out = ("sessions", "admin", "django_mcp")
    return [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_label not in left_out and model._meta.db_table in tables
    ]


def without_own(value):
    """The value without what two equal requests have made at different times."""
    from django.utils import timezone

    if isinstance(value, datetime) and timezone.is_aware(value):
        return "now" if abs(timezone.now() - value) < timedelta(minutes=20) else value
    return DIFFERS.sub("…", value) if isinstance(value, str) else value


def message_of(entry):
    if not entry.change_message.startswith("["):
        return entry.change_message
    return [part for part in json.loads(entry.change_message) if "mcp" not in part]


main()
