"""Servers in the admin: a list, a page for each, and what mcp_doctor says."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import Server, registry
from django_mcp.management import examination
from django_mcp.management.discovery import Probe
from django_mcp.management.examination import Http
from django_mcp.management.findings import project
from django_mcp.management.findings.base import Answer
from django_mcp.pubsub import switches
from tests.admin.site import browser_of, entry_of, shop, text_of

pytestmark = pytest.mark.django_db

SERVERS = "/admin/django_mcp/mcpserver/"
PAGE = f"{SERVERS}shop/change/"
EXAMINE = f"{SERVERS}shop/examine/"


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = shop()
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    return server


@pytest.fixture
def browser() -> Browser:
    return browser_of("staff", "view_mcpserver", "view_component", "view_mcpsession")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs to which an examination sends requests, which nobody answers."""
    urls: list[str] = []

    def send(http: object, probe: Probe, url: str) -> Answer:
        urls.append(url)
        return Answer(0, error="refused")

    monkeypatch.setattr(Http, "_send_once", send)
    # Without the databases that other tests of this process have configured.
    monkeypatch.setattr(project, "connections", {"default": connection})
    return urls


def test_list_names_path_authenticators_and_revisions(browser: Browser) -> None:
    text = text_of(browser.get(SERVERS))
    assert "shop /shop The shop AnonymousAuthentication 6 2024-11-05 – 2026-07-28" in text


def test_page_has_counts_groups_and_instructions(browser: Browser, server: Server) -> None:
    switches.switch_off([entry_of(server, "order")], by="boss")
    text = text_of(browser.get(PAGE))
    assert "tool 4 1" in text
    assert "prompt 1 0" in text
    assert "counter 1 – office 1 office" in text
    assert "Begin with stock." in text
    assert "Open sessions: 0" in text


def test_server_without_authenticators_says_so(browser: Browser, server: Server) -> None:
    server.authenticators = []
    assert "names no authenticator" in text_of(browser.get(PAGE))


def test_examination_says_what_each_client_finds(browser: Browser, probes: list[str]) -> None:
    text = text_of(browser.post(EXAMINE))
    assert "This project (" in text
    assert "FAILURE" in text
    assert "refused" in text
    assert all(url.startswith("http://testserver/") for url in probes)


def test_examination_asks_the_address_of_the_site_and_no_other(
    browser: Browser, probes: list[str], settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert browser.post(EXAMINE, headers={"host": "internal.example"}).status_code == 404
    assert "Set BASE_URL" in text_of(browser.get(PAGE))
    assert probes == []


def test_examination_ends_in_time(
    browser: Browser, probes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "EXAMINE_WITHIN", -1.0)
    assert "the others took too long" in text_of(browser.post(EXAMINE))
    assert probes == []


@pytest.mark.parametrize("address", [SERVERS, PAGE])
def test_pages_need_the_permission_to_view_servers(address: str) -> None:
    browser = browser_of("other", "view_component")
    assert browser.get(address).status_code == 403
    assert browser.post(EXAMINE).status_code == 403


def test_examination_needs_a_post(browser: Browser, probes: list[str]) -> None:
    assert browser.get(EXAMINE).status_code == 405
    assert browser.post(f"{SERVERS}nothing/examine/").status_code == 404
    assert probes == []


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("testserver", "http://testserver/shop"),
        ("testserver:8000", "http://testserver:8000/shop"),
        # Another service of the same machine would be sent the requests.
        ("testserver:6379", "http://testserver:8000/shop"),
    ],
)
def test_examination_sends_nothing_to_another_port_than_that_of_the_request(
    browser: Browser, probes: list[str], host: str, url: str
) -> None:
    browser.post(EXAMINE, headers={"host": host}, SERVER_PORT="8000")

    assert probes
    assert all(probe.startswith(url.removesuffix("/shop")) for probe in probes)
    assert url in probes


@pytest.mark.parametrize(
    "url", [f"{SERVERS}?q=x", f"{SERVERS}?o=3", "/admin/django_mcp/component/?o=0"]
)
def test_list_ignores_a_search_and_an_order_that_it_does_not_have(
    browser: Browser, url: str
) -> None:
    response = browser.get(url)

    assert response.status_code == 200
    assert "shop" in text_of(response)
