"""The call of a tool: views of the admin that run for its caller, and their answers.

A view runs on a copy of the ModelAdmin, which also notes the object that was saved and the change
list that was made: overridden methods run as in the browser. The whole call runs once within the
middleware that VIEW_MIDDLEWARE names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpResponse, HttpResponseBase
from django.urls import NoReverseMatch, Resolver404, ResolverMatch, resolve, reverse
from django.utils.datastructures import MultiValueDict

from django_mcp.core.protocol.errors import ToolError
from django_mcp.modeladmin import requests
from django_mcp.modeladmin.models import AnyModelAdmin, Models, without_hashes
from django_mcp.modeladmin.requests import AdminRequest
from django_mcp.openapi.calls import responses, view_middleware

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList

    from django_mcp.core.frame.frame import Frame

P = ParamSpec("P")
R = TypeVar("R")

ROUTES: Mapping[str, str] = {
    "add_view": "add",
    "change_view": "change",
    "changelist_view": "changelist",
    "delete_view": "delete",
    "history_view": "history",
}
NOT_FOUND = "There is no such object, or you may not see it."
READ_ONLY = "Tools only read this model: a person decides on its page."


@dataclass(frozen=True, slots=True)
class Page:
    """The page of the admin that a browser would open, or send, instead of a tool."""

    route: str = "index"
    model: str | None = None
    pk: str | int | None = None
    is_sent: bool = False
    files: Sequence[Any] = ()
    """The uploaded files, which values name by their position."""

    def path(self, call: Call) -> str:
        """Return its path; for a model that the admin does not have, the path of the index."""
        path = None
        model_admin = None if self.model is None else call.models.registered(self.model)
        if model_admin is not None:
            args = () if self.pk is None else (quote(str(self.pk)),)
            path = call.url_of(model_admin, self.route, *args)
        return path or call.url("index") or "/"


@dataclass(slots=True)
class Visit:
    """One run of a view: its request and its answer."""

    request: AdminRequest
    response: HttpResponseBase | None = None
    saved: Any = None
    """The object that was saved."""
    changelist: ChangeList | None = None
    lookup_error: Exception | None = None
    index: str | None = None
    """The target of the redirect of a view that does not find its object."""

    @property
    def context(self) -> Mapping[str, Any]:
        """The context of the page; empty where the view answered something else."""
        return getattr(self.response, "context_data", None) or {}

    @property
    def messages(self) -> list[str]:
        return requests.messages_of(self.request)

    def required(self, name: str) -> Any:
        """Return a value of the context; raises ToolError where the view shows no such page."""
        if name in self.context:
            return self.context[name]
        response: Any = self.response
        location = response.headers.get("Location", "")
        if location and location == self.index:
            raise ToolError(NOT_FOUND)
        url = self.request.build_absolute_uri(location or self.request.path)
        raise ToolError(f"The admin has a page of its own here, which only a browser shows: {url}")


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a tool by one user."""

    frame: Frame
    models: Models
    user: Any
    around: AdminRequest | None = None
    """The request that middleware around views has seen."""
    files: Sequence[Any] = ()
    """The uploaded files, which values name by their position."""
    _requests: dict[str, AdminRequest] = field(default_factory=dict)

    @property
    def request(self) -> AdminRequest:
        """The request of the caller to the index page; raises PermissionDenied."""
        if "index" not in self._requests:
            self._requests["index"] = self.request_to(self.url("index") or "/")
        return self._requests["index"]

    def request_to(self, path: str, **options: Any) -> AdminRequest:
        """Return a request of the caller; raises PermissionDenied where the admin is closed."""
        request = self.build(path, **options)
        if not self.models.site.has_permission(request):
            raise PermissionDenied
        return request

    def build(self, path: str, **options: Any) -> AdminRequest:
        """Return a request of the caller, without asking whether the admin lets them in."""
        seen = self.around
        request = requests.build(self.frame, self.user, path, of_message=seen, **options)
        request.current_app = self.models.site.name
        # The match tells inlines their parent. It imports the URLs of the site, which a list of
        # tools does not need.
        try:
            request.resolver_match = resolve(request.path_info, getattr(request, "urlconf", None))
        except Resolver404:  # The admin has no URLs.
            request.resolver_match = None
        return request

    def file(self, place: str, position: Any) -> Any:
        """Return the file at a position; None for None. Raises ToolError, with the place."""
        if position is None:
            return None
        if type(position) is not int or not 0 <= position < len(self.files):
            raise ToolError(f"{place}: give the position of a file in files, from 0.")
        return self.files[position]

    def find(self, label: str) -> AnyModelAdmin:
        """Return the ModelAdmin of a model; raises ToolError."""
        return self.models.find(self.request, label)

    def find_to_write(self, label: str) -> AnyModelAdmin:
        """Like ``find``; raises ToolError also for a model that tools only read."""
        model_admin = self.find(label)
        if self.models.is_read_only(model_admin):
            raise ToolError(READ_ONLY)
        return model_admin

    def refreshed(self) -> Call:
        """Return the call with the user as the database has them now; raises PermissionDenied."""
        manager = getattr(type(self.user), "_default_manager", None)
        if manager is None:
            return self
        user = manager.filter(pk=self.user.pk).first()
        if user is None:
            raise PermissionDenied
        return replace(self, user=user, _requests={})

    def url(self, route: str, *args: Any) -> str | None:
        """Return the path of a page of the admin; None where the admin has no URLs."""
        try:
            return reverse(f"{self.models.site.name}:{route}", args=args)
        except NoReverseMatch:
            return None

    def url_of(self, model_admin: AnyModelAdmin, route: str, *args: Any) -> str | None:
        options = model_admin.opts
        return self.url(f"{options.app_label}_{options.model_name}_{route}", *args)

    def link(self, obj: Any) -> str | None:
        """Return the absolute URL of the page of an object; None for a model without a page."""
        model_admin = self.models.of_model(type(obj))
        path = None if model_admin is None else self.url_of(model_admin, "change", quote(obj.pk))
        return None if path is None else self.request.build_absolute_uri(path)

    def visit(
        self,
        model_admin: AnyModelAdmin,
        view: str,
        pk: Any = None,
        *,
        page_size: int | None = None,
        query: Mapping[str, Any] | None = None,
        data: MultiValueDict[str, Any] | None = None,
        files: MultiValueDict[str, Any] | None = None,
    ) -> Visit:
        """Run a view of the admin; raises PermissionDenied, and ToolError for a refused lookup."""
        args = () if pk is None else (quote(pk),)
        path = self.url_of(model_admin, ROUTES[view], *args) or "/"
        request = self.request_to(path, query=query, data=data, files=files)
        visit = Visit(request, index=self.url("index"))
        recorder: Any = _recorder(model_admin, visit)
        if page_size is not None:
            recorder.list_per_page = page_size
        try:
            visit.response = getattr(recorder, view)(visit.request, *args)
        except SuspiciousOperation as error:
            raise ToolError(f"The admin does not allow this: {error}") from error
        return visit


class _Operation:
    """The function of a tool, as the view within the middleware around views."""

    def __init__(self, call: Call, page: Page, function: Callable[[Call], Any]) -> None:
        self.error: Exception | None = None
        self.is_done = False
        self.result: Any = None
        self._call = call
        self._page = page
        self._function = function

    def match(self, request: AdminRequest) -> ResolverMatch:
        """Return the match of the page, with the operation as its view."""

        def view(request: AdminRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return self._run(request)

        page = request.resolver_match
        if page is None:
            return ResolverMatch(view, (), {})
        return ResolverMatch(
            update_wrapper(view, page.func),
            page.args,
            page.kwargs,
            page.url_name,
            [*page.app_names],
            [*page.namespaces],
            page.route,
        )

    def _run(self, request: AdminRequest) -> HttpResponse:
        call = replace(self._call, around=request)
        _ = call.request  # It refuses whom the admin does not let in.
        try:
            if "\0" in str(self._page.pk):
                raise ToolError(NOT_FOUND)  # PostgreSQL refuses to look for it.
            self.result = self._function(call)
            self.is_done = True
        except ToolError as error:
            # Middleware sees no exception: a page with errors is not a failure of the view.
            self.error = self._for_caller(call, error)
        except PermissionDenied as error:
            self.error = self._for_caller(call, error)
            raise
        except Exception as error:
            self.error = error
            raise
        return HttpResponse()

    def _for_caller(self, call: Call, error: Exception) -> Exception:
        """Return an error; for a model that is hidden from the caller, say that it is unknown."""
        label = self._page.model
        model_admin = None if label is None else call.models.registered(label)
        if label is None or model_admin is None:
            return error
        if call.models.is_known(call.request, model_admin, self._page.pk):
            return error
        return call.models.unknown(call.request, label)


def run(
    call: Call,
    page: Page,
    function: Callable[Concatenate[Call, P], R],
    *arguments: P.args,
    **options: P.kwargs,
) -> R:
    """Return the result of a function for a call, within the middleware around views.

    Middleware sees one request, for the page that a browser would open or send. Requests to the
    views of the admin have the attributes that it has set. Raises the errors of the function, and
    ToolError if middleware answers instead.
    """
    operation = _Operation(call, page, lambda inner: function(inner, *arguments, **options))
    data: Any = MultiValueDict() if page.is_sent else None
    request = call.build(page.path(call), data=data)
    try:
        response = view_middleware.call(request, operation.match(request))
    except PermissionDenied:
        if isinstance(operation.error, ToolError):
            raise operation.error from None
        raise
    if operation.error is not None:
        raise operation.error
    if operation.is_done and response.status_code < 400:
        result: R = operation.result
        return result
    responses.read(response, call.frame, request)  # It raises for an error, and for a redirect.
    raise ToolError("The site answers with a page of its own here, which only a browser shows.")


def _recorder(model_admin: AnyModelAdmin, visit: Visit) -> Any:
    """Return a copy of a ModelAdmin that also notes the arguments of its hooks."""
    recorder: Any = without_hashes(model_admin)
    respond_to_add = recorder.response_add
    respond_to_change = recorder.response_change
    make_list = recorder.get_changelist_instance

    def response_add(request: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        visit.saved = obj
        return respond_to_add(request, obj, *args, **kwargs)

    def response_change(request: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        visit.saved = obj
        return respond_to_change(request, obj, *args, **kwargs)

    def get_changelist_instance(request: Any) -> Any:
        try:
            visit.changelist = make_list(request)
        except IncorrectLookupParameters as error:
            visit.lookup_error = error
            raise
        return visit.changelist

    recorder.response_add = response_add
    recorder.response_change = response_change
    recorder.get_changelist_instance = get_changelist_instance
    for name in ("log_addition", "log_change"):
        setattr(recorder, name, _with_program(getattr(recorder, name), visit.request))
    return recorder


def _with_program(log: Any, admin_request: AdminRequest) -> Any:
    """Return a method that logs a change together with the program that asked for it.

    Django shows the parts of a message that it knows, so the page of the history stays as it is.
    """

    def log_with_program(request: Any, obj: Any, message: Any) -> Any:
        info = admin_request.mcp_frame.get_client_info() or {}
        program = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
        if isinstance(message, list):
            message = [*message, {"mcp": {"program": program[:100]}}]
        return log(request, obj, message)

    return log_with_program
