"""Elicitation schemas, and their conversion for older revisions."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.core.protocol import elicitation
from tests.spec import spec


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Order(BaseModel):
    name: str = Field(description="Whose it is", max_length=20)
    amount: int = 1
    colour: Colour
    size: Literal["s", "m"] = "m"
    note: str | None = None
    extras: list[Literal["lid", "box"]] = []
    gift: bool = False


def form_of(model: type[BaseModel]) -> dict[str, Any]:
    return elicitation.to_form_schema(model.model_json_schema())


TITLED = [{"const": "s", "title": "Small"}, {"const": "m", "title": "Middle"}]


class TestFormSchema:
    @spec("ELIC-08")
    def test_form_schema_resolves_references_of_the_model(self) -> None:
        properties = form_of(Order)["properties"]
        assert properties["colour"]["enum"] == ["red", "blue"]
        assert properties["colour"]["type"] == "string"
        assert properties["extras"]["items"] == {"type": "string", "enum": ["lid", "box"]}
        assert not any("$ref" in str(member) for member in properties.values())

    def test_nullable_field_is_optional_and_has_no_null_type(self) -> None:
        form = form_of(Order)
        assert form["properties"]["note"]["type"] == "string"
        assert form["required"] == ["name", "colour"]

    def test_null_in_a_list_of_types_or_values_is_left_out(self) -> None:
        members = {
            "amount": {"type": ["integer", "null"], "minimum": 1},
            "size": {"type": ["string", "null"], "enum": ["s", "m", None]},
        }
        assert elicitation.to_form_schema({"properties": members})["properties"] == {
            "amount": {"type": "integer", "minimum": 1},
            "size": {"type": "string", "enum": ["s", "m"]},
        }

    def test_form_schema_keeps_descriptions_bounds_and_defaults(self) -> None:
        name = form_of(Order)["properties"]["name"]
        assert (name["description"], name["maxLength"]) == ("Whose it is", 20)
        assert form_of(Order)["properties"]["amount"]["default"] == 1

    def test_form_schema_removes_unsupported_formats(self) -> None:
        schema = {"properties": {"a": {"type": "string", "format": "time"}}}
        assert elicitation.to_form_schema(schema)["properties"] == {"a": {"type": "string"}}

    @spec("ELIC-08")
    @pytest.mark.parametrize(
        "member",
        [
            {"type": "object", "properties": {}},
            {"type": "array", "items": {"type": "string"}},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {},
        ],
        ids=["object", "free list", "two types", "anything"],
    )
    def test_field_type_not_allowed_in_a_form_is_rejected(self, member: Any) -> None:
        with pytest.raises(ValueError, match="'a' cannot be a field of a form"):
            elicitation.to_form_schema({"properties": {"a": member}})

    def test_titled_choices_of_an_array_are_kept(self) -> None:
        extras = {"type": "array", "items": {"anyOf": TITLED, "title": "Extra"}}
        form = elicitation.to_form_schema({"properties": {"extras": extras}})
        assert form["properties"] == {"extras": {"type": "array", "items": {"anyOf": TITLED}}}

    @spec("ELIC-02", "ELIC-03", "ELIC-04", "2026/ELI-01")
    @pytest.mark.parametrize(
        "member", [{"type": "string", "format": "password"}, {"type": "string", "writeOnly": True}]
    )
    def test_secret_field_is_rejected(self, member: Any) -> None:
        with pytest.raises(ValueError, match="'a' is a secret"):
            elicitation.to_form_schema({"properties": {"a": member}})


class TestUrlElicitation:
    def test_url_elicitation_contains_the_url_and_the_given_id(self) -> None:
        page = elicitation.url_elicitation_params("https://example.com/pay?x=1", "Pay", "visit-1")
        assert page == {
            "mode": "url",
            "elicitationId": "visit-1",
            "url": "https://example.com/pay?x=1",
            "message": "Pay",
        }

    @spec("ELIC-13")
    def test_url_elicitation_without_an_id_has_a_unique_one(self) -> None:
        ids = {
            elicitation.url_elicitation_params("https://x.example", "Pay")["elicitationId"]
            for _ in range(9)
        }
        assert len(ids) == 9

    @spec("ELIC-13", "2026/ELI-04")
    @pytest.mark.parametrize("url", ["", "/pay", "example.com/pay", "https:", "pay me"])
    def test_url_elicitation_rejects_a_relative_url(self, url: str) -> None:
        with pytest.raises(ValueError, match="is not an absolute URL"):
            elicitation.url_elicitation_params(url, "Pay")


class TestLegacyFormSchema:
    def test_legacy_form_schema_uses_enum_names(self) -> None:
        form = elicitation.to_form_schema(
            {"properties": {"size": {"type": "string", "oneOf": TITLED}}}
        )
        size = elicitation.to_legacy_form_schema(form)["properties"]["size"]
        assert size == {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Middle"]}

    def test_legacy_enum_name_of_a_choice_without_a_title_is_its_value(self) -> None:
        choices = [{"const": "s", "title": "Small"}, {"const": "m"}]
        form = {"properties": {"size": {"type": "string", "oneOf": choices}}}
        size = elicitation.to_legacy_form_schema(form)["properties"]["size"]
        assert size["enumNames"] == ["Small", "m"]

    def test_legacy_form_schema_keeps_only_boolean_defaults(self) -> None:
        properties = elicitation.to_legacy_form_schema(form_of(Order))["properties"]
        assert "default" not in properties["amount"]
        assert properties["gift"]["default"] is False

    def test_multiple_choice_field_is_detected(self) -> None:
        assert elicitation.has_several_choices(form_of(Order))
