"""JSON pointers: the steps to a place, and the place to which a reference leads."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.core.protocol.schema import pointers

DOCUMENT = {
    "$defs": {"Line": {"type": "object"}, "a/b": {"title": "slash"}, "m~n": {"title": "tilde"}},
    "lines": [{}],
}


@pytest.mark.parametrize("name", ["plain", "a/b", "m~n", "~1", "", "ü"])
def test_name_survives_its_step(name: str) -> None:
    assert pointers.names_of(pointers.step(name)) == [name]


def test_pointer_has_the_names_on_its_way() -> None:
    assert pointers.names_of("/lines/0/a~1b") == ["lines", "0", "a/b"]
    assert pointers.names_of("") == []
    assert pointers.step(3) == "/3"


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", DOCUMENT),
        ("#/$defs/Line", {"type": "object"}),
        ("#/$defs/a~1b", {"title": "slash"}),
        ("#/$defs/m~0n", {"title": "tilde"}),
        ("#/$defs/Unknown", {}),
        ("#/lines/0", {}),
        ("#/lines", {}),
        ("other.json#/$defs/Line", {}),
        (7, {}),
    ],
)
def test_reference_leads_to_an_object_of_the_document(reference: Any, found: Any) -> None:
    assert pointers.target(DOCUMENT, reference) == found
