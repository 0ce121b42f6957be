"""Django forms as elicitation schemas."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from django import forms

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.core.frame.client import input_requests
from django_mcp.testing import Client
from tests.spec import spec


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

        def answer(_: Any) -> dict[str, Any]:
            return {"action": "accept", "content": next(answers)}

        async with Client(server, elicitation=answer) as client:
            result = await client.call_tool("visit")
        assert result.text == f"Ada: {datetime.date(2026, 11, 20)!r}"
