"""Resources and templates as functions and as classes: how they are listed, and what they read."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

import pytest

from django_mcp.components.base import ConfigurationError
from django_mcp.components.resource import (
    Resource,
    ResourceComponent,
    ResourceTemplate,
    TemplateComponent,
    resource_component,
)
from django_mcp.frame import Frame
from django_mcp.protocol.errors import ResourceNotFound


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


def complaint(target: Any, uri: str | None = None, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resource_component(target, uri, **options)
    return str(caught.value)


class TestAResource:
    def test_is_listed_at_its_address(self) -> None:
        assert resource(notes).descriptor() == {
            "uri": "shop://notes",
            "name": "notes",
            "description": "All notes.",
            "mimeType": "text/plain",
        }

    def test_is_listed_as_its_options_say(self) -> None:
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

    def test_is_found_by_its_address_alone(self) -> None:
        component = resource(notes)
        assert component.key == "shop://notes"
        assert component.match("shop://notes") == {}
        assert component.match("shop://notes/1") is None
        assert read(component, "shop://notes") == "notes"

    def test_may_ask_for_its_address_and_for_the_frame(self) -> None:
        def told(frame: Frame, uri: str) -> Any:
            return uri, frame

        frame = Frame()
        assert read(resource(told), "shop://notes", frame) == ("shop://notes", frame)

    @pytest.mark.parametrize(
        ("annotation", "mime_type"),
        [
            (bytes, "application/octet-stream"),
            (dict[str, Any], "application/json"),
            (str, "text/plain"),
            (Any, "text/plain"),
        ],
    )
    def test_is_listed_with_the_type_which_it_will_probably_have(
        self, annotation: Any, mime_type: str
    ) -> None:
        def f() -> None: ...

        f.__annotations__["return"] = annotation
        assert resource(f).descriptor()["mimeType"] == mime_type
        assert resource(f).mime_type is None

    def test_may_be_a_class_which_is_called_as_its_address_ends(self) -> None:
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
    def test_of_a_class_is_called_as_any_address_ends(self, uri: str, name: str) -> None:
        class Config(Resource):
            def uri(self) -> str:
                return uri

            def read(self) -> str:
                return ""

        assert resource_component(Config).name == name


class TestATemplate:
    def test_is_listed_as_it_is_written(self) -> None:
        assert template(ticket).descriptor() == {
            "uriTemplate": "shop://tickets/{pk}",
            "name": "ticket",
            "description": "One ticket.",
            "mimeType": "application/json",
        }

    def test_gives_its_variables_the_types_of_the_parameters(self) -> None:
        assert read(template(ticket), "shop://tickets/7") == {"pk": 7}

    def test_knows_no_resource_where_a_variable_has_the_wrong_type(self) -> None:
        component = template(ticket)
        with pytest.raises(ResourceNotFound) as caught:
            read(component, "shop://tickets/seven")
        assert caught.value.data == {"uri": "shop://tickets/seven"}

    def test_does_not_match_other_addresses(self) -> None:
        assert template(ticket).match("shop://tickets/7/comments") is None

    def test_is_more_specific_the_more_of_it_is_fixed(self) -> None:
        def any_path(path: str) -> str:
            return path

        special = template(ticket)
        general = template(any_path, "shop://{+path}")
        assert sorted([general, special], key=lambda t: t.specificity) == [special, general]

    def test_may_take_all_variables_or_the_address_instead_of_each(self) -> None:
        def everything(**variables: str) -> Any:
            return variables

        def address(uri: str) -> Any:
            return uri

        uri = "shop://a/b"
        assert read(template(everything, "shop://{x}/{y}"), uri) == {"x": "a", "y": "b"}
        assert read(template(address, "shop://{x}/{y}"), uri) == uri

    def test_may_have_parameters_which_the_address_can_leave_out(self) -> None:
        def search(query: str = "", page: int = 1) -> Any:
            return query, page

        component = template(search, "shop://search{?query,page}")
        assert read(component, "shop://search") == ("", 1)
        assert read(component, "shop://search?query=a&page=2") == ("a", 2)

    def test_with_a_variable_called_uri_gives_that_one(self) -> None:
        def proxy(uri: str) -> str:
            return uri

        assert read(template(proxy, "proxy://{uri}"), "proxy://there") == "there"

    def test_may_be_a_class_which_needs_a_name(self) -> None:
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
        assert "needs a name" in complaint(Nameless)

    def test_completes_variables_of_which_it_knows_the_values(self) -> None:
        def by_status(status: Literal["open", "Onhold", "closed"]) -> str:
            return status

        component = template(by_status, "shop://tickets/{status}")
        assert component.complete["status"].invoke("o", {}, None) == ["open", "Onhold"]


class TestAMistake:
    def test_is_an_address_without_a_scheme(self) -> None:
        assert "with its scheme" in complaint(notes, "notes")
        assert "with its scheme" in complaint(notes)

    def test_is_a_template_that_cannot_be_read(self) -> None:
        assert "The template of" in complaint(ticket, "shop://tickets/{pk")

    def test_is_a_parameter_which_the_address_does_not_have(self) -> None:
        assert "write {pk} into the URI" in complaint(ticket, "shop://tickets")
        assert "write {pk} into the URI" in complaint(ticket, "shop://tickets/{id}")

    def test_is_a_variable_which_nobody_takes(self) -> None:
        assert "let it take id, or uri" in complaint(ticket, "shop://{id}/tickets/{pk}")

    def test_is_an_annotation_which_content_does_not_have(self) -> None:
        assert "priority" in complaint(notes, "shop://notes", annotations={"priority": 7})

    def test_is_a_class_of_another_kind(self) -> None:
        class NoResource:
            pass

        assert "derive it from Resource" in complaint(NoResource, "shop://notes")
