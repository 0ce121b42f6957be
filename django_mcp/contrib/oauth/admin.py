"""The admin of consents: who allowed which client what. They are taken back, not edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.contrib.oauth import clients
from django_mcp.contrib.oauth.models import Consent
from django_mcp.runtime.pages import in_words
from django_mcp.runtime.read_only_admin import ReadOnlyAdmin


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    """To delete a consent is to take it back, with the tokens of its client for the server."""

    list_display = ("user", "client", "client_host", "resource", "scope", "created", "updated")
    list_display_links = ("client",)
    list_select_related = ("user", "application")
    list_filter = ("updated", "resource")
    search_fields = (
        f"user__{get_user_model().USERNAME_FIELD}",
        "application__name",
        "application__client_id",
    )
    fields = (
        "user",
        "application",
        "client_id",
        "client_host",
        "resource",
        "scopes_in_words",
        "created",
        "updated",
    )
    actions = ("take_back",)

    @admin.display(description=_("client"), ordering="application__name")
    def client(self, row: Consent) -> str:
        return str(row.application.name or row.application.client_id)

    @admin.display(description=_("client id"))
    def client_id(self, row: Consent) -> str:
        return str(row.application.client_id)

    @admin.display(description=_("published at"))
    def client_host(self, row: Consent) -> str:
        return clients.host_of(row.application) or "-"

    @admin.display(description=_("scopes"))
    def scopes_in_words(self, row: Consent) -> str:
        return ", ".join(in_words(row.scopes))

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        """Without Django's own action, which would do the same under another name."""
        # Django has this parameter from 6.1 on.
        where = {} if action_location is None else {"action_location": action_location}
        actions = super().get_actions(request, **where)
        actions.pop("delete_selected", None)
        return actions

    def delete_model(self, request: HttpRequest, obj: Consent) -> None:
        obj.revoke()

    @admin.action(description=_("Take back selected consents"), permissions=["delete"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[Consent]) -> None:
        consents = [*queryset]
        for consent in consents:
            consent.revoke()
        count = len(consents)
        text = ngettext("%d consent was taken back.", "%d consents were taken back.", count)
        self.message_user(request, text % count, messages.SUCCESS)
