"""The official SDKs log in to the example site by OAuth; tests/browser does so with a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.clients.conftest import Command
from tests.clients.oauth import flow
from tests.clients.oauth.pages import ClientPages, client_pages
from tests.clients.oauth.users import HttpUser
from tests.running_site import RunningSite
from tests.waiting import SECONDS

TIMEOUT = SECONDS


@pytest.fixture(scope="module")
def pages() -> Iterator[ClientPages]:
    with client_pages() as pages:
        yield pages


@pytest.fixture(scope="module")
def oauth_site(pages: ClientPages) -> Iterator[RunningSite]:
    with flow.site_for(pages) as site:
        yield site


@pytest.mark.parametrize(
    ("command", "published"),
    [
        pytest.param(flow.python, False, id="python-registered"),
        pytest.param(flow.python, True, id="python-published", marks=pytest.mark.nightly),
        pytest.param(flow.typescript, False, id="typescript-registered", marks=pytest.mark.nightly),
        pytest.param(flow.typescript, True, id="typescript-published"),
    ],
)
def test_sdk_logs_in_calls_steps_up_and_refreshes(
    command: Callable[[], Command], published: bool, oauth_site: RunningSite, pages: ClientPages
) -> None:
    with httpx.Client(follow_redirects=True, timeout=TIMEOUT) as http:
        user = HttpUser(http, pages)
        with flow.connected(command, oauth_site, pages, user, published=published) as connected:
            flow.check_whole_flow(connected, published=published)
