"""What clients say about themselves: metadata documents (CIMD) and registrations (RFC 7591).

The published documents name things which this server does not have, such as the device grant, and
which the client can do without. They are left out, instead of the client being refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from oauth2_provider.cimd import SafeMetadataFetcher
from oauth2_provider.settings import oauth2_settings

GRANT_TYPES = ("authorization_code", "refresh_token")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_NAME = 100
"""Characters of a client's name that the user sees."""
MAX_REDIRECT_URIS = 20


class ClientMetadataFetcher(SafeMetadataFetcher):
    """Fetches a metadata document as the toolkit does: over HTTPS, from public addresses only."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and its lifetime in seconds; raises CIMDError."""
        document, max_age = super().fetch(client_id)
        return without_unsupported(document), max_age


def without_unsupported(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a client without grants and redirects that are not supported.

    Values of the wrong type are kept: the toolkit reports them.
    """
    found = dict(metadata)
    grants, uris = found.get("grant_types"), found.get("redirect_uris")
    if isinstance(grants, list):
        found["grant_types"] = [each for each in grants if each in GRANT_TYPES]
    if isinstance(uris, list):
        accepted = [uri for uri in uris if not isinstance(uri, str) or is_acceptable(uri)]
        found["redirect_uris"] = accepted[:MAX_REDIRECT_URIS]
    preferred = found.get("token_endpoint_auth_method")
    possible = found.get("token_endpoint_auth_methods_supported")
    if isinstance(possible, list) and "none" in possible and preferred not in _methods():
        found["token_endpoint_auth_method"] = "none"
    if isinstance(found.get("client_name"), str):
        name = "".join(each for each in found["client_name"] if each.isprintable())
        found["client_name"] = name[:MAX_NAME]
    return found


def _methods() -> list[str]:
    return [*oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED]


def is_acceptable(uri: str) -> bool:
    """Whether clients may be redirected there: http only on the user's computer."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        return False
    if parts.scheme == "http" and host not in LOOPBACK:
        return False
    # The redirect URIs of an application are stored separated by spaces.
    return parts.scheme in oauth2_settings.ALLOWED_REDIRECT_URI_SCHEMES and not uri.split()[1:]


def host_of(application: Any) -> str:
    """Return the host at which a client publishes its metadata, or "" for one that registered."""
    if application.registration_source != "cimd":
        return ""
    return str(urlsplit(application.client_id).netloc)


def is_loopback(uri: str) -> bool:
    """Whether ``uri`` leads to a program on the user's computer."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in LOOPBACK
