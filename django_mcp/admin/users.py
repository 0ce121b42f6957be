"""The users of rows that store the primary key of a user as a string."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

MAX_MATCHES = 20
"""The number of users that a search for a name finds."""


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the user names by key, in one query; none for a key that no user has."""
    model = get_user_model()
    values = []
    for text in {*keys} - {""}:
        try:
            values.append(model._meta.pk.to_python(text))
        except ValidationError:
            continue  # A site's own authenticator has another subject.
    users = model._base_manager.in_bulk(values)
    return {str(key): user.get_username() for key, user in users.items()}


def keys_of_names_with(text: str) -> list[str]:
    """Return the keys of users with ``text`` in their name."""
    model = get_user_model()
    users = model._base_manager.filter(**{f"{model.USERNAME_FIELD}__icontains": text})
    return [str(key) for key in users.values_list("pk", flat=True)[:MAX_MATCHES]]
