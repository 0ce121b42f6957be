"""The arguments of a tool, and the parts of its request that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from django_mcp import ConfigurationError
from django_mcp.openapi import filters
from django_mcp.openapi.arguments import Arguments, of_request
from django_mcp.openapi.parameters import Parameter, encode, usable
from django_mcp.runtime.django_types.uploads import Uploads

LOOKUPS = [f"{field}__{lookup}" for field in "abcdefghi" for lookup in ("is", "not", "in")]
MANY = [Parameter(name, {"type": "string"}) for name in LOOKUPS]


def arguments_of(parameters: Sequence[Parameter], body: Mapping[str, Any]) -> Arguments:
    """Return the arguments of an operation with these parameters and a body of this schema."""
    kept, many = filters.folded(parameters)
    of_path: dict[str, Any] = {"path": {}, "variables": {}, "fixed": {}}
    return of_request("POST /notes/", query=kept, many=many, body=dict(body), shared={}, **of_path)


def test_body_has_its_own_fields_alone() -> None:
    arguments = arguments_of(MANY, {"type": "object", "properties": {"text": {}}})
    given = {"text": "Tea", "filters": {"a__is": "x"}, "cursor": "y", "fields": ["z"]}

    with Uploads() as uploads:
        assert arguments.data(given, uploads) == {"text": "Tea"}


def test_field_of_the_body_with_the_name_of_the_filters_is_kept_apart() -> None:
    arguments = arguments_of(MANY, {"type": "object", "properties": {"filters": {}}})

    assert [*arguments.schema["properties"]] == ["filters", "data"]
    with Uploads() as uploads:
        given = {"filters": {"a__is": "x"}, "data": {"filters": 1}}
        assert arguments.data(given, uploads) == {"filters": 1}


def test_parameter_with_the_name_of_the_filters_is_an_argument() -> None:
    own = Parameter("filters", {"type": "string"})

    assert filters.folded([*MANY, own]) == ([*MANY, own], None)


def test_parameter_with_the_name_of_a_whole_body_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the argument 'data' twice"):
        arguments_of([Parameter("data", {})], {"type": "array"})


def test_whole_number_is_sent_as_an_integer() -> None:
    given = {"page": 5.0, "of": [1.0, 2.5, 1e300], "is_open": True}
    parameters = [Parameter(name, {}) for name in given]

    assert encode(parameters, given) == "page=5&of=1&of=2.5&of=1e%2B300&is_open=true"


@pytest.mark.parametrize("name", ["Accept", "Content-Type"])
def test_header_that_openapi_describes_elsewhere_is_ignored(name: str) -> None:
    header = Parameter(name, {"type": "string"}, is_required=True, place="header")

    assert usable([header], (), "GET /notes/") == []


def test_null_in_a_list_is_left_out_of_the_query() -> None:
    assert encode([Parameter("tag", {})], {"tag": ["x", None, "y"]}) == "tag=x&tag=y"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Proxy-Authorization", "Remote_User", "X-Remote-User", "Cookie"),
        *("X-Forwarded-For", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP"),
        *("Fastly-Client-IP", "X-Cluster-Client-IP", "Forwarded", "Host"),
    ],
)
def test_header_of_a_proxy_is_no_argument(name: str) -> None:
    header = Parameter(name, {"type": "string"}, place="header")

    assert usable([header], (), "GET /notes/") == []
