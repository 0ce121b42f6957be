"""What a form may hold, and how older clients are asked for the same."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.protocol import elicitation


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
    return elicitation.flat(model.model_json_schema())


TITLED = [{"const": "s", "title": "Small"}, {"const": "m", "title": "Middle"}]


class TestAForm:
    def test_is_flat_whatever_a_model_refers_to(self) -> None:
        properties = form_of(Order)["properties"]
        assert properties["colour"]["enum"] == ["red", "blue"]
        assert properties["colour"]["type"] == "string"
        assert properties["extras"]["items"] == {"type": "string", "enum": ["lid", "box"]}
        assert not any("$ref" in str(member) for member in properties.values())

    def test_leaves_null_out_and_what_may_be_null_is_optional(self) -> None:
        form = form_of(Order)
        assert form["properties"]["note"]["type"] == "string"
        assert form["required"] == ["name", "colour"]

    def test_keeps_what_helps_the_user(self) -> None:
        name = form_of(Order)["properties"]["name"]
        assert (name["description"], name["maxLength"]) == ("Whose it is", 20)
        assert form_of(Order)["properties"]["amount"]["default"] == 1

    def test_forgets_formats_that_clients_do_not_know(self) -> None:
        schema = {"properties": {"a": {"type": "string", "format": "time"}}}
        assert elicitation.flat(schema)["properties"] == {"a": {"type": "string"}}

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
    def test_cannot_hold_what_a_client_cannot_draw(self, member: Any) -> None:
        with pytest.raises(ValueError, match="'a' cannot be asked in a form"):
            elicitation.flat({"properties": {"a": member}})

    @pytest.mark.parametrize(
        "member", [{"type": "string", "format": "password"}, {"type": "string", "writeOnly": True}]
    )
    def test_never_asks_for_a_secret(self, member: Any) -> None:
        with pytest.raises(ValueError, match="'a' is a secret"):
            elicitation.flat({"properties": {"a": member}})


class TestAPage:
    def test_is_named_by_a_whole_address_and_an_id(self) -> None:
        page = elicitation.page("https://example.com/pay?x=1", "Pay", "visit-1")
        assert page == {
            "mode": "url",
            "elicitationId": "visit-1",
            "url": "https://example.com/pay?x=1",
            "message": "Pay",
        }

    def test_has_an_id_of_its_own_where_nobody_gives_it_one(self) -> None:
        ids = {elicitation.page("https://x.example", "Pay")["elicitationId"] for _ in range(9)}
        assert len(ids) == 9

    @pytest.mark.parametrize("url", ["", "/pay", "example.com/pay", "https:", "pay me"])
    def test_cannot_be_a_part_of_an_address(self, url: str) -> None:
        with pytest.raises(ValueError, match="is no page"):
            elicitation.page(url, "Pay")


class TestAPlainForm:
    def test_names_its_choices_as_older_clients_know_them(self) -> None:
        form = elicitation.flat({"properties": {"size": {"type": "string", "oneOf": TITLED}}})
        size = elicitation.plain(form)["properties"]["size"]
        assert size == {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Middle"]}

    def test_has_defaults_for_booleans_alone(self) -> None:
        properties = elicitation.plain(form_of(Order))["properties"]
        assert "default" not in properties["amount"]
        assert properties["gift"]["default"] is False

    def test_cannot_hold_several_choices(self) -> None:
        assert elicitation.has_several_choices(form_of(Order))
