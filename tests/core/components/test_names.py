"""Options: a string in place of a list, names that nothing has, numbers out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import ConfigurationError, Server
from django_mcp.auth.introspection import IntrospectionAuthentication
from django_mcp.auth.jwt import JWTAuthentication
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.testing import Client
from django_mcp.ui import template_view


def server(**options: Any) -> Server:
    return Server("shop", **options)


def tool(**options: Any) -> Server:
    shop = server()

    @shop.tool(**options)
    def buy(sku: str) -> str:
        return sku

    return shop


STRINGS: dict[str, Callable[[], Any]] = {
    "authenticators of the Server 'shop'": lambda: server(authenticators="shop.auth.Staff"),
    "middleware of the Server 'shop'": lambda: server(middleware="shop.middleware.limit"),
    "log_arguments of": lambda: tool(log_arguments="sku"),
    "permissions of": lambda: template_view("it.html", uri="ui://it", permissions="camera"),
    "servers of the token": lambda: PersonalAccessToken.objects.issue(None, "CI", servers="shop"),
    "groups of the token": lambda: PersonalAccessToken.objects.issue(None, "CI", groups="tea"),
}


@pytest.mark.parametrize("option", STRINGS)
def test_string_in_place_of_a_list_is_an_error_with_the_list(option: str) -> None:
    with pytest.raises(ConfigurationError) as rejected:
        STRINGS[option]()
    assert option in str(rejected.value)
    assert "write a list, ['" in str(rejected.value)


def test_scopes_may_be_one_string_as_in_oauth() -> None:
    assert server(scopes="read write").scopes == {"read", "write"}
    (buy,) = tool(scopes="read write").components.all()
    assert buy.scopes == {"read", "write"}


async def test_scopes_of_a_test_client_may_be_one_string() -> None:
    async with Client(tool(scopes=["read", "write"]), scopes="read write") as client:
        assert (await client.call_tool("buy", {"sku": "tea"})).text == "tea"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"page_size": 0}, "page_size of the Server 'shop' is 0: write 1 or more"),
        ({"page_size": "20"}, "page_size of the Server 'shop' is '20'"),
        ({"keepalive_ms": -5}, "keepalive_ms of the Server 'shop' is -5: write 0 or more"),
        ({"log_rate_limit": -5}, "log_rate_limit of the Server 'shop' is -5: write 0 or more"),
    ],
)
def test_number_out_of_range_is_an_error_that_names_the_option(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        server(**options)


def test_threshold_of_the_keepalive_is_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="failure_threshold.* is 0: write 1 or more"):
        server().set_keepalive(1000, 0)


class Own(JWTAuthentication):
    def __init__(self, **options: Any) -> None:
        super(JWTAuthentication, self).__init__(**options)


class OwnIntrospection(IntrospectionAuthentication):
    def __init__(self, **options: Any) -> None:
        super(IntrospectionAuthentication, self).__init__(**options)


def test_unknown_option_of_an_authenticator_is_an_error_with_the_right_one() -> None:
    with pytest.raises(ImproperlyConfigured, match="no option 'audiance': did you mean 'audience'"):
        Own(audiance="shop")
    with pytest.raises(ImproperlyConfigured, match="no option 'client_secrt'"):
        OwnIntrospection(client_secrt="x")
    assert OwnIntrospection(url="https://login.example/introspect").url


def test_unknown_option_of_a_tool_is_an_error_with_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'permission'?"):
        tool(permissions="staff_member")


def test_unknown_hook_is_an_error_with_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'on_initialize'?"):

        @server().hook
        def on_initialise() -> None:
            """Misspelled."""
