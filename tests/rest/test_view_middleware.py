"""VIEW_MIDDLEWARE: what a site has around the views of its API is around those that tools call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from django.http import Http404
from django.urls import include, path
from rest_framework import views
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from django_mcp import Server
from django_mcp.core.components.base import ConfigurationError
from django_mcp.openapi.calls.responses import SUMMARIES
from django_mcp.rest import rest_tool
from django_mcp.testing import ErrorResponse, SyncClient
from tests.rest import view_middleware_samples as samples
from tests.rest.api import AsCoroutineFunction
from tests.rest.view_middleware_samples import seen

SAMPLES = samples.__name__
SESSIONS = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]

pytestmark = pytest.mark.django_db


class What(views.APIView):  # type: ignore[misc]
    """What the view knows of the middleware around it."""

    def get(self, request: Any, pk: int) -> Response:
        return Response(
            {
                "pk": pk,
                "path": request.path,
                "event": getattr(request, "event", None),
                "tenant": getattr(request, "tenant", None),
                "on_connection": getattr(connection, "tenant", None),
                "is_local": getattr(samples.local, "request", None) is request._request,
                "user": str(request.user),
                "inner_user": str(request._request.user),
                "route": request.resolver_match.url_name,
                "called": getattr(request, "called", None),
                "session": dict(getattr(request, "session", {})),
                "thread": threading.get_ident(),
            }
        )


class Fails(views.APIView):  # type: ignore[misc]
    """A view with a fault."""

    def get(self, request: Any) -> Response:
        raise RuntimeError("a fault of the view")


class Missing(JSONRenderer):  # type: ignore[misc]
    """Finds while it writes that there is nothing."""

    def render(self, *args: Any, **kwargs: Any) -> bytes:
        raise Http404("a secret name")


class Writes(views.APIView):  # type: ignore[misc]
    """A view with a response that cannot be written."""

    renderer_classes = (Missing,)

    def get(self, request: Any) -> Response:
        return Response({"a": 1})


class WritesLater(AsCoroutineFunction, Writes):
    """The same as a coroutine function."""


api = [
    path("writes/", Writes.as_view(), name="writes"),
    path("writes-later/", WritesLater.as_view(), name="writes-later"),
    path("what/<int:pk>/", What.as_view(), name="what"),
    path("fails/", Fails.as_view(), name="fails"),
]
urlpatterns = [path("api/", include(api))]


@pytest.fixture(autouse=True)
def _site(settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    settings.LOGIN_URL = "/accounts/login/"
    settings.ALLOWED_HOSTS = ["acme.example.org", "testserver"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://acme.example.org"}
    seen.clear()
    yield
    if hasattr(connection, "tenant"):
        del connection.tenant


@pytest.fixture
def server() -> Server:
    server = Server("api", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    rest_tool(What, server=server)
    rest_tool(Fails, server=server)
    return server


def use(settings: Any, *names: str) -> None:
    paths = [name if "." in name else f"{SAMPLES}.{name}" for name in names]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "VIEW_MIDDLEWARE": paths}


def call(server: Server, user: Any = None, **connection: Any) -> Any:
    with SyncClient(server, user=user, **connection) as client:
        return client.call_tool("what", {"pk": 3}).structured


def test_path_is_that_of_the_view(server: Server, settings: Any) -> None:
    use(settings, "Resolves")
    result = call(server)
    assert result["event"] == result["route"] == "what"
    assert result["path"] == "/api/what/3/"
    assert seen == ["what"]


@pytest.mark.parametrize("view", [Writes, WritesLater])
def test_exception_of_a_renderer_is_the_status_that_django_has_for_it(view: Any) -> None:
    server = Server("api", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    rest_tool(view, server=server, name="write")
    with SyncClient(server) as client:
        result = client.call_tool("write")
    assert result.is_error
    assert result.text == SUMMARIES[404]


def test_guard_by_path_is_not_skipped(server: Server, settings: Any) -> None:
    use(settings, "guards_api")
    with SyncClient(server, user=User.objects.create(username="ann")) as client:
        result = client.call_tool("what", {"pk": 3})
    assert result.is_error
    assert result.text == "Permission denied."
    staff = User.objects.create(username="staff", is_staff=True)
    assert call(server, staff)["user"] == "staff"


def test_guard_around_the_endpoint_alone_is_not_around_the_view(
    server: Server, settings: Any
) -> None:
    """Such a middleware compares the path of the endpoint, which is not that of the API."""
    settings.DJANGO_MCP = {
        **settings.DJANGO_MCP,
        "DJANGO_MIDDLEWARE": [f"{SAMPLES}.guards_api"],
    }
    ann = User.objects.create(username="ann")
    assert call(server, ann, transport="http")["user"] == "ann"


@pytest.mark.parametrize("name", ["chooses_tenant", "keeps_request_in_thread"])
def test_attributes_and_thread_are_those_of_the_middleware(
    server: Server, settings: Any, name: str
) -> None:
    use(settings, name)
    result = call(server)
    if name == "chooses_tenant":
        assert result["tenant"] == result["on_connection"] == "acme"
    else:
        assert result["is_local"]


def test_caller_is_the_user_of_the_tool_whatever_a_middleware_sets(
    server: Server, settings: Any
) -> None:
    """Over HTTP, the authentication class of the API sets the user after the middleware."""
    use(settings, "has_an_anonymous_user")
    result = call(server, User.objects.create(username="ann"))
    assert result["user"] == result["inner_user"] == "ann"


def test_middleware_of_sessions_keeps_the_caller(server: Server, settings: Any) -> None:
    use(settings, *SESSIONS, "django.contrib.auth.middleware.LoginRequiredMiddleware")
    result = call(server, User.objects.create(username="ann"))
    assert result["user"] == "ann"
    assert result["session"] == {}


def test_session_of_the_caller_is_that_of_the_view(server: Server, settings: Any) -> None:
    use(settings, *SESSIONS)
    session = SessionStore()
    session["colour"] = "green"
    session.save()
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session.session_key}"}
    assert call(server, transport="http", headers=cookie)["session"] == {"colour": "green"}


def test_caller_is_known_before_the_view(server: Server, settings: Any) -> None:
    use(settings, "redirects_to_login")
    assert call(server, User.objects.create(username="ann"))["user"] == "ann"
    with pytest.raises(ErrorResponse, match="Authentication required"):
        call(server)


def test_call_in_a_middleware_of_ones_own_is_synchronous(server: Server, settings: Any) -> None:
    use(settings, "RetriesLocked")
    assert call(server)["pk"] == 3
    assert seen == [200]


def test_asynchronous_middleware_runs_around_a_synchronous_view(
    server: Server, settings: Any
) -> None:
    use(settings, "chooses_tenant", "only_async", "RetriesLocked")
    result = call(server)
    assert result["called"] == "asynchronously"
    assert result["tenant"] == "acme"


def test_methods_of_middleware_are_called_and_a_failure_is_logged(
    server: Server, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings, "Methods")
    call(server)
    assert seen == [("view", "what", {"pk": 3}), ("response", 200)]
    seen.clear()
    with SyncClient(server) as client:
        assert client.call_tool("fails").is_error
    assert seen == [
        ("view", "fails", {}),
        ("exception", "a fault of the view"),
        ("response", 500),
    ]
    assert "a fault of the view" in caplog.text


def test_response_of_a_middleware_is_that_of_the_tool(server: Server, settings: Any) -> None:
    use(settings, "closes_api")
    with SyncClient(server) as client:
        result = client.call_tool("what", {"pk": 3})
    assert result.is_error
    assert "closed" not in result.text


def test_server_names_its_own_middleware(settings: Any) -> None:
    use(settings, "closes_api")
    server = Server(
        "own",
        authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"],
        view_middleware=[f"{SAMPLES}.Resolves"],
    )
    rest_tool(What, server=server)
    assert call(server)["event"] == "what"


def test_string_as_middleware_of_a_server_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="give a list of dotted paths"):
        Server("own", view_middleware="shop.middleware.Tenant")


def test_other_urlconf_of_a_middleware_must_lead_to_the_same_view(
    server: Server, settings: Any
) -> None:
    use(settings, "Resolves", "other_urlconf")
    assert call(server)["pk"] == 3
    samples.URLCONF = "tests.rest.urls"
    try:
        with SyncClient(server) as client:
            assert client.call_tool("what", {"pk": 3}).text == "Not found."
    finally:
        samples.URLCONF = __name__


class TestTenants:
    """The view runs at the tenant of the caller, or not at all."""

    def use(self, settings: Any) -> None:
        use(settings, "chooses_tenant")
        settings.ALLOWED_HOSTS = [".example.org", "testserver"]
        settings.DJANGO_MCP = {
            **settings.DJANGO_MCP,
            "BASE_URL": "https://main.example.org",
            "FIRST_MIDDLEWARE": [f"{SAMPLES}.chooses_tenant"],
            "TENANT": f"{SAMPLES}.tenant_of",
        }

    def test_host_of_the_caller_chooses_the_tenant(self, server: Server, settings: Any) -> None:
        self.use(settings)
        headers = {"host": "acme.example.org"}
        result = call(server, transport="http", headers=headers)
        assert result["tenant"] == result["on_connection"] == "acme"

    def test_view_of_another_tenant_is_refused(self, server: Server, settings: Any) -> None:
        """As in a task, which has no host."""
        self.use(settings)
        with SyncClient(server, user=User.objects.create(username="ann")) as client:
            result = client.call_tool("what", {"pk": 3})
        assert result.text == "Permission denied."
