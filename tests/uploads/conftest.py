"""A host with files, from which the site accepts some."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from tests.outbound.conftest import NAME, Host, host

__all__ = ["host"]


@pytest.fixture
def chat(host: Host, settings: Settings) -> Host:
    """The host of a chat, of which the site accepts files."""
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "UPLOAD_HOSTS": [NAME]}
    return host
