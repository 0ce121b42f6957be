"""What is used of asgiref and Django without their promise, and what takes its place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from asgiref import sync
from asgiref.sync import AsyncToSync, SyncToAsync, async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.core.handlers.base import BaseHandler
from django.db import connections
from django.db.models import QuerySet
from django.db.models.query import ModelIterable
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template import engines
from django.template.response import SimpleTemplateResponse
from django.test import RequestFactory
from django.utils import translation
from django.utils.functional import SimpleLazyObject

from django_mcp.core.concurrency.loop_executor import LoopExecutor
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.runtime import private, request_scope
from django_mcp.runtime.around.chain import MiddlewareChain
from django_mcp.runtime.django_types import values
from tests.waiting import SECONDS

number = ContextVar("number", default=0)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (SyncToAsync, "threadlocal"),
        (SyncToAsync, "thread_sensitive_context"),
        (SyncToAsync, "context_to_thread_executor"),
        (AsyncToSync, "executors"),
        (sync, "_restore_context"),
        (QuerySet(Group), "_result_cache"),
        (QuerySet(Group), "_iterable_class"),
        (HttpResponse(), "_resource_closers"),
        (BaseHandler, "_get_response"),
        (BaseHandler, "_get_response_async"),
    ],
)
def test_name_is_there(owner: Any, name: str) -> None:
    assert hasattr(owner, name)


@pytest.fixture(params=["with the names", "without them"])
def knows_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without them":
        monkeypatch.setattr(private, "KNOWS_THREADS", False)


@pytest.fixture
def bridge(knows_threads: None) -> Iterator[private.Bridge]:
    pool = ThreadPool(2, "test-private")
    yield private.bridge(lambda function, *args: function(*args), LoopExecutor(pool))
    pool.shutdown()


class TestBridge:
    async def test_function_runs_on_another_thread_with_the_variables_of_its_caller(
        self, bridge: private.Bridge
    ) -> None:
        number.set(7)
        assert await bridge(threading.get_ident) != threading.get_ident()
        assert await bridge(number.get) == 7

    async def test_caller_has_the_variables_that_the_function_has_set(
        self, bridge: private.Bridge
    ) -> None:
        await bridge(number.set, 8)
        assert number.get() == 8

    async def test_active_language_goes_there_and_back(self, bridge: private.Bridge) -> None:
        with translation.override("de"):
            assert await bridge(translation.get_language) == "de"
            await bridge(translation.activate, "fr")
            assert translation.get_language() == "fr"

    async def test_coroutine_in_it_runs_on_the_loop_of_the_caller(
        self, bridge: private.Bridge
    ) -> None:
        async def here() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        assert await bridge(async_to_sync(here)) is asyncio.get_running_loop()

    async def test_cancellation_of_the_caller_cancels_the_coroutine_in_it(
        self, bridge: private.Bridge
    ) -> None:
        began = asyncio.Event()
        cancelled = asyncio.Event()

        async def wait() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        calling = asyncio.create_task(bridge(async_to_sync(wait)))
        await asyncio.wait_for(began.wait(), SECONDS)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert cancelled.is_set()

    async def test_exception_of_the_function_is_raised(self, bridge: private.Bridge) -> None:
        with pytest.raises(ZeroDivisionError):
            await bridge(divmod, 1, 0)


def test_variables_are_set_without_the_function_of_asgiref() -> None:
    context = copy_context()
    context.run(number.set, 9)
    private._set_all(context)
    assert number.get() == 9


@pytest.fixture
def _no_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "KNOWS_CONTEXTS", False)
    monkeypatch.setattr(request_scope, "_asgiref_context", ContextVar("test.request_scope"))
    monkeypatch.setattr(request_scope, "_asgiref_threads", WeakKeyDictionary())


@pytest.mark.usefixtures("_no_contexts")
async def test_requests_have_threads_whose_connections_are_closed_without_the_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[int] = []
    monkeypatch.setattr(connections, "close_all", lambda: closed.append(threading.get_ident()))
    meeting = threading.Barrier(2, timeout=SECONDS)

    async def work() -> int:
        await sync_to_async(meeting.wait)()  # Two requests do not wait for each other.
        await request_scope.release_thread()
        return await sync_to_async(threading.get_ident)()

    used = await asyncio.gather(*(request_scope.run(work) for _ in range(2)))
    assert sorted(closed) == sorted(used)


@pytest.mark.django_db
def test_query_without_the_names_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    Group.objects.create(name="staff")

    class Rows(list[Any]):
        """A QuerySet that has none of the names."""

    models, names = Rows(Group.objects.all()), Rows(Group.objects.values_list("name"))
    assert not private.is_evaluated(models)
    assert private.has_model_rows(models)
    assert not private.has_model_rows(names)


def test_lazy_object_is_the_object_that_it_wraps() -> None:
    made = object()
    assert values._unwrapped(SimpleLazyObject(lambda: made)) is made


def test_response_without_the_name_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Response:
        def close(self) -> None:
            closed.append(self)

    private.close_resources(Response())  # type: ignore[arg-type]
    assert len(closed) == 1


class Chain(MiddlewareChain):
    """Surrounds a view that renders a template, or raises."""

    def resolve_request(self, request: HttpRequest) -> Any:
        return self.view, (), {}

    @staticmethod
    def view(request: HttpRequest) -> HttpResponseBase:
        if request.path == "/error":
            raise ValueError("no")
        return SimpleTemplateResponse(engines["django"].from_string("shown to {{ who }}"), {})


class Around:
    """Middleware with every hook around views."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> Any:
        return HttpResponse("stopped") if request.path == "/stop" else None

    def process_template_response(self, request: HttpRequest, response: Any) -> Any:
        response.context_data["who"] = "you"
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> Any:
        return HttpResponse(f"answered: {error}")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize(
    ("path", "content"),
    [("/", b"shown to you"), ("/stop", b"stopped"), ("/error", b"answered: no")],
)
async def test_view_is_called_within_the_hooks_of_middleware(
    monkeypatch: pytest.MonkeyPatch, path: str, content: bytes, knows: bool, is_async: bool
) -> None:
    if not knows:
        monkeypatch.setattr(Chain, "_get_response", None, raising=False)
        monkeypatch.setattr(Chain, "_get_response_async", None, raising=False)
    chain = Chain([f"{__name__}.Around"], is_async=is_async)
    request = RequestFactory().get(path)
    if is_async:
        response = await chain._chain(request)
    else:
        response = await sync_to_async(chain._chain)(request)
    assert response.content == content


@pytest.mark.django_db
def test_rows_of_another_iterable_of_models_are_models() -> None:
    """Packages for polymorphic models have one."""
    query: Any = Group.objects.all()
    query._iterable_class = type("Others", (ModelIterable,), {})
    assert private.has_model_rows(query)
