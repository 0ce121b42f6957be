"""OAuth in one include, as its page says, in a new project with the official Python SDK."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.clients.oauth import flow
from tests.clients.oauth.pages import client_pages
from tests.clients.oauth.users import NAME, PASSWORD, HttpUser
from tests.docs.examples import ROOT, Block, blocks
from tests.docs.reader import Reader
from tests.wire.messages import text_of

BEFORE = """\
$ django-admin startproject mysite .
$ python manage.py startapp shop
"""
SUPERUSER = {
    "DJANGO_SUPERUSER_USERNAME": NAME,
    "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
    "DJANGO_SUPERUSER_EMAIL": "agent@example.com",
}


def follow(reader: Reader) -> None:
    """Follow the page until the server runs."""
    reader.enter(Block("docs/how-to/oauth.md", "console", BEFORE))
    for block in blocks(ROOT / "docs" / "how-to" / "oauth.md"):
        if reader.site is not None:
            return
        {"python": reader.write, "console": reader.enter}[block.label](block)


# It starts some 10 processes.
@pytest.mark.nightly
def test_client_logs_in_to_a_new_project_that_follows_the_page(tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack, **SUPERUSER)
        follow(reader)
        site = reader.site
        assert site is not None
        pages = stack.enter_context(client_pages())
        http = stack.enter_context(httpx.Client(follow_redirects=True, timeout=20))
        client = stack.enter_context(
            flow.connected(flow.python, site, pages, HttpUser(http, pages), published=False)
        )
        requested = client.log_in()
        assert requested["scope"] == "shop"
        assert text_of(client.client.call("whoami")) == NAME

        names = {"first_name": "Ann", "last_name": "Lee"}
        renamed, requested = client.call_with_consent("rename", **names)
        assert text_of(renamed) == "Your name is Ann Lee."
        assert {*requested["scope"].split()} == {"shop", "shop:write"}
        assert text_of(client.client.call("whoami")) == "Ann Lee"
