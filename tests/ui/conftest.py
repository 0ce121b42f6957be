"""Templates and a server for tests of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from django_mcp import Server
from tests.memory_stores import configure

__all__ = ["configure"]

Templates = Callable[[dict[str, str]], None]

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
"""The capabilities of a client that renders views."""


@pytest.fixture
def server() -> Server:
    return Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])


@pytest.fixture
def templates(settings: Settings) -> Templates:
    """Make templates of a test known, beside those of the apps."""

    def make(sources: dict[str, str]) -> None:
        loaders: list[Any] = [
            ("django.template.loaders.locmem.Loader", sources),
            "django.template.loaders.app_directories.Loader",
        ]
        engine = {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {"loaders": loaders},
        }
        settings.TEMPLATES = [engine]

    return make
