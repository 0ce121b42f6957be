"""The screenshots of the admin and of an approval, for ``tests.browser.screenshots``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.contrib.admin.utils import quote
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser import pictures
from tests.browser.busy_site import busy_site
from tests.browser.chromium import TIMEOUT, Visitor, chromium

NAMES = (
    "admin-server.png",
    "admin-components.png",
    "admin-component.png",
    "admin-see-as.png",
    "admin-try.png",
    "admin-view.png",
    "admin-sessions.png",
    "call-log.png",
    "approval-page.png",
    "approvals-admin.png",
)
COMPONENTS = "/admin/django_mcp/component/"
TOOL = f"{COMPONENTS}{quote('mcp:tool:search_tickets')}"
WITH_VIEW = f"{COMPONENTS}{quote('mcp:tool:show_ticket')}"
TIDY = """
document.querySelectorAll("#nav-sidebar, #toggle-nav-sidebar").forEach(each => each.remove());
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode())
  texts.currentNode.data = texts.currentNode.data.replaceAll(location.port, "8000");
"""
"""Removes the sidebar, and shows the usual port instead of a free one."""


def take(folder: Path) -> None:
    """Write the files into ``folder``."""
    with (
        tempfile.TemporaryDirectory() as profile,
        busy_site() as site,
        chromium(Path(profile)) as driver,
    ):
        visitor = Visitor(driver, site, folder)
        pictures.prepare(visitor)
        visitor.show_width(1280)
        visitor.log_in("admin", "admin")
        _take_servers_and_components(visitor, folder)
        _take_what_happened(visitor, folder)
        _take_trials(visitor, folder)
        _take_approvals(visitor, folder)


def _take_servers_and_components(visitor: Visitor, folder: Path) -> None:
    visitor.open("/admin/django_mcp/mcpserver/mcp/change/")
    visitor.one("#doctor button").click()
    _wait_for(visitor, "#doctor", "PKCE with S256")
    _save(visitor, folder / "admin-server.png", "#doctor")
    visitor.open(COMPONENTS)
    _save(visitor, folder / "admin-components.png", "#result_list tr:nth-child(18)")
    visitor.open(f"{TOOL}/change/")
    _save(visitor, folder / "admin-component.png", ".mcp-columns")
    visitor.open(f"{COMPONENTS}see-as/?user=2&scopes=helpdesk&groups=")
    _save(visitor, folder / "admin-see-as.png", "#content tr:nth-child(15)")


def _take_what_happened(visitor: Visitor, folder: Path) -> None:
    visitor.open("/admin/django_mcp/mcpsession/")
    _save(visitor, folder / "admin-sessions.png", "#content")
    visitor.show_width(944)
    visitor.open("/admin/django_mcp_calls/call/dashboard/")
    _save(visitor, folder / "call-log.png", "#content", first="#content")


def _take_trials(visitor: Visitor, folder: Path) -> None:
    """Try tools, whose calls are in the log from then on."""
    visitor.show_width(1280)
    visitor.open(f"{TOOL}/try/")
    visitor.one('[name="arguments/text"]').send_keys("printer")
    limit = visitor.one('[name="arguments/limit"]')
    limit.clear()
    limit.send_keys("2")
    visitor.one("input[name=run]").click()
    _wait_for(visitor, '[data-part="result"]', "Structured content")
    _save(visitor, folder / "admin-try.png", "#content")
    visitor.open(f"{WITH_VIEW}/try/")
    visitor.one('[name="arguments/number"]').send_keys("184")
    visitor.one("input[name=run]").click()
    _wait_for(visitor, '[data-part="result"]', "in a frame without access to this site")
    _wait_for_the_view(visitor)
    _save(visitor, folder / "admin-view.png", "[data-view] > .mcp-quiet")


def _take_approvals(visitor: Visitor, folder: Path) -> None:
    visitor.show_width(820)
    visitor.open("/approvals/")
    visitor.follow(".items a")
    pictures.save(visitor, folder / "approval-page.png", "html")
    visitor.open("/approvals/")
    visitor.follow(".items li:last-child a")
    visitor.one("textarea").send_keys("The reminder has cost nothing.")
    visitor.follow("button[value=decline]")
    visitor.show_width(1500)
    visitor.open("/admin/django_mcp_approvals/approval/")
    _save(visitor, folder / "approvals-admin.png", ".paginator")


def _save(visitor: Visitor, file: Path, last: str, *, first: str = "html") -> None:
    """Save a page of the admin to the end of an element."""
    visitor.run(TIDY)
    pictures.save(visitor, file, first, last)


def _wait_for(visitor: Visitor, selector: str, text: str) -> None:
    """Wait until an element shows a text."""
    WebDriverWait(visitor.driver, TIMEOUT).until(lambda _: text in visitor.one(selector).text)


def _wait_for_the_view(visitor: Visitor) -> None:
    """Wait until the frame is as high as the view, and stays so."""
    heights: list[int] = []

    def is_steady(_: object) -> bool:
        heights.append(visitor.one("iframe").size["height"])
        return heights[-1] > 400 and heights[-3:] == [heights[-1]] * 3

    WebDriverWait(visitor.driver, TIMEOUT).until(is_steady)
