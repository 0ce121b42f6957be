"""See as: the components that a user is listed, and why others are hidden from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext_lazy as _

from django_mcp import registry
from django_mcp.core.auth import selection
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import ConfigurationError, scope_names
from django_mcp.core.dispatch import visibility
from django_mcp.core.dispatch.visibility import Explanation
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.server.server import Server
from django_mcp.pubsub import switches
from django_mcp.registry import Entry
from django_mcp.runtime import pools
from django_mcp.runtime.around import tenants
from django_mcp.runtime.read_only_admin import UserSelect, are_users_searched
from django_mcp.transports import in_process

if TYPE_CHECKING:
    from django_mcp.admin.registry_rows import RegistryAdmin

SCHEME = "see_as"
STATES = {
    "listed": ("✓", _("listed")),
    "challenged": ("!", _("listed, and challenged")),
    "hidden": ("✗", _("hidden")),
}
"""The mark of a state, which is not told by its colour alone, and its text."""


@dataclass(frozen=True, slots=True)
class Line:
    """A component as one user sees it."""

    entry: Entry
    state: str
    reasons: Sequence[Any]
    """Why it is hidden or challenged."""

    @property
    def quoted_key(self) -> str:
        return quote(self.entry.identity)

    @property
    def mark(self) -> str:
        return STATES[self.state][0]

    @property
    def state_text(self) -> Any:
        return STATES[self.state][1]


@dataclass(frozen=True, slots=True)
class Seen:
    """The components that one caller sees."""

    who: Any
    lines: Sequence[Line]
    is_deactivated: bool

    @property
    def listed(self) -> int:
        return sum(line.state != "hidden" for line in self.lines)


def user_field(request: HttpRequest, site: AdminSite) -> forms.Field:
    """Return a field for a user: by autocompletion, or by name where users are not searched."""
    model = get_user_model()
    is_searched = are_users_searched(request, site)
    widget: forms.Widget = AdminTextInputWidget()
    if is_searched:
        # Any foreign key to users: the widget asks the admin of its model.
        field = LogEntry._meta.get_field("user")
        widget = UserSelect(field, site, placeholder=_("Somebody who has not logged in"))
    return forms.ModelChoiceField(
        model._default_manager.all(),
        label=_("User"),
        required=False,
        widget=widget,
        to_field_name=None if is_searched else model.USERNAME_FIELD,
        help_text="" if is_searched else _("Empty for somebody who has not logged in."),
        error_messages={"invalid_choice": _("There is no such user.")},
    )


class SeeAsForm(forms.Form):
    """The caller: a user, a token, and a URL."""

    scopes = forms.CharField(
        label=_("Scopes"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_("Those of the token, separated by spaces; empty for a login in a browser."),
    )
    groups = forms.CharField(
        label=_("Groups"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_("Those in the URL of the connection, separated by commas."),
    )
    read_only = forms.BooleanField(label=_("Only what changes nothing"), required=False)

    def __init__(self, data: QueryDict | None, user: forms.Field) -> None:
        super().__init__(data)
        self.fields = {"user": user, **self.fields}

    def clean_user(self) -> Any:
        return self.cleaned_data["user"] or AnonymousUser()

    def clean_scopes(self) -> frozenset[str]:
        try:
            return scope_names("The token", self.cleaned_data["scopes"])
        except ConfigurationError as error:
            raise ValidationError(str(error)) from error

    def clean_groups(self) -> Sequence[str]:
        text = self.cleaned_data["groups"]
        try:
            names = selection.read_groups(text) if text else []
            selection.of_names(names)
        except ValueError as error:
            raise ValidationError(str(error)) from error
        return names


def may_see_as(request: HttpRequest) -> bool:
    """Whether somebody may see the users of the site, and the components that they may use."""
    options = get_user_model()._meta
    view_user = f"{options.app_label}.{get_permission_codename('view', options)}"
    needed = ("django_mcp.view_component", "django_mcp.see_as_user", view_user)
    return bool(request.user.has_perms(needed))


def see_as_user(request: HttpRequest, *, model_admin: RegistryAdmin) -> HttpResponse:
    """The page: a form for a user, and the components of all servers as that user sees them."""
    if not may_see_as(request):
        raise PermissionDenied
    data = request.GET if "user" in request.GET else None
    form = SeeAsForm(data, user_field(request, model_admin.admin_site))
    seen = _seen(form, tenants.of_request(request)) if form.is_valid() else None
    context = {"title": _("See as"), "subtitle": None, "form": form, "seen": seen}
    return model_admin.page(request, "admin/django_mcp/component/see_as.html", context)


def _seen(form: SeeAsForm, tenant: str) -> Seen:
    given = form.cleaned_data
    user = given["user"]
    principal = Principal(
        scheme=SCHEME,
        user=user,
        scopes=given["scopes"],
        tenant=tenant,
        selection=selection.of_names(given["groups"], read_only=given["read_only"]),
    )
    switches.refresh_safely()
    # On this thread, which has the connections of the request.
    with pools.on_this_thread():
        lines = async_to_sync(_lines)(principal)
    is_anonymous = not user.is_authenticated
    who = _("Somebody who has not logged in") if is_anonymous else user.get_username()
    return Seen(who, lines, is_deactivated=not is_anonymous and not user.is_active)


async def _lines(principal: Principal) -> list[Line]:
    return [line for server in registry.mountable() for line in await _of_server(server, principal)]


async def _of_server(server: Server, principal: Principal) -> list[Line]:
    frame = in_process.newest_request(server, principal, Request(1, "tools/list", {}))
    listed = [*registry.entries(server)]
    explanations = await visibility.explain(frame, [entry.component for entry in listed])
    has_token = bool(principal.scopes)
    return [
        _line(entry, why, has_token=has_token)
        for entry, why in zip(listed, explanations, strict=True)
    ]


def _line(entry: Entry, why: Explanation, *, has_token: bool) -> Line:
    is_there = why.is_selected and not entry.is_switched_off
    if is_there and why.access.is_permitted:
        return Line(entry, "listed", ())
    is_challenged = is_there and why.access.challenge is not None
    reasons = [*_reasons(entry, why, has_token=has_token)]
    return Line(entry, "challenged" if is_challenged else "hidden", reasons)


def _reasons(entry: Entry, why: Explanation, *, has_token: bool) -> Iterator[Any]:
    """Yield each reason why the caller cannot use the component."""
    if entry.is_switched_off:
        yield _("It is switched off.")
    if not why.is_selected:
        yield _("The connection does not select it: its group is %(group)s.") % {
            "group": entry.component.group or "-"
        }
    if not why.has_permission:
        yield _("The user does not have the permission %(name)s.") % {"name": entry.permission}
    if why.missing_scopes:
        names = ", ".join(sorted(why.missing_scopes))
        # Without a scope, it is a login in a browser.
        text = _("The token does not have the scopes %(names)s.")
        if not has_token:
            text = _("A token with the scopes %(names)s is needed.")
        yield text % {"names": names}
