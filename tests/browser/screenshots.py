"""The screenshots of the documentation: python -m tests.browser.screenshots

They show the example site, as if it were served at another host, and its admin at the usual port.
The picture of the README, and those of views, are made by ``overview`` and ``app_screenshots``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlencode

from tests.browser import admin_screenshots, pictures
from tests.browser.chromium import Visitor, chromium
from tests.clients.oauth import flow
from tests.clients.oauth.pages import CLIENT_ID, WEB_REDIRECT_URI, client_pages
from tests.clients.oauth.users import NAME, PASSWORD
from tests.processes import ROOT

FOLDER = ROOT / "docs" / "images"
NAMES = (
    "browser-page.png",
    "consent.png",
    "allowed.png",
    "tokens.png",
    "user-tools.png",
    *admin_screenshots.NAMES,
)
SITE = "https://helpdesk.example"
REQUEST = {
    "response_type": "code",
    "client_id": CLIENT_ID,
    "redirect_uri": WEB_REDIRECT_URI,
    "resource": f"{SITE}/mcp",
    "scope": "helpdesk helpdesk:write",
    "state": "1",
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
}


KEEP_TOOLS = """
const [title, list] = document.querySelectorAll("#tools, main > .items");
while (title.previousElementSibling) title.previousElementSibling.remove();
while (list.nextElementSibling) list.nextElementSibling.remove();
title.style.marginTop = 0;
"""
"""Leaves the second part of the page at an endpoint: the tools of its user."""


def take(folder: Path) -> None:
    """Write the files into ``folder``."""
    with (
        tempfile.TemporaryDirectory() as profile,
        client_pages() as pages,
        flow.site_for(pages, BASE_URL=SITE) as site,
        chromium(Path(profile)) as driver,
    ):
        visitor = Visitor(driver, site, folder)
        pictures.prepare(visitor)
        visitor.show_width(1008)
        visitor.open("/mcp")
        pictures.save(visitor, folder / "browser-page.png", "html")
        visitor.show_width(760)
        visitor.open(f"/o/authorize?{urlencode(REQUEST)}")
        visitor.submit_login(NAME, PASSWORD)
        pictures.save(visitor, folder / "consent.png", "main")
        visitor.follow("button[name=allow]")
        visitor.open("/o/access")
        pictures.save(visitor, folder / "allowed.png", "main")
        visitor.open("/tokens/")
        visitor.one("#id_name").send_keys("Laptop")
        visitor.one("input[value='helpdesk:write']").click()
        visitor.follow("main > form button")
        visitor.open("/tokens/")
        pictures.save(visitor, folder / "tokens.png", "main")
        visitor.open("/mcp?q=comment#tools")
        visitor.one("main .items summary").click()
        visitor.run(KEEP_TOOLS)
        pictures.save(visitor, folder / "user-tools.png", "main")
    admin_screenshots.take(folder)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    take(FOLDER)
