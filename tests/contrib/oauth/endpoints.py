"""What tests request of the endpoints of the authorization server."""

from __future__ import annotations

from typing import Any

from django.test import Client as Browser

from tests.contrib.oauth.flow import PAGE

WELL_KNOWN = "/.well-known/oauth-authorization-server"


def get(path: str, **extra: Any) -> Any:
    return Browser().get(path, **{**PAGE, **extra})
