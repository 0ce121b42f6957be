"""What discovery registers of an ``mcp`` module: servers, and objects with components."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from django import forms
from pydantic import BaseModel

from django_mcp import registry
from django_mcp.contrib.events import event
from django_mcp.contrib.skills import skill
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.server.server import Server
from django_mcp.forms import form_tool
from django_mcp.modeladmin import admin_tools
from django_mcp.openapi import openapi_tools
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.toolsets import ModelToolset
from django_mcp.ui import form_view
from example_site.helpdesk.models import Comment
from tests.rest.api import Report, TicketViewSet


@pytest.fixture(autouse=True)
def default(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A default server, and a registry, of the test's own."""
    server = Server("mcp")
    monkeypatch.setattr(registry, "default", server)
    monkeypatch.setattr(registry.registered, "servers", {"mcp": server})
    monkeypatch.setattr(registry.registered, "registrants", [])
    return server


def add_tool(server: Server, name: str) -> None:
    @server.tool(name=name)
    def greet() -> str:
        return "Hello"


class Greeting:
    def __init__(self, name: str) -> None:
        self.name = name

    def __mcp_register__(self, server: Server) -> None:
        add_tool(server, self.name)


class Farewell:
    @classmethod
    def __mcp_register__(cls, server: Server) -> None:
        add_tool(server, cls.__name__)


def module(**values: Any) -> ModuleType:
    found = ModuleType("shop.mcp")
    vars(found).update(values)
    return found


def tools(server: Server) -> list[str]:
    return [component.name for component in server.components.of_kind("tool")]


def test_object_with_the_method_registers_on_the_default_server(default: Server) -> None:
    registry.register_module(module(greeting=Greeting("greet")))
    assert tools(default) == ["greet"]


def test_class_with_a_class_method_registers_on_the_default_server(default: Server) -> None:
    registry.register_module(module(Farewell=Farewell))
    assert tools(default) == ["Farewell"]


def test_class_whose_instances_register_is_not_called(default: Server) -> None:
    registry.register_module(module(Greeting=Greeting))
    assert tools(default) == []


def test_object_registers_once_under_two_names_and_in_two_modules(default: Server) -> None:
    greeting = Greeting("greet")
    registry.register_module(module(greeting=greeting, same=greeting))
    registry.register_module(module(greeting=greeting))
    assert tools(default) == ["greet"]


def test_equal_objects_are_two_objects(default: Server) -> None:
    class Equal(Greeting):
        def __eq__(self, other: object) -> bool:
            return True

    registry.register_module(module(one=Equal("one"), two=Equal("two")))
    assert tools(default) == ["one", "two"]


def test_error_of_the_method_is_raised() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        registry.register_module(module(one=Greeting("greet"), two=Greeting("greet")))


def test_metaclass_may_have_the_method(default: Server) -> None:
    class Meta(type):
        def __mcp_register__(cls, server: Server) -> None:
            add_tool(server, cls.__name__)

    registry.register_module(module(Meta=Meta, Salute=Meta("Salute", (), {})))
    assert tools(default) == ["Salute"]


def test_object_with_any_attribute_is_no_registrant(default: Server) -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    registry.register_module(module(anything=Anything(), text="greet", nothing=None))
    assert tools(default) == []


NAME: Any = "shop"


class CommentForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Comment
        fields = ("text",)


class Comments(ModelToolset):
    model = Comment
    fields = ("id", "text")
    server = NAME


class Added(BaseModel):
    text: str


DOCUMENT = {"openapi": "3.1.0", "info": {}, "paths": {}}


@pytest.mark.parametrize(
    ("declare", "name"),
    [
        (lambda: form_tool(CommentForm, server=NAME), r"form_tool\(CommentForm\)"),
        (lambda: form_view(CommentForm, server=NAME), r"form_view\(CommentForm\)"),
        (lambda: rest_tools(TicketViewSet, server=NAME), "rest_tools"),
        (lambda: rest_tool(Report, server=NAME), r"rest_tool\(Report\)"),
        (lambda: openapi_tools(DOCUMENT, server=NAME), "openapi_tools"),
        (lambda: admin_tools(server=NAME), "admin_tools"),
        (lambda: registry.register(Comments), "Comments"),
        (lambda: event("comment.added", payload=Added, server=NAME), "the event 'comment.added'"),
        (lambda: skill("refunds", server=NAME), "the skill 'refunds'"),
        (lambda: skill("refunds", server=[NAME]), "the skill 'refunds'"),
    ],
)
def test_name_in_place_of_a_server_is_refused_with_a_remedy(declare: Any, name: str) -> None:
    message = f"The server of {name} is 'shop': give the Server itself"
    with pytest.raises(ConfigurationError, match=message):
        declare()
