"""Decorators of handlers: those that work, and those that would be bypassed or could not run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from celery import shared_task
from celery.local import PromiseProxy
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import login_required, permission_required, user_passes_test
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpRequest
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page, never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from django_mcp import ConfigurationError, Frame, Server, Tool, registry
from django_mcp.core.components.tool import tool_component
from django_mcp.testing import Client, ErrorResponse


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


async def agreet(name: str) -> str:
    return f"Hello {name}"


class Desk:
    def greet(self, name: str) -> str:
        return f"Hello {name}"

    def __call__(self, name: str) -> str:
        return f"Hello {name}"


def test_argument_bound_by_a_decorated_partial_is_fixed() -> None:
    def add(a: int, b: int, c: int = 0) -> int:
        return a + b + c

    decorated = transaction.atomic(functools.partial(add, b=2))
    assert [*tool_component(decorated, name="add").input_schema["properties"]] == ["a", "c"]
    again = functools.partial(decorated, c=3)
    assert [*tool_component(again, name="add").input_schema["properties"]] == ["a"]


@pytest.mark.parametrize(
    "handler",
    [
        transaction.atomic(greet),
        transaction.atomic(using="default")(greet),
        functools.cache(greet),
        functools.lru_cache(maxsize=3)(greet),
        functools.partial(greet),
        functools.partial(functools.cache(greet)),
        sync_to_async(greet),
        sensitive_variables("name")(greet),
        Desk().greet,
        Desk(),
        agreet,
    ],
)
@pytest.mark.django_db(transaction=True)
async def test_handler_is_called_through_its_decorator(handler: Any) -> None:
    server = Server("desk")
    server.tool(name="greet")(handler)
    async with Client(server, raise_exceptions=True) as client:
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.text == "Hello Ada"


VIEWS = [
    login_required,
    permission_required("auth.view_user"),
    user_passes_test(lambda user: True),
    staff_member_required,
    csrf_exempt,
    cache_page(60),
    never_cache,
    require_POST,
]


@pytest.mark.parametrize("decorate", VIEWS)
@pytest.mark.parametrize("function", [greet, agreet])
def test_decorator_of_views_is_rejected(
    decorate: Callable[..., Any], function: Callable[..., Any]
) -> None:
    for handler in (decorate(function), functools.cache(decorate(greet))):
        with pytest.raises(ConfigurationError, match='permission="login_required"'):
            tool_component(handler)


def test_decorator_of_views_on_a_method_is_rejected() -> None:
    class Greet(Tool):
        @method_decorator(login_required)
        def execute(self, name: str) -> str:
            return name

    with pytest.raises(ConfigurationError, match="decorator of views"):
        tool_component(Greet)


@pytest.mark.parametrize("decorate", [transaction.atomic, functools.cache])
def test_decorator_that_ends_before_an_async_function_runs_is_rejected(decorate: Any) -> None:
    with pytest.raises(ConfigurationError, match="is async, but one of its decorators is not"):
        tool_component(decorate(agreet))


def test_permission_that_is_a_decorator_of_views_is_rejected() -> None:
    for permission in (login_required, permission_required, staff_member_required):
        with pytest.raises(ConfigurationError, match="is a decorator of views"):
            tool_component(greet, permission=permission)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["logged_in", "login", "admin"])
def test_unknown_word_for_a_permission_is_rejected(word: str) -> None:
    with pytest.raises(ConfigurationError, match='"staff_member", "superuser"'):
        tool_component(greet, permission=word)


class TestRequest:
    @pytest.mark.parametrize("annotation", [HttpRequest, HttpRequest | None])
    def test_parameter_for_a_request_is_rejected(self, annotation: Any) -> None:
        def handler(it: Any) -> None: ...

        handler.__annotations__["it"] = annotation
        with pytest.raises(ConfigurationError, match="Annotate Frame"):
            tool_component(handler)

    def test_parameter_named_request_is_rejected_without_a_type(self) -> None:
        def handler(request, name: str) -> None: ...  # type: ignore[no-untyped-def]

        with pytest.raises(ConfigurationError, match="Annotate Frame"):
            tool_component(handler)

    def test_argument_named_request_is_taken_with_its_type(self) -> None:
        def handler(request: str) -> None: ...

        assert list(tool_component(handler).input_schema["properties"]) == ["request"]

    def test_frame_may_be_named_request(self) -> None:
        def handler(request: Frame, name: str) -> None: ...

        assert list(tool_component(handler).input_schema["properties"]) == ["name"]


def unwrapping(function: Any) -> Any:
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


class Wrapper:
    def __init__(self, function: Any) -> None:
        self.wraps = function

    def __call__(self) -> Any:
        return self.wraps()


class TestReplacedFunction:
    @pytest.fixture
    def module(self) -> Iterator[Any]:
        module = ModuleType("desk_mcp")
        module.server = Server("desk")  # type: ignore[attr-defined]
        sys.modules["desk_mcp"] = module
        yield module
        del sys.modules["desk_mcp"]

    def register(self, module: Any, *above: Callable[[Any], Any]) -> None:
        text = "@server.tool\ndef members() -> str:\n    return 'secret'"
        exec(text, vars(module))
        for decorate in above:
            module.members = decorate(module.members)

    @pytest.mark.parametrize(
        "decorate",
        [*VIEWS, transaction.atomic, functools.cache, functools.partial, unwrapping, Wrapper],
    )
    def test_decorator_above_the_registration_is_rejected(
        self, module: Any, decorate: Callable[[Any], Any]
    ) -> None:
        for above in ((decorate,), (decorate, functools.cache)):
            module.server = Server("desk")
            self.register(module, *above)
            with pytest.raises(ConfigurationError, match="desk_mcp:1 registers members") as caught:
                registry.check_decorators(module.server)
            assert 'permission="login_required"' in str(caught.value)

    def test_server_is_not_configured_with_such_a_tool(self, module: Any) -> None:
        self.register(module, login_required)
        with pytest.raises(ConfigurationError):
            registry.configure(module.server)
        assert not module.server.is_configured

    def test_discovery_rejects_such_a_tool(
        self, module: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.register(module, login_required)
        monkeypatch.setattr(registry.registered, "servers", {"desk": module.server})
        monkeypatch.setattr(registry.registered, "broken", [])
        registry.discover()
        assert "bypass the decorator" in str(registry.broken()[0])
        with pytest.raises(ImproperlyConfigured, match="bypass the decorator"):
            registry.raise_broken()

    def test_another_value_of_the_same_name_is_accepted(self, module: Any) -> None:
        self.register(module)
        registry.check_decorators(module.server)
        for value in (None, "text", lambda: "other"):
            module.members = value
            registry.check_decorators(module.server)


class TestWords:
    @pytest.fixture
    def server(self) -> Server:
        server = Server("desk")
        for word in ("login_required", "staff_member", "superuser"):
            server.tool(name=word, permission=word)(lambda: "secret")
        return server

    @pytest.mark.parametrize(
        ("user", "usable"),
        [
            (AnonymousUser(), []),
            (User(pk=1), ["login_required"]),
            (User(pk=1, is_staff=True), ["login_required", "staff_member"]),
            (User(pk=1, is_superuser=True), ["login_required", "superuser"]),
            (User(pk=1, is_staff=True, is_superuser=True, is_active=False), []),
        ],
    )
    async def test_word_lets_the_named_users_in(
        self, server: Server, user: Any, usable: list[str]
    ) -> None:
        async with Client(server, user=user) as client:
            assert [tool["name"] for tool in await client.list_tools()] == usable
            for word in ("login_required", "staff_member", "superuser"):
                if word in usable:
                    assert await client.call_tool(word)
                else:
                    with pytest.raises(ErrorResponse, match=f"Unknown tool: {word}"):
                        await client.call_tool(word)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class TestWhatIsNoHandler:
    def test_decorator_without_wraps_is_told_to_use_it(self) -> None:
        with pytest.raises(ConfigurationError, match=r"write @functools\.wraps\(function\)"):
            Server("desk").tool(traced(greet))

    def test_function_with_any_arguments_is_told_to_name_them(self) -> None:
        def total(*numbers: int) -> int:
            return sum(numbers)

        with pytest.raises(ConfigurationError, match=r"write numbers: list\[…\]"):
            Server("desk").tool(total)

    def test_method_of_a_class_is_rejected(self) -> None:
        with pytest.raises(ConfigurationError, match=r"tool\(Desk\(\)\.greet\)"):
            Server("desk").tool(Desk.greet)

    def test_lazy_task_of_celery_is_rejected_without_loading_it(self) -> None:
        @shared_task  # type: ignore[untyped-decorator]
        def report(year: int) -> str:
            return ""

        with pytest.raises(ConfigurationError, match=r"a task of Celery.*\.delay"):
            Server("desk").tool(report)
        loaded: list[int] = []
        with pytest.raises(ConfigurationError, match="stands for another object"):
            Server("desk").tool(PromiseProxy(lambda: loaded.append(1)))
        assert loaded == []

    @pytest.mark.parametrize("kind", ["tool", "prompt"])
    def test_name_as_the_only_argument_is_rejected(self, kind: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"@{kind}\(name=…\)"):
            getattr(Server("desk"), kind)("greet")


class TestPermissionFunctions:
    @pytest.mark.parametrize(
        ("permission", "words"),
        [
            (lambda: True, "too many positional arguments"),
            (lambda frame, tool: True, "missing a required argument: 'tool'"),
            (lambda u: u.is_staff, "takes u: let it take the Frame"),
            (lambda user: user.is_staff, r"takes user: .*lambda frame: frame\.user\.is_staff"),
        ],
    )
    def test_permission_that_does_not_take_the_frame_is_rejected(
        self, permission: Any, words: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=words):
            Server("desk").tool(permission=permission)(greet)

    def test_permission_may_have_defaults_and_be_a_method(self) -> None:
        permissions: list[Any] = [Desk().__call__, lambda frame, at_most=3: True, Desk()]
        for permission in permissions:
            Server("desk").tool(permission=permission)(greet)
