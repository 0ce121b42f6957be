"""The URL patterns. Include them at the root: ``path("", include("django_mcp.oauth.urls"))``.

Those in the namespace of django-oauth-toolkit take the place of ``oauth2_provider.urls``.
"""

from __future__ import annotations

from django.urls import include, re_path

from django_mcp.oauth import consent, endpoints
from django_mcp.oauth.cors import cross_origin

METADATA = r"\.well-known/oauth-authorization-server"

metadata = cross_origin("GET")(endpoints.MetadataView.as_view())
post = cross_origin("POST")

toolkit = [
    re_path(rf"^{METADATA}/?$", metadata, name="oauth-server-metadata"),
    # The well-known path before that of an issuer, and behind it.
    re_path(rf"^{METADATA}/(?P<issuer_path>.+)$", metadata),
    re_path(rf"^(?P<issuer_path>.+)/{METADATA}/?$", metadata),
    re_path(r"^o/authorize/?$", consent.AuthorizationView.as_view(), name="authorize"),
    re_path(r"^o/token/?$", post(endpoints.TokenView.as_view()), name="token"),
    re_path(r"^o/revoke/?$", post(endpoints.RevocationView.as_view()), name="revoke-token"),
    re_path(r"^o/register/?$", post(endpoints.RegistrationView.as_view()), name="dcr-register"),
    re_path(
        r"^o/register/(?P<client_id>[^/]+)/?$",
        cross_origin("GET, DELETE")(endpoints.RegistrationManagementView.as_view()),
        name="dcr-register-management",
    ),
]
pages = [re_path(r"^o/access/?$", consent.AccessView.as_view(), name="access")]

urlpatterns = [
    re_path("", include((toolkit, "oauth2_provider"))),
    re_path("", include((pages, "django_mcp_oauth"))),
]
