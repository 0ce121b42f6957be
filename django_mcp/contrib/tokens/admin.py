"""The admin of personal access tokens: they are shown once, when they are created."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_variables

from django_mcp.contrib.tokens.forms import TokenAdminForm
from django_mcp.contrib.tokens.models import PersonalAccessToken, TokenQuerySet
from django_mcp.runtime.read_only_admin import NOTHING, ListedLookups


@admin.register(PersonalAccessToken)
class PersonalAccessTokenAdmin(ListedLookups):
    """Only superusers create tokens for others: whoever has a token acts as its owner."""

    form = TokenAdminForm
    list_display = (
        "name",
        "owner",
        "displayed_start",
        "status",
        "created_at",
        "expires_at",
        "last_used_at",
    )
    list_select_related = ("owner",)
    list_filter = ("revoked_at", "expires_at")
    search_fields = ("name", "start")
    raw_id_fields = ("owner",)  # It needs no admin of users, which a custom model may lack.
    actions = ("revoke",)
    shown_once_template = "admin/django_mcp_tokens/personalaccesstoken/created.html"

    @admin.display(description=_("token"), ordering="start")
    def displayed_start(self, row: PersonalAccessToken) -> str:
        return f"{row.start}…"

    @admin.display(description=_("calls"))
    def calls(self, row: PersonalAccessToken) -> str:
        """The calls with this token, for who may view calls."""
        filters = {"program": row.name, "user": row.owner.get_username()}
        return self.list_link(row, "django_mcp_calls.call", filters, _("calls with it")) or NOTHING

    @admin.display(description=_("status"))
    def status(self, row: PersonalAccessToken) -> str:
        return row.status

    def get_fields(self, request: HttpRequest, obj: PersonalAccessToken | None = None) -> Any:
        editable = ["owner", "name", "scopes", "servers", "groups", "read_only", "expires_at"]
        if obj is None:
            return editable if may_choose_owner(request) else editable[1:]
        return [*editable, *SHOWN_FIELDS]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        return ("owner", *SHOWN_FIELDS)

    @sensitive_variables("token")
    def save_model(
        self, request: HttpRequest, obj: PersonalAccessToken, form: Any, change: bool
    ) -> None:
        if not change:
            if not may_choose_owner(request):
                obj.owner_id = request.user.pk  # type: ignore[assignment]
            obj.made_by_owner = obj.owner_id == request.user.pk
            setattr(request, SHOWN, obj.set_new_token())
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: PersonalAccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token, without a redirect: it would have to be stored until then."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("The new access token"),
            "opts": self.opts,
            "row": obj,
            "token": getattr(request, SHOWN),
        }
        response = TemplateResponse(request, self.shown_once_template, context)
        add_never_cache_headers(response)
        return response

    @admin.action(description=_("Revoke selected access tokens"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: TokenQuerySet) -> None:
        count = queryset.revoke()
        text = ngettext("%d access token was revoked.", "%d access tokens were revoked.", count)
        self.message_user(request, text % count, messages.SUCCESS)


SHOWN_FIELDS = ("displayed_start", "status", "created_at", "last_used_at", "revoked_at", "calls")
"""The fields of a token that nobody edits."""
SHOWN = "_django_mcp_new_token"
"""The attribute of the request with the token, from when it is saved until it is shown."""


def may_choose_owner(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))
