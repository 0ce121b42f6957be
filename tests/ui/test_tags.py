"""Tags of pages: the bridge, and static files within the page."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import SuspiciousFileOperation
from django.template import engines
from pytest_django import Settings

from django_mcp import ConfigurationError
from tests.spec import spec


def render(source: str, **context: Any) -> str:
    template = engines["django"].from_string("{% load mcp_app %}" + source)
    return template.render(context)


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Path:
    settings.STATICFILES_DIRS = [tmp_path]
    return tmp_path


def test_bridge_is_inlined_and_loads_nothing() -> None:
    html = render("{% mcp_app %}")

    assert "ui/initialize" in html
    assert html.count("<script") == html.count("</script>") == 2
    assert "src=" not in html
    # The arrow of a select is a data URI, whose namespace is only a name.
    assert "://" not in html.replace("http://www.w3.org/2000/svg", "")


def test_static_file_is_inlined_by_its_kind(folder: Path) -> None:
    (folder / "cart.css").write_text("p { color: red }")
    (folder / "cart.js").write_text("const a = 1 < 2;")
    (folder / "dot.gif").write_bytes(b"GIF89a")

    assert render("{% mcp_static 'cart.css' %}") == "<style>p { color: red }</style>"
    assert render("{% mcp_static 'cart.js' %}") == "<script>const a = 1 < 2;</script>"
    assert render("{% mcp_static 'dot.gif' %}") == "data:image/gif;base64,R0lGODlh"


@spec("apps-05")
def test_static_file_cannot_end_its_element(folder: Path) -> None:
    (folder / "a.js").write_text('const a = "</ScRipt><!--<script>";')

    html = render("{% mcp_static 'a.js' %}")

    assert html == r'<script>const a = "<\/ScRipt><\!--<script>";</script>'


@pytest.mark.parametrize("path", ["missing.css", "../secret.css"])
def test_static_file_that_is_not_found_is_an_error(folder: Path, path: str) -> None:
    (folder.parent / "secret.css").write_text("")

    with pytest.raises((ConfigurationError, SuspiciousFileOperation)):
        render("{% mcp_static '" + path + "' %}")


@spec("apps-14")
@pytest.mark.parametrize(
    "name", ['", "quantity": 9, "x": "', "' onclick='alert(1)", '"><script>alert(1)</script>', "{}"]
)
def test_value_cannot_change_the_arguments_of_a_call(name: str) -> None:
    html = render("<button {% mcp_arguments name=name quantity=1 %}>Add</button>", name=name)

    assert attributes_of(html) == [("button", {"name": name, "quantity": 1})]


def test_arguments_may_be_dates_decimals_and_lists() -> None:
    html = render("{% mcp_arguments on=on price=price lines=lines %}", **VALUES)

    ((_, arguments),) = attributes_of(f"<form {html}></form>")
    assert arguments == {"on": "2026-07-28", "price": "1.50", "lines": [1, None]}


VALUES = {"on": date(2026, 7, 28), "price": Decimal("1.50"), "lines": [1, None]}


def test_integer_that_a_browser_would_round_is_sent_as_text() -> None:
    html = render("{% mcp_arguments at=at %}", at={"ids": [2**53, 2**53 + 1, -(2**60)], "on": True})

    ((_, arguments),) = attributes_of(f"<form {html}></form>")
    assert arguments == {"at": {"ids": [2**53, str(2**53 + 1), str(-(2**60))], "on": True}}


def attributes_of(html: str) -> list[tuple[str, Any]]:
    """The elements, each with the arguments of its call, which is its only attribute."""
    elements: list[tuple[str, Any]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            ((name, value),) = attrs
            assert name == "data-mcp-arguments"
            elements.append((tag, json.loads(value or "")))

    Parser().feed(html)
    return elements
