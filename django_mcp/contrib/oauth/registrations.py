"""Registered clients: their metadata, their number, and their deletion."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)
from oauth2_provider.settings import oauth2_settings

from django_mcp.contrib.oauth import MONTH
from django_mcp.contrib.oauth.models import Consent, ManagedAccess, Registration, current

BATCH = 500
"""Clients that are deleted in one statement."""


MAX_UNUSED = 30
"""Unused clients of one network, besides the new ones."""
NEW = timedelta(minutes=10)
"""A client is new until this age. Its user may be logging in, so it is not deleted."""
MAX_NEW = 1000
"""New clients of one network: a bound for programs that register all the time."""
DEFAULT_METHOD = "client_secret_basic"
"""The method of a client that names none (RFC 7591, section 2)."""
INFORMATION = (
    "client_uri",
    "logo_uri",
    "tos_uri",
    "policy_uri",
    "software_id",
    "software_version",
    "scope",
)
"""Members of a registration that are stored as they are."""


def store(client_id: str, network: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Store the metadata of a client and its network; return the row.

    The oldest unused clients of the network are deleted above a bound. Nobody is refused: behind
    some proxies, all clients have one address.
    """
    application = current(get_application_model()).get(client_id=client_id)
    kept = _kept(metadata)
    current(Registration).create(application=application, network=network, metadata=kept)
    of_network = _unused().filter(mcp_registration__network=network)
    _delete_but_newest(of_network, MAX_NEW)
    _delete_but_newest(of_network.filter(created__lt=timezone.now() - NEW), MAX_UNUSED)
    return kept


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    information = {}
    for name in INFORMATION:
        value = metadata.get(name)
        if isinstance(value, str) and value.isprintable():
            information[name] = value
    return {
        **information,
        "response_types": ["code"],
        "token_endpoint_auth_method": metadata.get("token_endpoint_auth_method", DEFAULT_METHOD),
    }


def metadata_of(client_id: str) -> dict[str, Any]:
    """Return what ``store`` has returned for a client."""
    rows = current(Registration).filter(application__client_id=client_id)
    metadata: dict[str, Any] = rows.values_list("metadata", flat=True).first() or {}
    return metadata


def _delete_but_newest(clients: QuerySet[Any], number: int) -> None:
    keys = [*clients.order_by("-created", "-pk").values_list("pk", flat=True)[number:]]
    current(get_application_model()).filter(pk__in=keys).delete()


def prune() -> int:
    """Delete unused clients; return their number.

    Anybody may register, and many programs do so at each start. One that registered within the
    last 30 days is kept, since its user may still come. One that the site added is kept always.
    """
    deleted = 0
    old = _unused().filter(created__lt=timezone.now() - timedelta(seconds=MONTH)).order_by("pk")
    while keys := [*old.values_list("pk", flat=True)[:BATCH]]:
        current(get_application_model()).filter(pk__in=keys).delete()
        deleted += len(keys)
    return deleted


def _unused() -> QuerySet[Any]:
    """The clients that registered, and that no user has ever allowed anything."""
    model = get_application_model()
    unused: QuerySet[Any] = current(model).exclude(
        registration_source=model.RegistrationSource.MANUAL
    )
    for rows in _traces():
        unused = unused.exclude(Exists(rows.filter(application=OuterRef("pk"))))
    return unused


def _traces() -> list[QuerySet[Any]]:
    """The objects of a client after a user has allowed it something."""
    # Each registration has a token for the client that manages it.
    registration = oauth2_settings.DCR_REGISTRATION_SCOPE
    return [
        Consent.objects.all(),
        current(ManagedAccess),
        current(get_access_token_model()).exclude(scope=registration),
        *(current(model) for model in (get_grant_model(), get_refresh_token_model())),
        current(get_id_token_model()),
    ]
