"""Tags of pages: the bridge, and static files within the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import SuspiciousFileOperation
from django.template import engines
from pytest_django import Settings

from django_mcp import ConfigurationError
from tests.spec import spec


def render(source: str) -> str:
    template = engines["django"].from_string("{% load mcp_app %}" + source)
    return template.render({})


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
