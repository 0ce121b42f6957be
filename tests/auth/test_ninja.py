"""Keys in headers of Django Ninja: a caller with a wrong one is not anonymous."""

from __future__ import annotations

from typing import Any

from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.auth.ninja import WRONG_KEY, NinjaAuthentication
from django_mcp.auth.resource import Resource
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.testing.asgi import http_scope


class Key:
    """What Django Ninja's APIKeyHeader has for its callers."""

    openapi_in = "header"
    param_name = "X-API-Key"

    def __call__(self, request: Any) -> str | None:
        key = request.headers["X-API-Key"]
        return key if key == "right" else None


async def answer_to(headers: dict[str, str]) -> Principal | Challenge:
    scope = http_scope(path="/mcp", headers={"host": "testserver", **headers})
    authenticators: list[Any] = [NinjaAuthentication(Key), AnonymousAuthentication()]
    try:
        return await Authentication(authenticators, Resource("/mcp")).authenticate(scope)
    except AuthenticationFailed as failed:
        return failed.challenge


async def test_caller_with_a_wrong_key_is_not_anonymous() -> None:
    right = await answer_to({"x-api-key": "right"})
    none = await answer_to({})

    assert isinstance(right, Principal)
    assert right.scheme == "ninja"
    assert isinstance(none, Principal)
    assert none.is_anonymous
    assert await answer_to({"x-api-key": "wrong"}) == WRONG_KEY
