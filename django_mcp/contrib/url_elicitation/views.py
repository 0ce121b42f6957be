"""The pages of URL-mode elicitation: a form of the author, or a view of the author.

``ElicitationMixin`` makes any class-based view such a page. It shows its page to the one user for
whom the link is, and to nobody else (ELIC-36, ELIC-37).
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from django import forms
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.views.generic import FormView

from django_mcp.contrib.url_elicitation import links
from django_mcp.contrib.url_elicitation.links import DECLINE, Link
from django_mcp.contrib.url_elicitation.models import (
    PageAnswer,
    current_formats,
    max_file_bytes,
    stored_files,
)
from django_mcp.runtime.pages import ProtectedPage

NO_INPUTS = frozenset({"csrfmiddlewaretoken", DECLINE})
"""The names of a post that are no inputs of its form."""


class OwnLink(LoginRequiredMixin):
    """Checks the link, and who opens it, before the view does anything."""

    request: HttpRequest
    link: Link
    done_template_name = "django_mcp_elicitation/done.html"
    invalid_template_name = "django_mcp_elicitation/invalid.html"

    def dispatch(
        self, request: HttpRequest, *args: Any, token: str, **kwargs: Any
    ) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return self.handle_no_permission()
        link = links.read(token)
        if link is None or not link.is_for(request):
            # One response for all of these, so that nobody learns of the links of others.
            return TemplateResponse(request, self.invalid_template_name, status=404)
        self.link = link
        is_post = request.method == "POST"
        answer = PageAnswer.objects.of(link.id, request.user)
        if answer is not None:
            return self.done(answer.action, status=409 if is_post else 200)
        if is_post and DECLINE in request.POST:
            return self.decline()
        return super().dispatch(request, *args, **kwargs)

    def complete(self, content: Any = None) -> HttpResponseBase:
        """Store the answer for the handler, and return the last page."""
        return self._answer("accept", content)

    def decline(self) -> HttpResponseBase:
        """Store that the user does not want to, and return the last page."""
        return self._answer("decline", None)

    def done(self, action: str, *, status: int = 200) -> HttpResponseBase:
        """Return the last page, which sends the user back to the program."""
        context = {"link": self.link, "action": action}
        return TemplateResponse(self.request, self.done_template_name, context, status=status)

    def _answer(self, action: Any, content: Any) -> HttpResponseBase:
        link = self.link
        user = self.request.user
        expires_at = link.answer_expires_at()
        if PageAnswer.objects.answer(link.id, user, action, content, expires_at=expires_at):
            return self.done(action)
        answer = PageAnswer.objects.of(link.id, user)
        return self.done(answer.action if answer else "cancel", status=409)

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        with_link: dict[str, Any] = super().get_context_data(link=self.link, **context)  # type: ignore[misc]
        return with_link


class ElicitationMixin(ProtectedPage, OwnLink):
    """A page of an elicitation, whose URL pattern has the argument ``token``.

    ``self.link`` is the elicitation. When the user is done, return ``self.complete(content)`` with
    a JSON value for the handler. A post with ``decline`` declines.
    """


class ElicitationFormView(ElicitationMixin, FormView):  # type: ignore[type-arg] # Generic for mypy only.
    """The ready page: it shows the form class which the handler named."""

    template_name = "django_mcp_elicitation/form.html"

    def get_form_class(self) -> type[forms.BaseForm]:
        form: type[forms.BaseForm] = resolve_name(self.link.form or "")
        return form

    def form_valid(self, form: forms.BaseForm) -> HttpResponseBase:  # type: ignore[override]
        names = {form.add_prefix(name) for name in form.fields}
        # A widget with parts adds to the name of its field: ``scan_0``.
        parts = (*(f"{name}_" for name in names),)
        uploaded = [
            (key, sent)
            for key, sent in self.request.FILES.lists()
            if key in names or key.startswith(parts)
        ]
        most = max_file_bytes()
        if sum(file.size or 0 for _, sent in uploaded for file in sent) > most:
            form.add_error(
                None, _("The files have more than %(size)s.") % {"size": filesizeformat(most)}
            )
            return self.form_invalid(form)
        # The posted values: the handler validates them again, into the same types. Only a widget
        # knows the names of its parts.
        data = {key: sent for key, sent in self.request.POST.lists() if key not in NO_INPUTS}
        files = stored_files(uploaded)
        return self.complete({"data": data, "files": files, "formats": current_formats()})
