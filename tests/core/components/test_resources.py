"""Resources and templates as functions and classes: how they are listed and read."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest

from django_mcp import Server
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.resource import (
    Resource,
    ResourceComponent,
    ResourceTemplate,
    TemplateComponent,
    resource_component,
)
from django_mcp.core.protocol.errors import ResourceNotFound
from django_mcp.frame import Frame
from django_mcp.testing import Client
from tests.http_errors import error_of
from tests.spec import spec


def notes() -> str:
    """All notes."""
    return "notes"


def ticket(pk: int) -> dict[str, int]:
    """One ticket."""
    return {"pk": pk}


def resource(target: Any, uri: str = "shop://notes", **options: Any) -> ResourceComponent:
    component = resource_component(target, uri, **options)
    assert isinstance(component, ResourceComponent)
    return component


def template(
    target: Any, uri: str | None = "shop://tickets/{pk}", **options: Any
) -> TemplateComponent:
    component = resource_component(target, uri, **options)
    assert isinstance(component, TemplateComponent)
    return component


def read(component: ResourceComponent | TemplateComponent, uri: str, frame: Any = None) -> Any:
    variables = component.match(uri)
    assert variables is not None
    assert component.invoke is not None
    return component.invoke(component.validate_input({"uri": uri, **variables}), frame)


def configuration_error(target: Any, uri: str | None = None, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resource_component(target, uri, **options)
    return str(caught.value)


class TestResource:
    def test_resource_descriptor_contains_uri_name_and_docstring(self) -> None:
        assert resource(notes).descriptor() == {
            "uri": "shop://notes",
            "name": "notes",
            "description": "All notes.",
            "mimeType": "text/plain",
        }

    def test_resource_descriptor_contains_declared_options(self) -> None:
        component = resource(
            notes,
            name="all notes",
            title="Notes",
            description="Every one",
            mime_type="text/markdown",
            size=12,
            annotations={"audience": ["user"], "priority": 1, "last_modified": date(2026, 7, 28)},
            icons=["data:,x"],
            meta={"k": 1},
        )
        assert component.descriptor() == {
            "uri": "shop://notes",
            "name": "all notes",
            "title": "Notes",
            "description": "Every one",
            "mimeType": "text/markdown",
            "size": 12,
            "icons": [{"src": "data:,x"}],
            "annotations": {"audience": ["user"], "priority": 1, "lastModified": "2026-07-28"},
            "_meta": {"k": 1},
        }

    def test_resource_matches_only_its_own_uri(self) -> None:
        component = resource(notes)
        assert component.key == "shop://notes"
        assert component.match("shop://notes") == {}
        assert component.match("shop://notes/1") is None
        assert read(component, "shop://notes") == "notes"

    def test_resource_function_can_receive_uri_and_frame(self) -> None:
        def uri_and_frame(frame: Frame, uri: str) -> Any:
            return uri, frame

        frame = Frame()
        assert read(resource(uri_and_frame), "shop://notes", frame) == ("shop://notes", frame)

    @pytest.mark.parametrize(
        ("annotation", "mime_type"),
        [
            (bytes, "application/octet-stream"),
            (dict[str, Any], "application/json"),
            (str, "text/plain"),
            (Any, "text/plain"),
        ],
    )
    def test_mime_type_is_derived_from_the_return_annotation(
        self, annotation: Any, mime_type: str
    ) -> None:
        def f() -> None: ...

        f.__annotations__["return"] = annotation
        assert resource(f).descriptor()["mimeType"] == mime_type
        assert resource(f).mime_type is None

    def test_resource_class_is_named_by_the_last_segment_of_its_uri(self) -> None:
        class Readme(Resource):
            """How to begin."""

            uri = "file:///docs/README.md"
            mime_type = "text/markdown"

            async def read(self) -> str:
                return "Begin"

        component = resource_component(Readme)
        assert component.is_async
        assert component.descriptor() == {
            "uri": "file:///docs/README.md",
            "name": "README.md",
            "description": "How to begin.",
            "mimeType": "text/markdown",
        }

    @pytest.mark.parametrize(
        ("uri", "name"), [("config://app", "app"), ("config://app/", "app"), ("urn:x", "urn:x")]
    )
    def test_resource_name_defaults_to_the_end_of_any_uri(self, uri: str, name: str) -> None:
        class Config(Resource):
            def uri(self) -> str:
                return uri

            def read(self) -> str:
                return ""

        assert resource_component(Config).name == name


class TestResourceTemplate:
    def test_template_descriptor_contains_the_uri_template(self) -> None:
        assert template(ticket).descriptor() == {
            "uriTemplate": "shop://tickets/{pk}",
            "name": "ticket",
            "description": "One ticket.",
            "mimeType": "application/json",
        }

    def test_template_variables_are_converted_to_parameter_types(self) -> None:
        assert read(template(ticket), "shop://tickets/7") == {"pk": 7}

    def test_variable_of_the_wrong_type_raises_resource_not_found(self) -> None:
        component = template(ticket)
        with pytest.raises(ResourceNotFound) as caught:
            read(component, "shop://tickets/seven")
        assert caught.value.data == {"uri": "shop://tickets/seven"}

    @pytest.mark.parametrize("text", ["nan", "inf", "1e999"])
    def test_number_that_is_not_finite_raises_resource_not_found(self, text: str) -> None:
        def price(most: float) -> float:
            return most

        component = template(price, "shop://prices/{most}")
        assert read(component, "shop://prices/1.5") == 1.5
        with pytest.raises(ResourceNotFound):
            read(component, f"shop://prices/{text}")

    def test_template_does_not_match_other_uris(self) -> None:
        assert template(ticket).match("shop://tickets/7/comments") is None

    def test_template_with_more_literal_text_is_more_specific(self) -> None:
        def any_path(path: str) -> str:
            return path

        special = template(ticket)
        general = template(any_path, "shop://{+path}")
        assert sorted([general, special], key=lambda t: t.specificity) == [special, general]

    def test_template_function_can_receive_all_variables_or_the_uri(self) -> None:
        def everything(**variables: str) -> Any:
            return variables

        def address(uri: str) -> Any:
            return uri

        uri = "shop://a/b"
        assert read(template(everything, "shop://{x}/{y}"), uri) == {"x": "a", "y": "b"}
        assert read(template(address, "shop://{x}/{y}"), uri) == uri

    def test_omitted_query_variables_use_parameter_defaults(self) -> None:
        def search(query: str = "", page: int = 1) -> Any:
            return query, page

        component = template(search, "shop://search{?query,page}")
        assert read(component, "shop://search") == ("", 1)
        assert read(component, "shop://search?query=a&page=2") == ("a", 2)

    def test_variable_named_uri_overrides_the_requested_uri(self) -> None:
        def proxy(uri: str) -> str:
            return uri

        assert read(template(proxy, "proxy://{uri}"), "proxy://there") == "there"

    def test_template_class_without_a_name_is_rejected(self) -> None:
        class Ticket(ResourceTemplate):
            """One ticket."""

            uri_template = "shop://tickets/{pk}"
            name: Any = "ticket"

            def read(self, pk: int, frame: Frame) -> Any:
                return pk, frame

            def complete_pk(self, value: str) -> list[str]:
                return [value + "0"]

        class Nameless(Ticket):
            name = None

        frame = Frame()
        component = template(Ticket, None)
        assert read(component, "shop://tickets/7", frame) == (7, frame)
        assert component.complete["pk"].invoke("1", {}, frame) == ["10"]
        assert "needs a name" in configuration_error(Nameless)

    def test_literal_template_variable_is_completed_automatically(self) -> None:
        def by_status(status: Literal["open", "Onhold", "closed"]) -> str:
            return status

        component = template(by_status, "shop://tickets/{status}")
        assert component.complete["status"].invoke("o", {}, None) == ["open", "Onhold"]


class TestConfigurationErrors:
    @spec("RES-13", "2026/RES-08")
    @pytest.mark.parametrize(
        ("options", "remedy"),
        [
            ({"size": "5"}, "number of bytes"),
            ({"size": -5}, "number of bytes"),
            ({"size": True}, "number of bytes"),
            ({"mime_type": 5}, "write a media type"),
        ],
    )
    def test_option_of_another_type_is_rejected(self, options: Any, remedy: str) -> None:
        assert remedy in configuration_error(notes, "shop://notes", **options)

    def test_uri_without_a_scheme_is_rejected(self) -> None:
        assert "with its scheme" in configuration_error(notes, "notes")
        assert "with its scheme" in configuration_error(notes)

    @spec("RES-13")
    @pytest.mark.parametrize("uri", ["git://a b", "ä:x", "shop://ä", "1a:x", "://x", "a:<x>"])
    def test_invalid_uri_is_rejected(self, uri: str) -> None:
        assert "percent-encode" in configuration_error(notes, uri)

    @spec("RES-13")
    @pytest.mark.parametrize("uri", ["shop://a b/{pk}", "1shop://{pk}", "ä://{pk}", "{+pk}"])
    def test_template_that_expands_to_no_uri_is_rejected(self, uri: str) -> None:
        assert "percent-encode" in configuration_error(ticket, uri)

    def test_malformed_uri_template_is_rejected(self) -> None:
        assert "The template of" in configuration_error(ticket, "shop://tickets/{pk")

    def test_parameter_missing_from_the_uri_is_rejected(self) -> None:
        assert "write {pk} into the URI" in configuration_error(ticket, "shop://tickets")
        assert "write {pk} into the URI" in configuration_error(ticket, "shop://tickets/{id}")

    def test_template_variable_without_a_parameter_is_rejected(self) -> None:
        assert "let it take id, or uri" in configuration_error(ticket, "shop://{id}/tickets/{pk}")

    def test_invalid_content_annotation_is_rejected(self) -> None:
        assert "priority" in configuration_error(notes, "shop://notes", annotations={"priority": 7})

    def test_class_not_derived_from_resource_is_rejected(self) -> None:
        class NoResource:
            pass

        assert "derive it from Resource" in configuration_error(NoResource, "shop://notes")


class Status(Enum):
    OPEN = "open"
    CLOSED = "closed"


@pytest.mark.parametrize("kind", [Status, Literal["open", "closed"]])
async def test_impossible_value_of_a_variable_is_named(kind: Any) -> None:
    server = Server("tickets")

    def search(status: Any, page: int = 1) -> str:
        return str(getattr(status, "value", status))

    search.__annotations__["status"] = kind
    server.resource("shop://search{?status,page}")(search)
    async with Client(server) as client:
        assert (await client.read_resource("shop://search?status=open")).text == "open"
        error = await error_of(client.read_resource("shop://search?status=bad"))
        assert error.message == "Resource not found: status is none of open, closed"
        assert error.data == {"uri": "shop://search?status=bad"}
        # Only what the template lists is said.
        other = await error_of(client.read_resource("shop://search?status=open&page=x"))
        assert other.message == "Resource not found"
