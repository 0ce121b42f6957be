"""A host that a test writes: it does what other hosts do not, or should not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selenium import webdriver

from django_mcp.ui.base import FRAGMENT
from django_mcp.ui.mcp_apps import policy
from tests.browser.app_host import ShownView
from tests.browser.chromium import TIMEOUT
from tests.waiting import wait_until

OPEN = """
const [html, sandbox, answers, applySize] = arguments;
window.received = [];
const frame = document.createElement("iframe");
frame.setAttribute("sandbox", sandbox);
window.addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  received.push(data);
  if (data.method === "ui/notifications/size-changed" && applySize) {
    frame.style.width = `${data.params.width}px`;
    frame.style.height = `${Math.min(data.params.height, 3000)}px`;
  }
  const answer = data.id === undefined ? undefined : answers[data.method];
  if (answer) source.postMessage({ jsonrpc: "2.0", id: data.id, ...answer }, "*");
});
frame.srcdoc = html;
document.body.replaceChildren(frame);
"""
SEND = "document.querySelector('iframe').contentWindow.postMessage(arguments[0], '*')"
FRAMES = """
const done = arguments[arguments.length - 1];
let count = 0;
const next = () => ((count += 1) > 40 ? done(received.length) : requestAnimationFrame(next));
next();
"""
"""Waits until everything that a message could cause has been drawn."""


class ScriptedHost(ShownView):
    """A page with one view; it answers the methods that a test names, and no others."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        super().__init__(driver)

    def open(
        self,
        html: str,
        *,
        context: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        sandbox: str = "allow-scripts",
        apply_size: bool = False,
    ) -> None:
        """Show a page without a policy of its own, and answer its handshake."""
        opened = {"result": {"hostContext": dict(context or {}), "hostCapabilities": {}}}
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy.header(None)}">'
        page = html.replace("<head>", f"<head>{meta}", 1)
        self.driver.get("about:blank")
        self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # It forgets others.
        given = {"ui/initialize": opened, **(answers or {})}
        self.driver.execute_script(OPEN, page, sandbox, given, apply_size)

    def show(self, fragment: str) -> None:
        """Send a result with a fragment, once the view is ready for it."""
        self.wait_for("ui/notifications/initialized")
        self.send_result({"content": [], "_meta": {FRAGMENT: fragment}})

    def send_result(self, result: Mapping[str, Any]) -> None:
        self.send(method="ui/notifications/tool-result", params=result)

    def send(self, **message: Any) -> None:
        self.driver.execute_script(SEND, {"jsonrpc": "2.0", **message})

    def received(self, method: str | None = None) -> list[dict[str, Any]]:
        """The messages of the view, those of one method or all."""
        messages = self.driver.execute_script("return received")
        return [message for message in messages if method in (None, message.get("method"))]

    def wait_for(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many messages of a method, and return all of them."""
        wait_until(lambda: len(self.received(method)) >= count, method, seconds=TIMEOUT)
        return self.received(method)

    def wait_for_rest(self) -> int:
        """Wait until the view has drawn what it was sent; return how many messages it has sent."""
        return int(self.driver.execute_async_script(FRAMES))
