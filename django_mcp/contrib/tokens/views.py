"""The pages where users create, list and revoke their own tokens.

To change them, override the templates in ``django_mcp_tokens/``, or subclass the views.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.generic import FormView, View

from django_mcp.contrib.tokens.forms import TokenForm
from django_mcp.contrib.tokens.models import PersonalAccessToken, TokenQuerySet
from django_mcp.runtime.pages import ProtectedPage

MAX_TOKENS = 100
"""Tokens of one user that are neither revoked nor expired; further ones are not created here."""
MAX_LISTED = 500


class OwnTokens(LoginRequiredMixin):
    request: HttpRequest

    def own_tokens(self) -> TokenQuerySet:
        """Return the tokens of the user who is logged in."""
        return PersonalAccessToken.objects.filter(owner=self.request.user.pk)


class TokensView(ProtectedPage, OwnTokens, FormView):  # type: ignore[type-arg] # Generic for mypy only.
    """The tokens of a user, and the form for a new one, which is shown once."""

    template_name = "django_mcp_tokens/list.html"
    created_template_name = "django_mcp_tokens/created.html"
    form_class = TokenForm

    def get_scopes(self) -> Iterable[str] | None:
        """Return the scopes that the user may choose from; None: all that the site names."""
        return None

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "scopes": self.get_scopes()}

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        return super().get_context_data(tokens=self.own_tokens()[:MAX_LISTED], **context)

    @sensitive_variables("token")
    def form_valid(self, form: TokenForm) -> HttpResponse:
        if self.own_tokens().unrevoked().count() >= MAX_TOKENS:
            form.add_error(None, _("You have too many tokens. Revoke one that you do not need."))
            return self.form_invalid(form)
        row, token = PersonalAccessToken.objects.issue(
            self.request.user,
            form.cleaned_data["name"],
            scopes=form.cleaned_data.get("scopes", ()),
            servers=form.cleaned_data.get("servers", ()),
            groups=form.cleaned_data.get("groups", ()),
            read_only=form.cleaned_data["read_only"],
            expires_at=form.expires_at,
            made_by_owner=True,
        )
        # No redirect: the token would have to be stored until the next request.
        self.template_name = self.created_template_name
        return self.render_to_response({"row": row, "token": token})


class RevokeTokenView(ProtectedPage, OwnTokens, View):
    """Revokes one of the user's own tokens."""

    http_method_names = ["post", "options"]

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        get_object_or_404(self.own_tokens(), pk=pk).revoke()
        return redirect("django_mcp_tokens:list")
