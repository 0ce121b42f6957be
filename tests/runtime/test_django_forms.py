"""Django forms as elicitation schemas."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group, User

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.core.frame.client import input_requests
from django_mcp.testing import Client
from tests.spec import spec
from tests.waiting import until


class Visit(forms.Form):
    name = forms.CharField(label="Your name", help_text="As on the badge", max_length=20)
    mail = forms.EmailField(required=False)
    day = forms.DateField()
    guests = forms.IntegerField(min_value=0, max_value=3, initial=1)
    budget = forms.DecimalField(max_value=Decimal("9.5"), required=False)
    lunch = forms.ChoiceField(choices=[("", "---"), ("v", "Vegetables"), ("f", "Fish")])
    tours = forms.MultipleChoiceField(choices=[("a", "Attic"), ("c", "Cellar")], required=False)
    photo = forms.BooleanField(required=False)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name == "Nobody":
            raise forms.ValidationError("Nobody is not invited")
        return name


CONTENT = {"name": "Ada", "day": "2026-11-20", "guests": 2, "lunch": "v", "tours": ["a"]}


def requested_schema() -> dict[str, Any]:
    schema: dict[str, Any] = input_requests.form("When?", Visit).params["requestedSchema"]
    return schema


class TestFormSchema:
    def test_schema_contains_labels_help_texts_bounds_and_initial_values(self) -> None:
        properties = requested_schema()["properties"]
        assert properties["name"] == {
            "type": "string",
            "title": "Your name",
            "description": "As on the badge",
            "maxLength": 20,
        }
        assert properties["guests"] == {
            "type": "integer",
            "default": 1,
            "minimum": 0,
            "maximum": 3,
        }
        assert properties["budget"]["maximum"] == 9.5
        assert properties["mail"]["format"] == "email"
        assert properties["day"]["format"] == "date"
        assert properties["photo"]["type"] == "boolean"

    def test_schema_contains_choices_with_titles(self) -> None:
        properties = requested_schema()["properties"]
        assert properties["lunch"]["oneOf"] == [
            {"const": "v", "title": "Vegetables"},
            {"const": "f", "title": "Fish"},
        ]
        assert properties["tours"]["items"]["anyOf"][0] == {"const": "a", "title": "Attic"}

    def test_default_has_the_type_of_its_schema(self) -> None:
        level = forms.TypedChoiceField(choices=[(1, "Low"), (2, "High")], coerce=int, initial=2)
        color = forms.ChoiceField(choices=[("", "---"), ("r", "Red")], initial="")
        code = forms.CharField(initial=7)
        count = forms.IntegerField(initial="3")
        fields = {"level": level, "color": color, "code": code, "count": count}
        form = type("Defaults", (forms.Form,), fields)
        properties = input_requests.form("Which?", form).params["requestedSchema"]["properties"]
        defaults = {name: member.get("default") for name, member in properties.items()}
        assert defaults == {"level": "2", "color": None, "code": "7", "count": None}

    def test_schema_lists_required_fields(self) -> None:
        assert requested_schema()["required"] == ["name", "day", "guests", "lunch"]

    def test_unsupported_field_raises_configuration_error(self) -> None:
        form = type("Upload", (forms.Form,), {"file": forms.FileField()})
        with pytest.raises(ConfigurationError, match="'file' is a FileField"):
            input_requests.form("Which?", form)

    @spec("ELIC-02", "ELIC-03", "2026/ELI-01")
    def test_password_field_raises_configuration_error(self) -> None:
        field = forms.CharField(widget=forms.PasswordInput)
        with pytest.raises(ConfigurationError, match="'pin' is a password"):
            input_requests.form("Which?", type("Login", (forms.Form,), {"pin": field}))

    def test_hash_of_a_user_in_a_plain_field_raises_configuration_error(self) -> None:
        form = forms.modelform_factory(User, fields=["username", "password"])
        with pytest.raises(ConfigurationError, match="'password' is a password"):
            input_requests.form("Who?", form)

    def test_too_many_choices_raise_configuration_error(self) -> None:
        many = forms.ChoiceField(choices=[(str(n), n) for n in range(101)])
        with pytest.raises(ConfigurationError, match="101 choices"):
            input_requests.form("Which?", type("Many", (forms.Form,), {"one": many}))


class TestFormAnswer:
    async def test_invalid_answer_repeats_the_input_request_and_a_valid_one_is_cleaned(
        self,
    ) -> None:
        async def visit(frame: Frame) -> str:
            answer = await frame.client.aelicit("When?", Visit)
            return f"{answer.content['name']}: {answer.content['day']!r}"

        server = Server("house")
        server.tool(visit)
        answers = iter([{**CONTENT, "name": "Nobody"}, CONTENT])
        messages: list[str] = []

        def answer(params: dict[str, Any]) -> dict[str, Any]:
            messages.append(params["message"])
            return {"action": "accept", "content": next(answers)}

        async with Client(server, elicitation=answer) as client:
            result = await client.call_tool("visit")
        assert result.text == f"Ada: {datetime.date(2026, 11, 20)!r}"
        assert messages == ["When?", "When?\n\nname: Nobody is not invited"]


class Membership(forms.Form):
    """Its choices and its validation query the database."""

    group = forms.ModelChoiceField(queryset=Group.objects.all(), to_field_name="name")
    name = forms.CharField()

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Group.objects.filter(name=name).exists():
            raise forms.ValidationError("A group has this name")
        return name


class Renaming(forms.Form):
    """Its validation queries the database."""

    name = forms.CharField()
    clean_name = Membership.clean_name


GROUPS = [{"group": "staff", "name": name} for name in ("staff", "Ada")]
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def club() -> Server:
    """Tools that request forms which query the database, and see what was written before."""
    server = Server("club")

    def join(frame: Frame) -> str:
        Group.objects.create(name="staff")
        content = frame.client.elicit("Which group?", Membership).content
        return f"{content['name']}: {content['group'].name}"

    async def ajoin(frame: Frame) -> str:
        await Group.objects.acreate(name="staff")
        content = (await frame.client.aelicit("Which group?", Membership)).content
        return f"{content['name']}: {content['group'].name}"

    server.register_tool("join", join, requests_input=True)
    server.register_tool("ajoin", ajoin, requests_input=True)
    server.register_tool("join_as_task", join, task_support="required")
    server.register_tool("ajoin_as_task", ajoin, task_support="required")
    return server


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tool", ["join", "ajoin"])
class TestFormWithQueries:
    @pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
    @pytest.mark.parametrize("execution", ["threads", "thread_sensitive"])
    async def test_form_is_read_where_its_queries_see_the_writes_of_the_handler(
        self, tool: str, version: str, execution: Any
    ) -> None:
        answers = iter(GROUPS)

        def answer(_: Any) -> dict[str, Any]:
            return {"action": "accept", "content": next(answers)}

        options: dict[str, Any] = {"version": version, "sync_execution": execution}
        async with Client(club(), elicitation=answer, **options) as client:
            result = await client.call_tool(tool)

        assert result.text == "Ada: staff"

    async def test_form_of_a_task_is_read_where_it_may_query(self, tool: str) -> None:
        capabilities = {"elicitation": {}, **TASKS}
        async with Client(club(), capabilities=capabilities, sync_execution="threads") as client:
            task = await client.request("tools/call", {"name": f"{tool}_as_task", "arguments": {}})
            identity = {"taskId": task["taskId"]}
            answered: set[str] = set()
            for content in GROUPS:
                state = await state_of(client, identity, "input_required", after=answered)
                accepted = {"action": "accept", "content": content}
                answered |= {*state["inputRequests"]}
                responses = dict.fromkeys(state["inputRequests"], accepted)
                await client.request("tasks/update", {**identity, "inputResponses": responses})
            done = await state_of(client, identity, "completed")

        assert done["result"]["content"][0]["text"] == "Ada: staff"


async def state_of(
    client: Client, identity: dict[str, Any], status: str, after: Collection[str] = ()
) -> dict[str, Any]:
    """The task once it has this status, and requests other input than ``after``."""

    async def poll() -> dict[str, Any] | None:
        state: dict[str, Any] = await client.request("tasks/get", identity)
        is_new = not {*state.get("inputRequests", ())} & {*after}
        return state if state["status"] == status and is_new else None

    return await until(poll, f"The task is {status}")


@pytest.mark.django_db(transaction=True)
async def test_concurrent_forms_with_queries_are_sent_and_kept_together() -> None:
    server = Server("club")

    @server.tool(requests_input=True)
    async def rename(frame: Frame) -> str:
        async with asyncio.TaskGroup() as group:
            forms_by_key = {"one": Renaming, "two": Membership}
            asking = [
                group.create_task(frame.client.aelicit(key, form, key=key))
                for key, form in forms_by_key.items()
            ]
        return " ".join(task.result().content["name"] for task in asking)

    await Group.objects.acreate(name="staff")
    rounds: list[str] = []

    def answer(params: Any) -> dict[str, Any]:
        rounds.append(params["message"])
        name = "staff" if rounds == ["one"] else params["message"].partition("\n")[0]
        return {"action": "accept", "content": {"group": "staff", "name": name}}

    async with Client(server, elicitation=answer) as client:
        result = await client.call_tool("rename")

    assert result.text == "one two"
    assert rounds == ["one", "two", "one\n\nname: A group has this name"]
