"""Clients that are stored because they registered, or because their metadata was fetched."""

from __future__ import annotations

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

from django_mcp.oauth import MONTH
from django_mcp.oauth.models import Consent

BATCH = 500
"""Clients that are deleted in one statement."""


def prune() -> int:
    """Delete the clients that nobody has ever allowed anything; return their number.

    Anybody may register, and many programs do so at each start. One that registered within the
    last 30 days is kept, since its user may still come. One that the site added is kept always.
    """
    deleted = 0
    while keys := [*_never_used().values_list("pk", flat=True)[:BATCH]]:
        get_application_model().objects.filter(pk__in=keys).delete()
        deleted += len(keys)
    return deleted


def _never_used() -> QuerySet[Any]:
    model = get_application_model()
    registered = model.objects.exclude(registration_source=model.RegistrationSource.MANUAL)
    found = registered.filter(created__lt=timezone.now() - timedelta(seconds=MONTH))
    for rows in _traces():
        found = found.exclude(Exists(rows.filter(application=OuterRef("pk"))))
    ordered: QuerySet[Any] = found.order_by("pk")
    return ordered


def _traces() -> list[QuerySet[Any]]:
    """What a client has once a user allowed it something."""
    # Each registration has a token, with which the client manages it.
    registration = oauth2_settings.DCR_REGISTRATION_SCOPE
    return [
        Consent.objects.all(),
        get_access_token_model().objects.exclude(scope=registration),
        *(model.objects.all() for model in (get_grant_model(), get_refresh_token_model())),
        get_id_token_model().objects.all(),
    ]
