"""The script of a view, in hosts that refuse, restrict or attack it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.template.loader import render_to_string
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from django_mcp.ui.base import FRAGMENT
from django_mcp.ui.views import PAGE
from tests.browser.chromium import pytestmark
from tests.browser.one_browser import driver
from tests.browser.scripted_host import ScriptedHost
from tests.memory_stores import configure
from tests.spec import spec
from tests.waiting import wait_until

__all__ = ["configure", "driver", "pytestmark"]

FORM = """<form data-mcp-tool="save" data-mcp-arguments='{"number": 7}'>
<input name="dataset" value="a" required><input name="count" type="number" value="2">
<input name="empty" value=""><input name="is_open" type="checkbox" checked>
<input name="rooms" type="checkbox" value="one">
<input name="rooms" type="checkbox" value="two" checked>
<input name="off" value="x" disabled>
<button id="save" name="by" value="button">Save</button></form>"""
SENT = {
    "number": 7,
    "dataset": "a",
    "count": 2,
    "is_open": True,
    "rooms": ["two"],
    "by": "button",
}
BUTTONS = '<button id="a" data-mcp-tool="a">A</button><button id="b" data-mcp-tool="b">B</button>'
ATTACK = """
const intruder = document.createElement("iframe");
intruder.setAttribute("sandbox", "allow-scripts");
intruder.srcdoc = `<script>
  const result = { content: [], _meta: { "django-mcp/html": "<p>Forged</p>" } };
  const message = { jsonrpc: "2.0", method: "ui/notifications/tool-result", params: result };
  parent.frames[0].postMessage(message, "*");
  parent.postMessage("sent", "*");
</` + `script>`;
const done = arguments[arguments.length - 1];
window.addEventListener("message", ({ data }) => data === "sent" && done());
document.body.append(intruder);
"""


@pytest.fixture
def host(driver: webdriver.Chrome) -> Iterator[ScriptedHost]:
    """A host; when the test ends, its console has no error of the policy or of a script."""
    host = ScriptedHost(driver)
    yield host
    assert host.console_errors() == []


def page(content: str = "<main data-mcp-fragment></main>") -> str:
    html = render_to_string(PAGE, {})
    return html.replace("<main data-mcp-fragment></main>", content)


def calls(host: ScriptedHost, count: int) -> list[Any]:
    return [message["params"] for message in host.wait_for("tools/call", count)]


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-forms"])
def test_form_is_sent_by_its_button_whether_the_host_allows_forms(
    host: ScriptedHost, sandbox: str
) -> None:
    host.open(page(), sandbox=sandbox)
    host.show(FORM)
    host.wait_for_text("form", "Save")
    host.click("#save")

    assert calls(host, 1) == [{"name": "save", "arguments": SENT}]


def test_empty_fields_are_sent_by_a_form_that_asks_for_them(host: ScriptedHost) -> None:
    host.open(page())
    host.show(FORM.replace("<form", "<form data-mcp-empty"))
    host.wait_for_text("form", "Save")
    host.fill("[name=count]", "")
    host.click("#save")

    (call,) = calls(host, 1)
    assert call["arguments"] == {**SENT, "empty": "", "count": ""}


def test_invalid_form_is_not_sent(host: ScriptedHost) -> None:
    host.open(page())
    host.show(FORM)
    host.wait_for_text("form", "Save")
    host.fill("[name=dataset]", "")
    host.click("#save")
    host.fill("[name=dataset]", "b")
    host.click("#save")

    (call,) = calls(host, 1)
    assert call["arguments"]["dataset"] == "b"


NUMBERS = {
    "2": 2,
    "1.50": 1.5,
    "-0.25": -0.25,
    "007": 7,
    "12e2": 1200,
    "1e-7": 1e-7,
    "10000000000000000000000": 10**22,
    "9007199254740991": 2**53 - 1,
    "9007199254740993": "9007199254740993",
    "-12345678901234567890": "-12345678901234567890",
    "0.12345678901234567891": "0.12345678901234567891",
    "1e-400": "1e-400",
}
"""What is sent for the text of a number."""


def test_number_is_sent_with_all_its_digits(host: ScriptedHost) -> None:
    fields = "".join(
        f'<input type="number" step="any" name="n{place}" value="{text}">'
        for place, text in enumerate(NUMBERS)
    )
    host.open(page())
    host.show(f'<form data-mcp-tool="save">{fields}<button id="save">Save</button></form>')
    host.wait_for_text("form", "Save")
    host.click("#save")

    (call,) = calls(host, 1)
    values = {text: call["arguments"][f"n{place}"] for place, text in enumerate(NUMBERS)}
    assert values == NUMBERS


CHOICE = """<form data-mcp-tool="filter"><select name="status" data-mcp-submit>
<option>open</option><option>closed</option><option>all</option></select></form>"""
CHOOSE = """
const field = document.querySelector("select");
field.value = arguments[0];
field.dispatchEvent(new Event("change", { bubbles: true }));
"""


def test_last_choice_wins_while_a_call_runs(host: ScriptedHost) -> None:
    host.open(page(f"{CHOICE}<main data-mcp-fragment></main>"))
    host.show("<p>First</p>")
    host.wait_for_text("p", "First")
    with host.view() as view:
        for status in ("closed", "all"):
            view.execute_script(CHOOSE, status)
    older, newer = host.wait_for("tools/call", 2)
    assert newer["params"]["arguments"] == {"status": "all"}

    host.send(id=newer["id"], result={"content": [], "_meta": {FRAGMENT: "<p>All</p>"}})
    host.wait_for_text("p", "All")
    host.send(id=older["id"], error={"code": -32000, "message": "Too late"})
    host.wait_for_rest()

    assert host.view_text("main") == "All"


def test_enter_in_a_changed_field_that_submits_its_form_calls_once(host: ScriptedHost) -> None:
    field = '<input name="text" data-mcp-submit>'
    form = f'<form data-mcp-tool="add">{field}<button name="by" value="enter">Add</button></form>'
    host.open(page(), sandbox="allow-scripts allow-forms")
    host.show(form)
    host.wait_for_text("form", "Add")
    with host.view() as view:
        view.find_element(By.NAME, "text").send_keys("a", Keys.ENTER)
    host.wait_for_rest()

    (call,) = calls(host, 1)
    assert call["arguments"] == {"text": "a", "by": "enter"}


def test_button_is_pressed_once_while_its_call_runs(host: ScriptedHost) -> None:
    host.open(page())
    host.show(FORM)
    host.wait_for_text("form", "Save")
    host.click("#save")
    host.click("#save")
    host.wait_for_rest()

    assert len(calls(host, 1)) == 1


def test_form_is_sent_once_by_two_enters_while_its_call_runs(host: ScriptedHost) -> None:
    form = '<form data-mcp-tool="add"><input name="text" value="a"></form><p>Add</p>'
    host.open(page(), sandbox="allow-scripts allow-forms")
    host.show(form)
    host.wait_for_text("p", "Add")
    with host.view() as view:
        view.find_element(By.NAME, "text").send_keys(Keys.ENTER, Keys.ENTER)
    host.wait_for_rest()

    assert len(calls(host, 1)) == 1


@spec("apps-13")
def test_message_of_another_window_is_ignored(host: ScriptedHost) -> None:
    host.open(page())
    host.show("<p>Real</p>")
    host.wait_for_text("p", "Real")
    host.driver.execute_async_script(ATTACK)
    host.wait_for_rest()

    assert host.view_text("main") == "Real"


@pytest.mark.parametrize("method", ["constructor", "__proto__", "toString", "ui/unknown"])
def test_unknown_method_is_answered_with_its_error(host: ScriptedHost, method: str) -> None:
    host.open(page())
    host.show("<p>Shown</p>")
    host.send(method=method, params={})
    host.send(id="host-1", method=method, params={})
    wait_until(lambda: host.received()[-1].get("id") == "host-1")

    assert host.received()[-1]["error"]["code"] == -32601


def test_refused_handshake_is_an_error_of_the_view(host: ScriptedHost) -> None:
    host.open(page(), answers={"ui/initialize": {"error": {"code": -1, "message": "No views."}}})
    host.wait_for_text("[role=alert]", "No views.")

    assert host.received("ui/notifications/initialized") == []


@pytest.mark.parametrize("answer", [{"result": {"isError": True}}, {"error": {"message": ""}}])
def test_refused_link_is_an_error_of_the_view(host: ScriptedHost, answer: dict[str, Any]) -> None:
    host.open(page(), answers={"ui/open-link": answer})
    host.show('<a href="https://site.example/">Site</a>')
    host.wait_for_text("a", "Site")
    host.click("a")
    host.wait_for_text("[role=alert]", "That did not work.")


def test_display_mode_that_the_host_does_not_have_is_not_requested(host: ScriptedHost) -> None:
    button = '<p>Shown</p><button data-mcp-display="fullscreen">Larger</button>'
    host.open(page(), context={"displayMode": "inline", "availableDisplayModes": ["inline"]})
    host.show(button)
    host.wait_for_text("p", "Shown")
    assert host.view_text("button") == ""
    with host.view() as view:
        request = "mcpApp.requestDisplayMode('pip').then(arguments[0])"
        assert view.execute_async_script(request) == {"mode": "inline"}

    host.send(
        method="ui/notifications/host-context-changed",
        params={"availableDisplayModes": ["inline", "fullscreen"]},
    )
    host.wait_for_text("button", "Larger")
    host.click("button")

    (requested,) = host.wait_for("ui/request-display-mode")
    assert requested["params"] == {"mode": "fullscreen"}


def test_height_that_follows_the_frame_does_not_grow_without_end(host: ScriptedHost) -> None:
    tall = '<main data-mcp-fragment style="min-height: 100vh; margin-top: 30px"></main>'
    host.open(page(tall), apply_size=True)
    host.wait_for("ui/notifications/size-changed")
    sent = host.wait_for_rest()

    assert host.wait_for_rest() == sent
    assert len(host.received("ui/notifications/size-changed")) <= 3


def test_view_is_as_wide_as_its_frame(host: ScriptedHost) -> None:
    host.open(page(), apply_size=True)
    host.show('<div style="height: 5000px">Long</div>')
    host.wait_for_text("div", "Long")
    sent = host.wait_for_rest()

    assert host.wait_for_rest() == sent
    widths = {it["params"]["width"] for it in host.received("ui/notifications/size-changed")}
    assert len(widths) == 1


def test_older_result_does_not_replace_a_newer_one(host: ScriptedHost) -> None:
    host.open(page(f"{BUTTONS}<main data-mcp-fragment></main>"))
    host.show("<p>First</p>")
    host.wait_for_text("p", "First")
    host.click("#a")
    host.click("#b")
    older, newer = [message["id"] for message in host.wait_for("tools/call", 2)]
    host.send(id=newer, result={"content": [], "_meta": {FRAGMENT: "<p>Newer</p>"}})
    host.send(id=older, result={"content": [], "_meta": {FRAGMENT: "<p>Older</p>"}})
    host.wait_for_rest()

    assert host.view_text("p") == "Newer"


FAILURES = [
    {"error": {"code": -32000, "message": "Not saved."}},
    {"result": {"content": [{"type": "text", "text": "Not saved."}], "isError": True}},
]


def two_calls(host: ScriptedHost) -> list[Any]:
    """Press two buttons with one target; return the ids of their calls."""
    host.open(page(f"{BUTTONS}<main data-mcp-fragment></main>"))
    host.show("<p>First</p>")
    host.wait_for_text("main", "First")
    host.click("#a")
    host.click("#b")
    return [message["id"] for message in host.wait_for("tools/call", 2)]


@pytest.mark.parametrize("failure", FAILURES)
def test_older_result_does_not_replace_a_newer_failure(
    host: ScriptedHost, failure: dict[str, Any]
) -> None:
    older, newer = two_calls(host)
    host.send(id=newer, **failure)
    host.wait_for_text("[role=alert]", "Not saved.")
    host.send(id=older, result={"content": [], "_meta": {FRAGMENT: "<p>Older</p>"}})
    host.wait_for_rest()

    assert "Not saved." in host.view_text("main")
    assert "Older" not in host.view_text("main")


@pytest.mark.parametrize("failure", FAILURES)
def test_older_failure_of_another_button_is_shown_beside_a_newer_result(
    host: ScriptedHost, failure: dict[str, Any]
) -> None:
    older, newer = two_calls(host)
    host.send(id=newer, result={"content": [], "_meta": {FRAGMENT: "<p>Newer</p>"}})
    host.wait_for_text("main", "Newer")
    host.send(id=older, **failure)
    host.wait_for_text("[role=alert]", "Not saved.")

    assert "Newer" in host.view_text("main")


def test_result_without_a_fragment_is_shown_as_text(host: ScriptedHost) -> None:
    host.open(page())
    host.wait_for("ui/notifications/initialized")
    host.send_result({"content": [{"type": "text", "text": "3 <b>pieces</b>"}]})
    host.wait_for_text("main", "3 <b>pieces</b>")


def test_view_that_waits_is_not_empty_and_says_when_it_was_cancelled(host: ScriptedHost) -> None:
    host.open(page())
    (size,) = host.wait_for("ui/notifications/size-changed")[:1]
    host.send(method="ui/notifications/tool-cancelled", params={"reason": "The user stopped it."})
    host.wait_for_text("[role=alert]", "The user stopped it.")

    assert size["params"]["height"] > 100


def test_focus_stays_in_the_fragment_that_was_replaced(host: ScriptedHost) -> None:
    again = {"result": {"content": [], "_meta": {FRAGMENT: "<p>Done</p>"}}}
    host.open(page(), answers={"tools/call": again})
    host.show('<button data-mcp-tool="add">Add</button>')
    host.wait_for_text("button", "Add")
    host.click("button")
    host.wait_for_text("p", "Done")

    with host.view() as view:
        assert view.switch_to.active_element == view.find_element(By.TAG_NAME, "main")
