"""The view of a tool on the page of its result; tests/browser has it in its frame."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

from django_mcp import Server
from django_mcp.ui.mcp_apps.metadata import MIME_TYPE
from tests.try_it.pages import path, run

pytestmark = pytest.mark.django_db(transaction=True)

URI = "ui://workshop/board"
PAGE = "<!doctype html><p>The board</p>"
VIEW = f"/admin/django_mcp/component/{quote('workshop:tool:show_board')}/view/"


@pytest.fixture(autouse=True)
def board(workshop: Server) -> None:
    @workshop.tool(meta={"ui": {"resourceUri": URI}}, read_only=True)
    def show_board(text: str) -> str:
        return f"On the board: {text}"

    @workshop.tool(meta={"ui": {"visibility": ["app"]}})
    def wipe_board() -> str:
        return "wiped"

    @workshop.tool(meta={"ui": {"visibility": ["model"]}})
    def paint_board() -> str:
        return "painted"

    @workshop.resource(
        URI,
        name="board",
        mime_type=MIME_TYPE,
        meta={"ui": {"csp": {"connectDomains": ["https://api.example"]}}},
    )
    def page() -> str:
        return PAGE


def forward(browser: Browser, method: str, params: Any, **members: Any) -> Any:
    message = {"method": method, "params": params, **members}
    response = browser.post(VIEW, json.dumps(message), content_type="application/json")
    assert response.status_code == 200, response
    return response.json()


def test_result_of_a_tool_with_a_view_has_its_frame_and_its_facts(browser: Browser) -> None:
    page = run(browser, "show_board", **{"arguments/text": "</script><b>tea</b>"})
    assert page.status == "Success"
    assert f'data-view="{VIEW}"' in page.html
    assert 'sandbox="allow-scripts allow-forms"' in page.html
    # Its frame may not leave for another origin, whatever the policy of the site is.
    assert """<meta http-equiv="Content-Security-Policy" content="frame-src 'self'">""" in page.html
    _, _, rest = page.html.partition('type="application/json">')
    facts = json.loads(rest.partition("</script>")[0])
    assert facts["arguments"] == {"text": "</script><b>tea</b>"}
    assert facts["result"]["content"][0]["text"] == "On the board: </script><b>tea</b>"
    assert facts["tool"]["name"] == "show_board"


def test_result_of_another_tool_has_no_frame(browser: Browser) -> None:
    assert "data-view" not in run(browser, "guarded").html
    assert "data-view" not in browser.get(path("show_board")).content.decode()


def test_view_is_a_document_without_an_origin_that_only_the_site_frames(browser: Browser) -> None:
    response = browser.get(VIEW)
    assert response.content.decode() == PAGE
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert "sandbox allow-scripts allow-forms" in policy
    assert "frame-ancestors 'self'" in policy
    assert "connect-src https://api.example" in policy
    assert response.headers["X-Frame-Options"] == "SAMEORIGIN"


def test_view_reads_and_calls_what_changes_nothing(browser: Browser) -> None:
    called = forward(browser, "tools/call", {"name": "show_board", "arguments": {"text": "tea"}})
    assert called["result"]["content"][0]["text"] == "On the board: tea"
    read = forward(browser, "resources/read", {"uri": URI})
    assert read["result"]["contents"][0]["text"] == PAGE


def test_user_is_asked_before_a_view_changes_something(browser: Browser) -> None:
    call = {"name": "wipe_board", "arguments": {}}
    assert forward(browser, "tools/call", call) == {
        "question": "The view calls the tool wipe_board as you. Do you allow it?"
    }
    allowed = forward(browser, "tools/call", call, is_allowed=True)
    assert allowed["result"]["content"][0]["text"] == "wiped"


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("prompts/get", {"name": "explain"}, "A view cannot send prompts/get"),
        ("tools/call", {"name": "paint_board"}, "A view cannot call the tool paint_board"),
        ("tools/call", {"name": "guarded"}, "Unknown tool"),
    ],
)
def test_view_is_refused_what_no_host_allows(
    browser: Browser, method: str, params: Any, message: str
) -> None:
    answer = forward(browser, method, params, is_allowed=True)
    assert message in answer["error"]["message"]


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"method": "ping", "params": 1}', "[" * 9999])
def test_message_that_is_none_is_refused(browser: Browser, body: str) -> None:
    assert browser.post(VIEW, body, content_type="application/json").status_code == 400


def test_tool_without_a_view_has_no_document(browser: Browser) -> None:
    response = browser.get(VIEW.replace("show", "wipe"))
    assert response.status_code == 404
    assert "has no view" in unescape(response.content.decode())
    assert browser.get(VIEW.replace("show", "no")).status_code == 404


def test_view_that_cannot_be_shown_says_why(workshop: Server, browser: Browser) -> None:
    @workshop.tool(meta={"ui": {"resourceUri": "ui://workshop/none"}})
    def show_none() -> str:
        return "none"

    @workshop.tool(meta={"ui": {"resourceUri": "ui://workshop/html"}})
    def show_html() -> str:
        return "html"

    @workshop.resource("ui://workshop/html", name="html", mime_type="text/html")
    def html() -> str:
        return "<p>Page</p>"

    unread = browser.get(VIEW.replace("board", "none")).content.decode()
    assert "ui://workshop/none cannot be read" in unread
    other = browser.get(VIEW.replace("board", "html")).content.decode()
    assert "hosts show 'text/html;profile=mcp-app' only" in other


def test_view_needs_the_permission_to_try(staff: User, browser: Browser) -> None:
    staff.user_permissions.remove(Permission.objects.get(codename="try_component"))
    assert browser.get(VIEW).status_code == 403
    assert browser.post(VIEW, "{}", content_type="application/json").status_code == 403


def test_message_of_another_site_is_refused(staff: User) -> None:
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(staff)
    assert browser.post(VIEW, "{}", content_type="application/json").status_code == 403
