"""A user of the example site who logs in and allows what a client asks for, without a browser."""

from __future__ import annotations

import re
from html import unescape
from typing import Protocol

import httpx

from tests.clients.oauth.pages import ClientPages

NAME = PASSWORD = "agent"
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


class User(Protocol):
    """Whoever a client sends to the consent page."""

    def allow(self, url: str) -> dict[str, str]:
        """Log in if needed, allow the access, and return the parameters of the redirect."""


class HttpUser:
    """Submits the forms of the pages."""

    def __init__(self, http: httpx.Client, pages: ClientPages) -> None:
        self._http, self._pages = http, pages

    def allow(self, url: str) -> dict[str, str]:
        self.submit_forms(url)
        return self._pages.next_redirect()

    def submit_forms(self, url: str) -> None:
        """Log in if needed, and allow the access; the client may have a page of its own."""
        page = self._http.get(url)
        if 'name="password"' in page.text:
            page = self._submit(page, username=NAME, password=PASSWORD)
        self._submit(page, allow="on")

    def _submit(self, page: httpx.Response, **fields: str) -> httpx.Response:
        hidden = {name: unescape(value) for name, value in HIDDEN.findall(page.text)}
        headers = {"Referer": str(page.url)}
        submitted = self._http.post(page.url, data={**hidden, **fields}, headers=headers)
        return submitted.raise_for_status()
