"""The URLs of a site without an authorization server."""

from typing import Any

urlpatterns: list[Any] = []
