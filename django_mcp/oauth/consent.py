"""The pages for users: what a client asks for, and what they allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.generic import TemplateView
from oauth2_provider import views
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.models import get_application_model
from oauth2_provider.scopes import get_scopes_backend
from oauthlib.oauth2.rfc6749.errors import InvalidRequestError, OAuth2Error

from django_mcp.auth.oauth_toolkit import issuer
from django_mcp.oauth import clients, resources
from django_mcp.oauth.models import Consent
from django_mcp.oauth.validators import check_resources
from django_mcp.runtime.pages import ProtectedPage


@method_decorator(login_not_required, name="dispatch")  # It redirects to the login itself.
class AuthorizationView(ProtectedPage, views.AuthorizationView):
    """The consent page (RFC 6749, section 3.1)."""

    template_name = "django_mcp_oauth/authorize.html"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        query = request.GET.copy()
        # A client must not choose that past tokens, for whatever resource, stand for a consent.
        query.pop("approval_prompt", None)
        if not query.getlist("resource") and (found := self._default_resource(query)):
            query["resource"] = found
        request.GET = query  # type: ignore[assignment]
        response: HttpResponseBase = super().get(request, *args, **kwargs)
        return response

    def _default_resource(self, query: Any) -> str | None:
        """Older clients name no resource. One which the site added may mean another API."""
        application = _application(query.get("client_id", ""))
        is_manual = application is not None and application.registration_source == "manual"
        return None if is_manual else resources.only(self._base)

    @property
    def _base(self) -> str:
        return resources.base_url(self.request)

    def validate_authorization_request(self, request: HttpRequest) -> tuple[list[str], Any]:
        """Check what the toolkit leaves open, before the user is asked."""
        scopes, credentials = super().validate_authorization_request(request)
        state, redirect_uri = credentials.get("state"), credentials["redirect_uri"]
        application = get_application_model().objects.get(client_id=credentials["client_id"])
        try:
            if credentials.get("code_challenge") and credentials["code_challenge_method"] != "S256":
                description = "Use the code_challenge_method S256"
                raise InvalidRequestError(description=description, state=state)
            named = request.GET.getlist("resource")
            check_resources(self._base, named, application, state=state)
        except OAuth2Error as error:
            raise OAuthToolkitError(error=error, redirect_uri=redirect_uri) from None
        self.credentials = credentials
        return scopes, credentials

    def create_authorization_response(
        self, request: HttpRequest, scopes: str, credentials: Any, allow: bool
    ) -> Any:
        """Remember what the user allowed, once a code is issued for it."""
        created = super().create_authorization_response(request, scopes, credentials, allow)
        application = get_application_model().objects.get(client_id=credentials["client_id"])
        resource = "".join(credentials.get("resource") or ())
        Consent.objects.add(request.user, application, resource, scopes.split())
        return created

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        """Name the issuer in every redirect, also in those of errors (RFC 9207, section 2)."""
        url = with_issuer(redirect_to, issuer(self._base))
        response: HttpResponse = super().redirect(url, application)
        return response

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponseBase:
        """Ask the user, unless she allowed all of it before and it goes to a site."""
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
        """Whether to go on without asking.

        Any program on the user's computer can receive what is sent to a port of it or to a
        scheme, in the name of another one: there she is asked each time (RFC 8252, section 8.6).
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
            resource, redirect_uri = context.get("resource", ""), context["redirect_uri"]
            parts = urlsplit(redirect_uri)
            context |= {
                "client_host": clients.host_of(application),
                "redirect_host": parts.netloc or parts.scheme,
                "redirect_scheme": parts.scheme,
                "is_loopback": clients.is_loopback(redirect_uri),
                "resource": resource,
                "server_title": resources.title(self._base, resource),
                "access_url": reverse("django_mcp_oauth:access"),
            }
        return context

    def form_valid(self, form: Any) -> HttpResponseBase:
        if _application(form.cleaned_data["client_id"]) is None:
            return self.form_invalid(form)
        response: HttpResponseBase = super().form_valid(form)
        return response

    def form_invalid(self, form: Any) -> HttpResponseBase:
        """Refuse a form that this page did not make."""
        error = InvalidRequestError(description="The form is not complete: begin again")
        return self.render_to_response({"error": error}, status=400)


class AccessView(ProtectedPage, LoginRequiredMixin, TemplateView):
    """What the user allowed. A post takes one of it back."""

    template_name = "django_mcp_oauth/access.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = Consent.objects.filter(user=self.request.user.pk).select_related("application")
        base = resources.base_url(self.request)
        described = [
            {
                "consent": each,
                "application": each.application,
                "client_host": clients.host_of(each.application),
                "server_title": resources.title(base, each.resource),
                "scopes": in_words(each.scopes),
            }
            for each in found.order_by("-updated")
        ]
        return super().get_context_data(consents=described, **kwargs)

    def post(self, request: HttpRequest) -> HttpResponseBase:
        """Take back the consent with the posted primary key."""
        key = request.POST.get("consent", "")
        consents = Consent.objects.filter(user=request.user.pk)
        get_object_or_404(consents, pk=int(key) if key.isdecimal() else 0).revoke()
        return HttpResponseRedirect(reverse("django_mcp_oauth:access"))


def in_words(scopes: Iterable[str]) -> list[str]:
    """Return the descriptions of ``scopes``."""
    described = get_scopes_backend().get_all_scopes()
    return [str(described.get(each, each)) for each in scopes]


def with_issuer(url: str, own: str) -> str:
    """Return ``url`` with ``iss`` in its query, and no other one."""
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "iss"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("iss", own)])))


def _application(client_id: str) -> Any:
    """Return the application, or None. Some databases cannot search for a NUL."""
    known = get_application_model().objects
    return None if "\0" in client_id else known.filter(client_id=client_id).first()
