"""The page of the programs that a user allowed to use the account: they can take it back there.

Many programs register anew each time they are installed or restarted. The registrations that look
the same to a user are one program here: name, host of the metadata document, destination of the
access, and server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.generic import TemplateView
from oauth2_provider.models import get_access_token_model

from django_mcp.auth.resource import canonical
from django_mcp.contrib.oauth import clients, resources
from django_mcp.contrib.oauth.models import Consent, MachineClient, ManagedAccess, current
from django_mcp.runtime.pages import ProtectedPage, in_words

MAX_TOKENS = 100
"""Tokens of a program that are searched for its last use; refreshing it leaves expired ones."""

Key = tuple[str, str, str, str]
"""Two consents with the same key are one program for their user."""


@dataclass(frozen=True, slots=True)
class Program:
    """The scopes that the user allowed to one program, on one server."""

    consents: Sequence[Consent]
    """One for each registration of the program, the newest first."""
    server_title: str
    last_used_at: datetime | None

    @property
    def name(self) -> str:
        application = self.consents[0].application
        return str(application.name or application.client_id)

    @property
    def client_host(self) -> str:
        return clients.host_of(self.consents[0].application)

    @property
    def destination(self) -> str:
        return _destination(self.consents[0].application)

    @property
    def resource(self) -> str:
        return self.consents[0].resource

    @property
    def key(self) -> int:
        """The key of one of the consents, which identifies the program on the page."""
        return self.consents[0].pk

    @property
    def allowed_at(self) -> datetime:
        return min(consent.created for consent in self.consents)

    @property
    def scopes(self) -> list[str]:
        """The rights of the program, in words."""
        return in_words(dict.fromkeys(chain(*(consent.scopes for consent in self.consents))))


@dataclass(frozen=True, slots=True)
class ManagedProgram:
    """The access of one program that a company allowed for the user; an administrator ends it."""

    name: str
    company: str
    server_title: str
    resource: str
    scopes: Sequence[str]
    allowed_at: datetime


@dataclass(frozen=True, slots=True)
class Machine:
    """A client that acts as the user by itself; an administrator registered it."""

    name: str
    scopes: Sequence[str]


class AccessView(ProtectedPage, LoginRequiredMixin, TemplateView):
    """The programs that the user allowed. A post takes one of them back."""

    template_name = "django_mcp_oauth/access.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        base = resources.base_url(self.request)
        programs = [
            Program(
                consents=consents,
                server_title=resources.title(base, consents[0].resource),
                last_used_at=_last_used_at(consents),
            )
            for consents in _consents_by_program(self.request.user)
        ]
        # They act as the user: such as somebody who looks after a service account.
        rows = current(MachineClient).filter(user=self.request.user.pk, is_active=True)
        machines = rows.select_related("application").order_by("pk")
        return super().get_context_data(
            programs=programs,
            managed=[*_managed(base, self.request.user)],
            machines=[Machine(name=row.name, scopes=in_words(row.scopes)) for row in machines],
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponseBase:
        """Take back the consents of the program that has the posted one."""
        posted = request.POST.get("consent", "")
        rows = Consent.objects.filter(user=request.user.pk).select_related("application")
        consents = {str(consent.pk): consent for consent in rows}
        chosen = consents.get(posted)
        if chosen is None:
            raise Http404
        for consent in consents.values():
            if _key(consent) == _key(chosen):
                consent.revoke()
        return HttpResponseRedirect(reverse("django_mcp_oauth:access"))


def _managed(base: str, user: Any) -> Iterator[ManagedProgram]:
    """Yield what companies allowed for a user, and no administrator has ended."""
    rows = current(ManagedAccess).filter(
        user=user.pk, ended_at=None, trusted_issuer__is_active=True
    )
    for row in rows.select_related("application", "trusted_issuer").order_by("-updated"):
        yield ManagedProgram(
            name=str(row.application.name or row.application.client_id),
            company=row.trusted_issuer.name,
            server_title=resources.title(base, row.resource),
            resource=row.resource,
            scopes=in_words(row.scopes),
            allowed_at=row.created,
        )


def _consents_by_program(user: Any) -> list[list[Consent]]:
    """Return the consents of a user, in lists of one program each."""
    consents = Consent.objects.filter(user=user.pk).select_related("application")
    by_program: dict[Key, list[Consent]] = {}
    for consent in consents.order_by("-updated"):
        by_program.setdefault(_key(consent), []).append(consent)
    return list(by_program.values())


def _key(consent: Consent) -> Key:
    application = consent.application
    if application.registration_source == "manual":
        # The site made it: it is never the registration of another one.
        return (application.client_id, "", "", consent.resource)
    return (
        application.name or application.client_id,
        clients.host_of(application),
        _destination(application),
        consent.resource,
    )


def _destination(application: Any) -> str:
    uris = application.redirect_uris.split()
    return ", ".join(dict.fromkeys(clients.destination(uri, with_port=False) for uri in uris))


def _last_used_at(consents: Sequence[Consent]) -> datetime | None:
    """When the program got its last token: it needs a new one for every hour of use."""
    tokens = current(get_access_token_model()).filter(
        user=consents[0].user_id,
        application__in=[consent.application_id for consent in consents],
    )
    name = canonical(consents[0].resource)
    newest = tokens.order_by("-created").values_list("resource", "created")[:MAX_TOKENS]
    return next(
        (created for of, created in newest if [*map(canonical, of or [""])] == [name]), None
    )
