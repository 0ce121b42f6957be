"""Pages on which a component is tried."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

from django.contrib.admin.utils import quote
from django.test import Client as Browser

PRE = re.compile(r"<pre[^>]*>(.*?)</pre>", re.DOTALL)


def path(name: str, kind: str = "tool") -> str:
    return f"/admin/django_mcp/component/{quote(f'workshop:{kind}:{name}')}/try/"


class Page:
    """A page as a browser without scripts shows it."""

    def __init__(self, browser: Browser, path: str, html: str) -> None:
        self.browser = browser
        self.path = path
        self.html = html

    @property
    def text(self) -> str:
        return unescape(re.sub(r"<[^>]+>", "", self.html))

    @property
    def status(self) -> str:
        match = re.search(r'mcp-try-status">(.*?)<', self.html)
        return unescape(match[1]) if match else ""

    @property
    def texts(self) -> list[str]:
        """The texts of the result, without the messages."""
        result, _, _ = self.html.partition("<h3>")
        return [unescape(text) for text in PRE.findall(result)]

    @property
    def sent(self) -> list[Any]:
        """The requests among the messages, oldest first."""
        _, _, messages = self.html.partition("<h3>")
        bodies = [
            json.loads(unescape(text)) for text in PRE.findall(messages.partition("</ol>")[0])
        ]
        return [body for body in bodies if "method" in body and "id" in body]

    @property
    def copies(self) -> dict[str, str]:
        """The texts to copy, by their headings."""
        found = re.findall(r"<summary>([^<]*)</summary><pre[^>]*>(.*?)</pre>", self.html, re.DOTALL)
        return {heading: unescape(text) for heading, text in found}

    def error_at(self, name: str) -> str:
        match = re.search(rf'id="id_{re.escape(name)}_errors"><li>(.*?)</li>', self.html)
        return unescape(match[1]) if match else ""

    def press(self, button: str, value: str = "1", **data: str) -> Page:
        """Press a button of the form of the call."""
        token = re.search(r'name="conversation" value="([^"]*)"', self.html)
        assert token is not None, self.status
        return post(self.browser, self.path, {button: value, "conversation": token[1], **data})


def post(browser: Browser, path: str, data: dict[str, Any]) -> Page:
    response = browser.post(path, data)
    assert response.status_code == 200
    return Page(browser, path, response.content.decode())


def run(browser: Browser, name: str, kind: str = "tool", **data: Any) -> Page:
    return post(browser, path(name, kind), {"run": "1", **data})
