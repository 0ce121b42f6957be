"""Checks of views: requests in templates, foreign origins, and tools without protection."""

from __future__ import annotations

import pytest
from django.core import checks

from django_mcp import Server, registry
from django_mcp.checks import TAG
from django_mcp.ui import template_view
from tests.spec import spec
from tests.ui.conftest import Templates


@pytest.fixture(autouse=True)
def _only_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})


def findings(*ids: str) -> list[str]:
    """The messages of these checks."""
    found = checks.run_checks(tags=[TAG])
    return [message.msg for message in found if str(message.id).partition(".")[2] in ids]


def test_app_only_tool_that_changes_something_needs_a_permission(server: Server) -> None:
    server.tool(app_only=True, name="open")(lambda: None)
    server.tool(app_only=True, name="reads", read_only=True)(lambda: None)
    server.tool(app_only=True, name="guarded", permission="login_required")(lambda: None)
    server.tool(name="of_models")(lambda: None)

    (message,) = findings("W049")

    assert "'open'" in message


@pytest.mark.parametrize(
    ("source", "variable"),
    [
        ("{{ request.user }}", "request"),
        ("{% if user.is_staff %}x{% endif %}", "user"),
        ("<form>{% csrf_token %}</form>", "csrf_token"),
        ("{% for m in messages %}{{ m }}{% endfor %}", "messages"),
        ("{% with who=request.user %}{{ who }}{% endwith %}", "request"),
        ("{{ name|default:user }}", "user"),
        ("{% include 'part.html' %}", "request"),
    ],
)
def test_template_that_reads_a_request_is_reported(
    server: Server, templates: Templates, source: str, variable: str
) -> None:
    part = "{% load i18n %}{% blocktranslate with a=request.path %}{{ a }}{% endblocktranslate %}"
    templates({"page.html": f"<!doctype html>{{{{ view.title }}}}{source}", "part.html": part})
    server.tool(ui=template_view("page.html"), name="a")(lambda: None)

    (message,) = findings("W050")

    assert f"reads {variable}," in message


def test_template_of_results_is_not_reported(server: Server, templates: Templates) -> None:
    templates(
        {"f.html": "{{ result.user }}{{ name }}{% for line in lines %}{{ line }}{% endfor %}"}
    )
    server.tool(ui=template_view(fragment="f.html"), name="a")(lambda: None)

    assert findings("W050", "W051", "E027") == []


@spec("apps-06")
def test_foreign_origin_that_the_policy_does_not_name_is_reported(
    server: Server, templates: Templates
) -> None:
    source = '<!doctype html><script src="https://cdn.example.com/a.js"></script>'
    templates({"a.html": source, "b.html": source})
    allowed = template_view("b.html", csp={"resource": "https://cdn.example.com"})
    server.tool(ui=template_view("a.html"), name="a")(lambda: None)
    server.tool(ui=allowed, name="b")(lambda: None)

    (message,) = findings("W051")

    assert "ui://a" in message
    assert "https://cdn.example.com/a.js" in message


def test_foreign_origin_in_a_fragment_is_reported(server: Server, templates: Templates) -> None:
    part = '<img src="{{ url }}"><img src="https://cdn.example.com/{{ name }}.png">'
    templates({"f.html": "<p>{% include 'part.html' %}</p>", "part.html": part})
    allowed = template_view(
        fragment="f.html", uri="ui://b", csp={"resource": "https://*.example.com"}
    )
    server.tool(ui=template_view(fragment="f.html"), name="a")(lambda: None)
    server.tool(ui=allowed, name="b")(lambda: None)

    (message,) = findings("W051")

    assert "the template 'part.html' of the view ui://f" in message
    assert "https://cdn.example.com/" in message


def test_page_that_cannot_be_rendered_is_reported(server: Server, templates: Templates) -> None:
    templates({"a.html": "{% load mcp_app %}{% mcp_static 'missing.css' %}"})
    server.tool(ui=template_view("a.html"), name="a")(lambda: None)

    (message,) = findings("E027")

    assert "missing.css" in message
