"""A server with components of each kind, and a user who may try them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from tests.try_it.workshop import add_components


@pytest.fixture(autouse=True)
def workshop(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server("workshop", authenticators=[AnonymousAuthentication()])
    add_components(server)
    monkeypatch.setattr(registry.registered, "servers", {"workshop": server})
    return server


@pytest.fixture
def staff(db: None) -> User:
    """May view and try components, and nothing else."""
    user = User.objects.create_user("staff", password="staff", is_staff=True)
    for codename in ("view_component", "try_component"):
        user.user_permissions.add(Permission.objects.get(codename=codename))
    return user


@pytest.fixture
def browser(staff: User) -> Browser:
    browser = Browser()
    browser.force_login(staff)
    return browser
