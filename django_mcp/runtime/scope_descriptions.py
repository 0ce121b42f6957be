"""What the scopes of access tokens permit, in the words that users read."""

from __future__ import annotations

from collections.abc import Iterable

from django.apps import apps


def in_words(scopes: Iterable[str]) -> list[str]:
    """Return what scopes permit, in the words of the site: SCOPES of django-oauth-toolkit."""
    if not apps.is_installed("oauth2_provider"):
        return [*scopes]
    # An optional dependency, which only some sites have.
    from oauth2_provider.scopes import get_scopes_backend

    descriptions = get_scopes_backend().get_all_scopes()
    return [str(descriptions.get(scope, scope)) for scope in scopes]
