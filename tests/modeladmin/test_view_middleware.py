"""VIEW_MIDDLEWARE: what a site has around the pages of its admin is around the calls of tools."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseRedirect
from django.urls import include, path

from django_mcp import Server, registry
from django_mcp.modeladmin import admin_tools, checks
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Customer, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import TICKET, read

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.django_db

Respond = Callable[[HttpRequest], Any]
HERE = __name__
SKIPPED = "django_mcp_modeladmin.W004"
seen: list[Any] = []
local = threading.local()


def sets_city(get_response: Respond) -> Respond:
    """Chooses a city for the request and for its thread."""

    def middleware(request: Any) -> Any:
        request.city = local.city = "Graz"
        try:
            return get_response(request)
        finally:
            local.city = None

    return middleware


def notes(get_response: Respond) -> Respond:
    def middleware(request: HttpRequest) -> Any:
        response = get_response(request)
        match = request.resolver_match
        assert match is not None
        seen.append((request.method, request.path, str(request.user), match.url_name))
        seen.append(response.status_code)
        return response

    return middleware


def guards_tickets(get_response: Respond) -> Respond:
    def middleware(request: HttpRequest) -> Any:
        if request.path.startswith("/backstage/helpdesk/ticket/"):
            return HttpResponseForbidden("a secret reason")
        return get_response(request)

    return middleware


def redirects(get_response: Respond) -> Respond:
    return lambda request: HttpResponseRedirect("/elsewhere/")


def shows_a_page(get_response: Respond) -> Respond:
    return lambda request: HttpResponse("<h1>Choose a password</h1>")


def is_another_user(get_response: Respond) -> Respond:
    def middleware(request: HttpRequest) -> Any:
        request.user = User.objects.create_superuser("somebody")
        return get_response(request)

    return middleware


def chooses_urls(get_response: Respond) -> Respond:
    def middleware(request: Any) -> Any:
        request.urlconf = URLS["chosen"]
        return get_response(request)

    return middleware


URLS: dict[str, Any] = {"chosen": "tests.modeladmin.urls"}


class Hooks:
    """The hooks around a view and its exceptions."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> None:
        request.by_hook = "by a hook"
        seen.append((view.__name__, type(view.model_admin).__name__, args, kwargs))

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        seen.append(type(exception).__name__)


class TicketsOfCity(backstage.TicketsOfCaller):
    """The tickets of the customers of a city, which a middleware has chosen."""

    list_display = ["subject", "city_of_thread"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(customer__city=request.city)

    def get_list_display(self, request: Any) -> Any:
        assert request.city
        return super().get_list_display(request)

    @admin.display(description="City")
    def city_of_thread(self, ticket: Ticket) -> Any:
        return local.city


cities = admin.AdminSite("cities")
cities.register(Ticket, TicketsOfCity)
cities.register(Customer, backstage.CustomersWithNames)

urlpatterns = [
    path("", include("tests.modeladmin.urls")),
    path("cities/", cities.urls),
]
other = admin.AdminSite("backstage")


class OtherUrls:
    """A URLconf with another admin at the same path."""

    urlpatterns = (path("backstage/", other.urls),)


@pytest.fixture(autouse=True)
def _site() -> None:
    seen.clear()


def use(settings: Settings, *names: str) -> None:
    paths = [name if "." in name else f"{HERE}.{name}" for name in names]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "VIEW_MIDDLEWARE": paths}


def test_middleware_sees_the_page_that_a_browser_opens(
    ask: Ask, root: User, ticket: Ticket, settings: Settings
) -> None:
    use(settings, "notes")
    list_page, page = "/backstage/helpdesk/ticket/", f"/backstage/helpdesk/ticket/{ticket.pk}/"
    calls: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
        ("list_models", {}, ("GET", "/backstage/", "index")),
        ("recent_actions", {}, ("GET", "/backstage/", "index")),
        ("describe_model", {}, ("GET", list_page, "helpdesk_ticket_changelist")),
        ("search", {}, ("GET", list_page, "helpdesk_ticket_changelist")),
        ("get", {"pk": ticket.pk}, ("GET", f"{page}change/", "helpdesk_ticket_change")),
        ("history", {"pk": ticket.pk}, ("GET", f"{page}history/", "helpdesk_ticket_history")),
        (
            "change",
            {"pk": ticket.pk, "values": {"subject": "New"}},
            ("POST", f"{page}change/", "helpdesk_ticket_change"),
        ),
        (
            "run_action",
            {"action": "close", "pks": [ticket.pk]},
            ("POST", list_page, "helpdesk_ticket_changelist"),
        ),
        ("delete", {"pk": ticket.pk}, ("POST", f"{page}delete/", "helpdesk_ticket_delete")),
    ]
    for tool, arguments, (method, url, name) in calls:
        model = {} if name == "index" else {"model": TICKET}
        ask(root, tool, **model, **arguments).assert_ok()
        assert seen == [(method, url, "root", name), 200], tool
        seen.clear()


def test_pages_hooks_and_columns_have_what_middleware_has_set(
    root: User, ticket: Ticket, hidden: Customer, settings: Settings
) -> None:
    settings.ROOT_URLCONF = HERE
    use(settings, "sets_city")
    Ticket.objects.create(customer=hidden, subject="Elsewhere", description="x")
    server = Server("cities")
    admin_tools(cities, server=server, prefix="")
    with SyncClient(server, user=root) as client:
        (row,) = read(client.call("search", model=TICKET))["rows"]
        described = read(client.call("describe_model", model=TICKET))
        values = {"subject": "New"}
        client.call("change", model=TICKET, pk=ticket.pk, values=values).assert_ok()
    assert row["values"] == {"subject": "Printer", "city_of_thread": "Graz"}
    assert described["list"]["columns"]["city_of_thread"] == "City"
    assert local.city is None


def test_hooks_of_middleware_see_the_view_and_its_failures(
    ask: Ask, root: User, ticket: Ticket, settings: Settings
) -> None:
    use(settings, "Hooks")
    ask(root, "get", model=TICKET, pk=ticket.pk).assert_ok()
    key = {"object_id": str(ticket.pk)}
    assert seen == [("change_view", "TicketsOfCaller", (), key)]
    seen.clear()
    arguments = {"model": TICKET, "action": "break_down", "pks": [ticket.pk]}
    confirm = read(ask(root, "run_action", **arguments))["confirm"]
    ask(root, "run_action", **arguments, confirm=confirm).assert_error()
    assert seen[1:] == [seen[0], "ZeroDivisionError"]


def test_errors_of_a_form_are_no_failure_for_middleware(
    ask: Ask, root: User, ticket: Ticket, settings: Settings
) -> None:
    use(settings, "notes", "Hooks")
    values = {"subject": ""}
    ask(root, "change", model=TICKET, pk=ticket.pk, values=values).assert_error("subject: ")
    assert seen[-1] == 200
    assert "ToolError" not in seen


def test_refusal_of_the_admin_is_a_status_for_middleware(
    ask: Ask, staff: Staff, ticket: Ticket, settings: Settings
) -> None:
    use(settings, "notes")
    sam = staff("helpdesk.view_customer")
    ask(sam, "search", model=TICKET).assert_error("There is no model")
    assert seen[-1] == 403


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("guards_tickets", "Permission denied."),
        ("redirects", "redirects"),
        ("shows_a_page", "a page of its own"),
    ],
)
def test_answer_of_middleware_is_a_refusal(
    ask: Ask, root: User, ticket: Ticket, settings: Settings, name: str, problem: str
) -> None:
    use(settings, name)
    for tool, arguments in (("search", {}), ("change", {"pk": 1, "values": {"subject": "x"}})):
        result = ask(root, tool, model=TICKET, **arguments)
        result.assert_error(problem)
        assert "secret" not in result.text
    ticket.refresh_from_db()
    assert ticket.subject == "Printer"


def test_guard_by_path_is_not_around_other_pages(ask: Ask, root: User, settings: Settings) -> None:
    use(settings, "guards_tickets")
    ask(root, "search", model="helpdesk.Customer").assert_ok()


def test_caller_stays_whoever_a_middleware_sets(
    ask: Ask, staff: Staff, ticket: Ticket, settings: Settings
) -> None:
    use(settings, "is_another_user")
    ask(staff(), "search", model=TICKET).assert_error("There is no model")


def test_middleware_of_sessions_and_logins_lets_the_caller_in(
    ask: Ask, root: User, ticket: Ticket, settings: Settings
) -> None:
    use(
        settings,
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    )
    changed = ask(root, "change", model=TICKET, pk=ticket.pk, values={"subject": "New"})
    assert "was changed successfully" in read(changed)["messages"][0]


def test_other_urls_of_a_middleware_must_lead_to_the_same_page(
    ask: Ask, root: User, ticket: Ticket, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(settings, "chooses_urls")
    ask(root, "get", model=TICKET, pk=ticket.pk).assert_ok()
    monkeypatch.setitem(URLS, "chosen", OtherUrls)
    ask(root, "list_models").assert_error("Not found.")


def test_server_names_its_own_middleware(root: User, ticket: Ticket, settings: Settings) -> None:
    use(settings, "redirects")
    server = Server("own", view_middleware=[f"{HERE}.notes"])
    admin_tools(backstage.site, server=server, prefix="")
    with SyncClient(server, user=root) as client:
        client.call("get", model=TICKET, pk=ticket.pk).assert_ok()
    assert seen


def test_check_names_middleware_that_tools_skip(
    server: Server, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[str]:
        messages = checks.check_admins(None)
        return [each.msg.rpartition(": ")[2] for each in messages if each.id == SKIPPED]

    monkeypatch.setattr(registry, "servers", lambda: [server])
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware", f"{HERE}.notes"]
    assert found() == [f"{HERE}.notes."]
    use(settings, "notes")
    assert found() == []
