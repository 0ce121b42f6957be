"""The site of the API: its URLs, three users, and what each of them sends."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as site_settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.ninja import NinjaAuthentication
from django_mcp.testing import SyncClient
from tests.openapi import ninja_api

Caller = tuple[Browser, SyncClient]


@pytest.fixture(autouse=True)
def _urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.openapi.ninja_api"
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SCOPES": ()}
    cache.clear()  # It has the history of the throttles.
    ninja_api.reset()


@pytest.fixture
def server() -> Server:
    callbacks = (ninja_api.Bearer(), ninja_api.AsyncBearer(), ninja_api.Key())
    ninja = NinjaAuthentication(*callbacks)
    anonymous = AnonymousAuthentication()
    return Server("shop", authenticators=[ninja, DjangoSessionAuthentication(), anonymous])


@pytest.fixture
def users(db: None) -> dict[str, User]:
    staff = User.objects.create(username="staff", is_staff=True, is_superuser=True)
    agent = User.objects.create(username="agent")
    return {"staff": staff, "agent": agent}


@pytest.fixture
def callers(server: Server, users: dict[str, User]) -> dict[str, Any]:
    """What each caller sends, to the API and to the server."""
    browser = Browser()
    browser.force_login(users["agent"])
    session = browser.cookies[site_settings.SESSION_COOKIE_NAME].value
    cookie = f"{site_settings.SESSION_COOKIE_NAME}={session}"
    return {
        "session": (browser, {"Cookie": cookie}),
        "token": headers_of({"Authorization": "Bearer token-staff"}),
        "device": headers_of({"X-Api-Key": "two"}),
        "nobody": headers_of({}),
    }


def headers_of(headers: dict[str, str]) -> tuple[Browser, dict[str, str]]:
    return Browser(headers=headers), headers
