"""The metadata of clients: documents that they publish (CIMD), and registrations (RFC 7591).

A document may name things that this server does not have and the client can do without, such as
the device grant. The server leaves them out, and does not refuse the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext
from oauth2_provider.settings import oauth2_settings

GRANT_TYPES = ("authorization_code", "refresh_token")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_NAME = 100
"""Characters of a client's name that the user sees."""
MAX_REDIRECT_URIS = 20


def without_unsupported(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a client without grants and redirects that are not supported.

    Values of the wrong type are kept: the toolkit reports them.
    """
    supported = dict(metadata)
    grants = metadata.get("grant_types")
    if isinstance(grants, list):
        supported["grant_types"] = [grant for grant in grants if grant in GRANT_TYPES]
    uris = metadata.get("redirect_uris")
    if isinstance(uris, list):
        accepted = [uri for uri in uris if not isinstance(uri, str) or is_acceptable(uri)]
        supported["redirect_uris"] = accepted[:MAX_REDIRECT_URIS]
    preferred = metadata.get("token_endpoint_auth_method")
    possible = metadata.get("token_endpoint_auth_methods_supported")
    methods = oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED
    if isinstance(possible, list) and "none" in possible and preferred not in [*methods]:
        supported["token_endpoint_auth_method"] = "none"
    name = metadata.get("client_name")
    if isinstance(name, str):
        printable = "".join(character for character in name if character.isprintable())
        supported["client_name"] = printable[:MAX_NAME]
    return supported


def is_acceptable(uri: str) -> bool:
    """Whether clients may be redirected there: http only on the user's computer."""
    # The redirect URIs of an application are stored separated by spaces. With a backslash, URLs are
    # read in two ways.
    if not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port  # It raises ValueError above 65535.
    except ValueError:
        return False
    if "@" in parts.netloc:  # What is before it looks like the host to a user.
        return False
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return False
    return parts.scheme in oauth2_settings.ALLOWED_REDIRECT_URI_SCHEMES


LOOPBACK_PORT = re.compile(r"^(http://(?:localhost|127\.0\.0\.1|\[::1\])):\d+(?=[/?]|$)")


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Whether ``uri`` is one of these, character by character (RFC 9700, section 2.1).

    Only a program on the user's computer may choose another port (RFC 8252, section 7.3).
    """
    if uri in registered:
        return True
    return is_loopback(uri) and without_port(uri) in map(without_port, registered)


def without_port(uri: str) -> str:
    """Return the redirect URI of a program on the user's computer without its port."""
    return LOOPBACK_PORT.sub(r"\1", uri)


def host_of(application: Any) -> str:
    """Return the host with the metadata of a client, or "" for one that registered."""
    if application.registration_source != "cimd":
        return ""
    return str(urlsplit(application.client_id).netloc)


def destination(redirect_uri: str, *, with_port: bool = True) -> str:
    """Return in words where access is sent: the host of a site, or a program on the computer."""
    parts = urlsplit(redirect_uri)
    host = parts.netloc if with_port else str(parts.hostname)
    if is_loopback(redirect_uri):
        return gettext("a program on this computer (%(host)s)") % {"host": host}
    if parts.scheme == "https":
        return parts.netloc
    return gettext("the program on this computer that opens %(scheme)s:// (%(host)s)") % {
        "scheme": parts.scheme,
        "host": parts.netloc or parts.scheme,
    }


def is_loopback(uri: str) -> bool:
    """Whether ``uri`` leads to a program on the user's computer."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in LOOPBACK
