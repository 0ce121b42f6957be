"""The consent page with the requested scopes. ``access.py`` has the page of allowed programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.contrib.auth.decorators import login_not_required
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from oauth2_provider import views
from oauth2_provider.cimd import is_cimd_client_id, resolve_cimd_application
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.models import get_application_model
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749.errors import InvalidRequestError, OAuth2Error

from django_mcp.auth.oauth_toolkit import issuer
from django_mcp.contrib.oauth import clients, documents, resources
from django_mcp.contrib.oauth.documents import CALLER, caller_of
from django_mcp.contrib.oauth.models import Consent, current
from django_mcp.contrib.oauth.validators import check_challenge, check_resources
from django_mcp.runtime.pages import ProtectedPage

ATTEMPTS = 5
"""How often a client is stored, if others store it at the same time."""
OF_ERRORS = ("error", "error_description", "error_uri", "state")
"""The parameters of an error (RFC 6749, section 4.1.2.1)."""
LOCK_TIMEOUT = 10
"""Seconds."""


@method_decorator(login_not_required, name="dispatch")  # It redirects to the login itself.
class AuthorizationView(ProtectedPage, views.AuthorizationView):
    """The consent page (RFC 6749, section 3.1)."""

    template_name = "django_mcp_oauth/authorize.html"
    has_issued_code = False

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if any("\0" in text for _, texts in request.GET.lists() for text in texts):
            error = InvalidRequestError(description="A parameter contains a NUL")
            return self.render_to_response({"error": error}, status=400)
        # oauthlib raises ValueError for queries that Django can read, such as "state=[1]&%zz".
        request.META["QUERY_STRING"] = request.GET.urlencode()
        request.META[CALLER] = caller_of(request)
        client_id = (request.POST or request.GET).get("client_id", "")
        if is_cimd_client_id(client_id) and _application(client_id) is None:
            with documents.fetched_before(client_id, self._oauthlib_request()):
                return self._dispatch_and_store(client_id, request)
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def _dispatch_and_store(self, client_id: str, request: HttpRequest) -> HttpResponseBase:
        """Answer for a client that is not stored, and store it only if the user allows it.

        The toolkit finds clients in the database alone. If another user allows the same client
        meanwhile, the database refuses a second row of it; then it is found at the next attempt.
        """
        applications = current(get_application_model())
        alias = applications.db
        response: HttpResponseBase
        for _ in range(ATTEMPTS):
            with _one_at_a_time(client_id, alias), transaction.atomic(using=alias):
                if connections[alias].vendor == "sqlite":
                    # A transaction that has read before cannot wait for another writer.
                    applications.filter(client_id=client_id).update(client_id=client_id)
                response = super().dispatch(request)
                has_failed = transaction.get_rollback(using=alias)
                if not self.has_issued_code:
                    transaction.set_rollback(True, using=alias)
            if not has_failed:
                break
        return response

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        query = request.GET.copy()
        # It lets tokens of any resource count as a consent: a client must not choose that.
        query.pop("approval_prompt", None)
        if not query.getlist("resource"):
            # Older clients name no resource. One that the site added may mean another API.
            application = _application(query.get("client_id", ""))
            is_manual = application is not None and application.registration_source == "manual"
            only = None if is_manual else resources.only(self._base)
            if only is not None:
                query["resource"] = only
        request.GET = query  # type: ignore[assignment]
        response: HttpResponseBase = super().get(request, *args, **kwargs)
        return response

    @property
    def _base(self) -> str:
        return resources.base_url(self.request)

    def validate_authorization_request(self, request: HttpRequest) -> tuple[list[str], Any]:
        """Make further checks than the toolkit does, before the user is asked."""
        scopes, credentials = super().validate_authorization_request(request)
        state = credentials.get("state")
        redirect_uri = credentials["redirect_uri"]
        application = current(get_application_model()).get(client_id=credentials["client_id"])
        try:
            challenge, method = map(credentials.get, ("code_challenge", "code_challenge_method"))
            check_challenge(challenge, method, state=state)
            requested = request.GET.getlist("resource")
            check_resources(self._base, requested, application, state=state)
        except OAuth2Error as error:
            raise OAuthToolkitError(error=error, redirect_uri=redirect_uri) from None
        self.credentials = credentials
        return scopes, credentials

    def create_authorization_response(
        self, request: HttpRequest, scopes: str, credentials: Any, allow: bool
    ) -> Any:
        """Store the consent of the user, once a code is issued for it."""
        created = super().create_authorization_response(request, scopes, credentials, allow)
        application = current(get_application_model()).get(client_id=credentials["client_id"])
        resource = "".join(credentials.get("resource") or ())
        Consent.objects.add(request.user, application, resource, scopes.split())
        self.has_issued_code = True
        return created

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        """Name the issuer in every redirect, also for errors (RFC 9207, section 2)."""
        if self.request.GET.get("response_mode") == "fragment":
            redirect_to = with_error_in_fragment(redirect_to)
        url = with_issuer(redirect_to, issuer(self._base))
        response: HttpResponse = super().redirect(url, application)
        return response

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponseBase:
        """Ask the user, unless they allowed all of it before and it goes to a site."""
        if "error" not in context and self.request.method == "GET" and self._is_allowed(context):
            try:
                scopes = " ".join(context["scopes"])
                url, *_ = self.create_authorization_response(
                    self.request, scopes, self.credentials, allow=True
                )
            except OAuthToolkitError as error:
                return self.error_response(error, context["application"])  # type: ignore[no-any-return]
            return self.redirect(url, context["application"])
        response: HttpResponseBase = super().render_to_response(context, **kwargs)
        return response

    def _is_allowed(self, context: dict[str, Any]) -> bool:
        """Whether the user allowed all of it before, so that they need not be asked.

        A redirect to a port or a scheme of the user's computer can be received by any program on
        it. For such a redirect they are asked each time (RFC 8252, section 8.6).
        """
        if "prompt" in self.request.GET or urlsplit(context["redirect_uri"]).scheme != "https":
            return False
        resource = context.get("resource", "")
        return Consent.objects.covers(
            self.request.user, context["application"], resource, context["scopes"]
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        application = context.get("application")
        if application is not None:
            resource = context.get("resource", "")
            context |= {
                "client_host": clients.host_of(application),
                "destination": clients.destination(context["redirect_uri"]),
                "resource": resource,
                "server_title": resources.title(self._base, resource),
            }
        return context

    def form_valid(self, form: Any) -> HttpResponseBase:
        client_id = form.cleaned_data["client_id"]
        application = _application(client_id)
        if application is None:
            application = resolve_cimd_application(client_id, self._oauthlib_request())
        # The toolkit redirects errors of a resource before it has checked where.
        uri = form.cleaned_data["redirect_uri"]
        registered = [] if application is None else application.redirect_uris.split()
        if not clients.is_acceptable(uri) or not clients.is_registered(uri, registered):
            return self.form_invalid(form)
        response: HttpResponseBase = super().form_valid(form)
        return response

    def _oauthlib_request(self) -> Request:
        headers = self.get_oauthlib_core().extract_headers(self.request)
        return Request(self.request.get_full_path(), headers=headers)

    def form_invalid(self, form: Any) -> HttpResponseBase:
        """Refuse a form that this page did not make."""
        error = InvalidRequestError(description="The form is not complete: begin again")
        return self.render_to_response({"error": error}, status=400)


def with_error_in_fragment(url: str) -> str:
    """Return ``url`` with an error in the fragment: the toolkit writes each into the query."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if parts.fragment or "error" not in dict(pairs):
        return url
    query = [pair for pair in pairs if pair[0] not in OF_ERRORS]
    fragment = [pair for pair in pairs if pair[0] in OF_ERRORS]
    return urlunsplit(parts._replace(query=urlencode(query), fragment=urlencode(fragment)))


def with_issuer(url: str, own: str) -> str:
    """Return ``url`` with ``iss`` beside the answer, and no other one.

    The answer is in the query, or in the fragment where the client chose that response_mode.
    """
    parts = urlsplit(url)
    query, fragment = (
        [pair for pair in parse_qsl(text, keep_blank_values=True) if pair[0] != "iss"]
        for text in (parts.query, parts.fragment)
    )
    (fragment if parts.fragment else query).append(("iss", own))
    return urlunsplit(parts._replace(query=urlencode(query), fragment=urlencode(fragment)))


def _application(client_id: str) -> Any:
    """Return the application, or None. Some databases cannot search for a NUL."""
    if "\0" in client_id:
        return None
    return current(get_application_model()).filter(client_id=client_id).first()


@contextmanager
def _one_at_a_time(client_id: str, alias: str) -> Iterator[None]:
    """Wait until nobody else stores this client, on MariaDB and MySQL.

    There, three transactions that insert one key end in a deadlock if the first one is rolled back
    (InnoDB, "Locks Set by Different SQL Statements"). Other databases let the second one go on.
    """
    connection = connections[alias]
    if connection.vendor != "mysql" or connection.in_atomic_block:
        yield
        return
    name = f"django_mcp {sha256(client_id.encode()).hexdigest()[:40]}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, %s)", [name, LOCK_TIMEOUT])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT RELEASE_LOCK(%s)", [name])
