"""An OAuth authorization server for the site's MCP servers, made of django-oauth-toolkit.

``provider_settings`` returns the toolkit's settings, and ``django_mcp.contrib.oauth.urls`` has the
endpoints. This module is imported by ``settings.py``, and imports no models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OFFLINE_ACCESS = "offline_access"
"""A scope that some clients request. It is granted and not listed: every client may refresh."""

MONTH = 30 * 24 * 60 * 60


def provider_settings(scopes: Mapping[str, str], **overrides: Any) -> dict[str, Any]:
    """Return ``OAUTH2_PROVIDER``: what MCP clients need, and what RFC 9700 recommends.

    ``scopes`` maps each scope to its description for users. A client that asks for none gets the
    first one. ``overrides`` replaces or adds settings of django-oauth-toolkit.
    """
    if not scopes:
        raise ValueError('Name at least one scope: provider_settings({"mcp": "Use the tools"})')
    return {
        "SCOPES": {**scopes, OFFLINE_ACCESS: "Stay connected"},
        "DEFAULT_SCOPES": [next(iter(scopes))],
        **CLIENTS,
        **ENDPOINTS,
        **SECURITY,
        **overrides,
    }


CLIENTS: Mapping[str, Any] = {
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "django_mcp.contrib.oauth.documents.ClientMetadataFetcher",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ["django_mcp.contrib.oauth.documents.FetchPermission"],
    "DCR_ENABLED": True,
    "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
    # A registration token cannot be used for MCP; without it a client registers again.
    "DCR_REGISTRATION_TOKEN_EXPIRE_SECONDS": MONTH,
    # http is accepted only for this computer: see ``clients.is_acceptable``.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", "cursor"],
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "ALLOW_URI_WILDCARDS": False,
}
"""How clients register, and where they are redirected to."""

ENDPOINTS: Mapping[str, Any] = {
    "OAUTH2_VALIDATOR_CLASS": "django_mcp.contrib.oauth.validators.ResourceValidator",
    "OAUTH2_BACKEND_CLASS": "django_mcp.contrib.oauth.validators.OAuthBackend",
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [
        "none",
        "client_secret_basic",
        "client_secret_post",
    ],
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
    "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
}
"""The grants and methods that the endpoints accept, as in their metadata."""

SECURITY: Mapping[str, Any] = {
    "PKCE_REQUIRED": True,
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
    "ROTATE_REFRESH_TOKEN": True,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "REFRESH_TOKEN_EXPIRE_SECONDS": MONTH,
    "ACCESS_TOKEN_EXPIRE_SECONDS": 60 * 60,
    "REQUEST_APPROVAL_PROMPT": "force",
}
"""``checks`` warns of those which a site turns off."""
