"""The admin of consents, which are revoked and not edited, of machines and of trusted issuers."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_variables
from oauth2_provider.generators import generate_client_secret
from oauth2_provider.models import get_application_model
from oauth2_provider.scopes import get_scopes_backend

from django_mcp.contrib.oauth import OFFLINE_ACCESS, clients
from django_mcp.contrib.oauth.models import (
    Consent,
    ExternalIdentity,
    MachineClient,
    ManagedAccess,
    TrustedIssuer,
)
from django_mcp.runtime.pages import in_words
from django_mcp.runtime.read_only_admin import ListedLookups, ReadOnlyAdmin


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    """Deleting a consent revokes it, with the tokens of its client for the server."""

    list_display = ("user", "client", "client_host", "resource", "scope", "created", "updated")
    list_display_links = ("client",)
    list_select_related = ("user", "application")
    list_filter = ("updated", "resource")
    search_fields = (
        f"user__{get_user_model().USERNAME_FIELD}",
        "application__name",
        "application__client_id",
    )
    fields = (
        "user",
        "application",
        "client_id",
        "client_host",
        "resource",
        "scopes_in_words",
        "created",
        "updated",
    )
    actions = ("take_back",)

    @admin.display(description=_("client"), ordering="application__name")
    def client(self, row: Consent) -> str:
        return str(row.application.name or row.application.client_id)

    @admin.display(description=_("client id"))
    def client_id(self, row: Consent) -> str:
        return str(row.application.client_id)

    @admin.display(description=_("published at"))
    def client_host(self, row: Consent) -> str:
        return clients.host_of(row.application) or "-"

    @admin.display(description=_("scopes"))
    def scopes_in_words(self, row: Consent) -> str:
        return ", ".join(in_words(row.scopes))

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        """Remove Django's own action: it does the same under another name."""
        # Django has this parameter from 6.1 on.
        where = {} if action_location is None else {"action_location": action_location}
        actions = super().get_actions(request, **where)
        actions.pop("delete_selected", None)
        return actions

    def delete_model(self, request: HttpRequest, obj: Consent) -> None:
        obj.revoke()

    @admin.action(description=_("Take back selected consents"), permissions=["delete"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[Consent]) -> None:
        consents = [*queryset]
        for consent in consents:
            consent.revoke()
        count = len(consents)
        text = ngettext("%d consent was taken back.", "%d consents were taken back.", count)
        self.message_user(request, text % count, messages.SUCCESS)


class ScopesField(forms.MultipleChoiceField):
    """Scopes of the site as check boxes, stored as one string."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:
        options.pop("max_length", None)
        super().__init__(choices=self._choices, **options)

    @staticmethod
    def _choices() -> list[tuple[str, str]]:
        scopes = [each for each in get_scopes_backend().get_all_scopes() if each != OFFLINE_ACCESS]
        return [
            (scope, scope if words == scope else f"{words} ({scope})")
            for scope, words in zip(scopes, in_words(scopes), strict=True)
        ]

    def prepare_value(self, value: Any) -> Any:
        return value.split() if isinstance(value, str) else value

    def clean(self, value: Any) -> Any:
        return " ".join(super().clean(value))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class MachineClientForm(forms.ModelForm):  # type: ignore[type-arg] # Generic for mypy only.
    """A machine client, with the name of its application."""

    name = forms.CharField(label=_("Name"), max_length=255)
    scope = ScopesField(
        label=_("Scopes"),
        required=False,
        help_text=_("What the client may ask for as its user. It gets all where it names none."),
    )

    class Meta:
        model = MachineClient
        fields = ("user", "scope", "jwks", "jwks_uri", "is_active")
        help_texts: ClassVar = {
            "user": _(
                "The client acts as this user, with the permissions of this user. Make one for "
                "each client, without a password."
            ),
            "jwks": _(
                "A JSON Web Key Set. The client signs with one of these keys, and has no secret. "
                "To replace a key, add the new one, and remove the old one when it is not used "
                "any more."
            ),
            "jwks_uri": _("Where the client publishes its keys, instead of keys above."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A user who may not change it gets a form without fields.
        if self.instance.pk is not None and "name" in self.fields:
            self.fields["name"].initial = self.instance.application.name


class OnlySuperusersChange(ListedLookups):
    """An admin of rows that let somebody act as another user: only superusers may do that."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return is_superuser(request) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_superuser(request) and super().has_change_permission(request, obj)


def is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


@admin.register(MachineClient)
class MachineClientAdmin(OnlySuperusersChange):
    """Its application is created with it. The secret is shown once, and can be replaced."""

    form = MachineClientForm
    list_display = ("name", "client_id", "user", "authentication", "scope", "is_active", "created")
    list_display_links = ("name", "client_id")
    list_select_related = ("user", "application")
    list_filter = ("is_active",)
    search_fields = ("application__name", "application__client_id")
    raw_id_fields = ("user",)
    actions = ("replace_secret",)
    shown_once_template = "admin/django_mcp_oauth/machineclient/secret.html"

    def get_fields(self, request: HttpRequest, obj: MachineClient | None = None) -> Any:
        stated = () if obj is None else ("client_id", "authentication", "created")
        return ("name", "user", "scope", "jwks", "jwks_uri", "is_active", *stated)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        stated = ("client_id", "authentication", "created")
        # Without the form, its field is one of this class.
        return stated if self.has_change_permission(request, obj) else (*stated, "name")

    @admin.display(description=_("name"), ordering="application__name")
    def name(self, row: MachineClient) -> str:
        return row.name

    @admin.display(description=_("client id"), ordering="application__client_id")
    def client_id(self, row: MachineClient) -> str:
        return str(row.application.client_id)

    @admin.display(description=_("authentication"))
    def authentication(self, row: MachineClient) -> str:
        return "private_key_jwt" if row.has_keys else "client_secret_basic"

    @sensitive_variables("secret")
    def save_model(self, request: HttpRequest, obj: MachineClient, form: Any, change: bool) -> None:
        model = get_application_model()
        with transaction.atomic(using=router.db_for_write(MachineClient)):
            if change:
                obj.application.name = form.cleaned_data["name"]
                obj.application.save(update_fields=["name", "updated"])
                if {"user", "scope", "is_active", "jwks", "jwks_uri"} & {*form.changed_data}:
                    obj.revoke_tokens()
            else:
                secret = generate_client_secret()
                obj.application = model._default_manager.create(
                    name=form.cleaned_data["name"],
                    client_type=model.CLIENT_CONFIDENTIAL,
                    authorization_grant_type=model.GRANT_CLIENT_CREDENTIALS,
                    client_secret=secret,
                )
                setattr(request, SHOWN, "" if obj.has_keys else secret)
            super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: MachineClient, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self._shown(request, obj, getattr(request, SHOWN))

    @sensitive_variables("secret")
    def _shown(self, request: HttpRequest, obj: MachineClient, secret: str) -> HttpResponse:
        """Show the secret without a redirect, because a redirect would have to store it."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("The new machine client") if secret else obj.name,
            "opts": self.opts,
            "row": obj,
            "secret": secret,
        }
        response = TemplateResponse(request, self.shown_once_template, context)
        add_never_cache_headers(response)
        return response

    @admin.action(description=_("Replace the secret"), permissions=["change"])
    @sensitive_variables("secret")
    def replace_secret(
        self, request: HttpRequest, queryset: QuerySet[MachineClient]
    ) -> HttpResponse | None:
        """Give one client a new secret. The old one is accepted for a while."""
        rows = [*queryset.select_related("application")[:2]]
        if len(rows) != 1 or rows[0].has_keys:
            text = _("Select one client that authenticates by a secret.")
            self.message_user(request, text, messages.ERROR)
            return None
        secret = generate_client_secret()
        rows[0].rotate_secret(secret)
        self.log_change(request, rows[0], "The secret was replaced.")
        return self._shown(request, rows[0], secret)

    def delete_model(self, request: HttpRequest, obj: MachineClient) -> None:
        """Delete its application, and with it the client and its tokens."""
        obj.application.delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[MachineClient]) -> None:
        for row in queryset.select_related("application"):
            row.application.delete()


SHOWN = "_django_mcp_new_secret"
"""The attribute of the request that has the secret after it was saved, until it is shown."""


class TrustedIssuerForm(forms.ModelForm):  # type: ignore[type-arg] # Generic for mypy only.
    """An issuer, with the scopes that its assertions may grant."""

    scope = ScopesField(
        label=_("Scopes"), help_text=_("What its assertions may grant, and nothing else.")
    )

    class Meta:
        model = TrustedIssuer
        fields = (
            "name",
            "issuer",
            "jwks_uri",
            "algorithms",
            "tenant_claim",
            "tenants",
            "scope",
            "link_by_email",
            "create_users",
            "email_domains",
            "is_active",
        )
        help_texts: ClassVar = {
            "name": _("What users read: the company or organization whose provider it is."),
            "issuer": _("Exactly as its assertions name it, such as https://login.example.com."),
            "jwks_uri": _("Empty: where the metadata of the issuer says."),
            "algorithms": _("Algorithms of its signatures, such as RS256. Empty: all of them."),
            "tenant_claim": _("Where it serves several companies: the claim that names one."),
            "tenants": _("The values of that claim that are accepted."),
            "link_by_email": _("Link a new subject to the only user who has its email address."),
            "create_users": _("Create a user for a new subject."),
            "email_domains": _("Addresses of these domains are used, and no others."),
        }


@admin.register(TrustedIssuer)
class TrustedIssuerAdmin(OnlySuperusersChange):
    """Turning an issuer off ends all tokens that its assertions gave."""

    form = TrustedIssuerForm
    list_display = ("name", "issuer", "scope", "link_by_email", "create_users", "is_active")
    list_filter = ("is_active",)
    search_fields = ("name", "issuer")

    def save_model(self, request: HttpRequest, obj: TrustedIssuer, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and {*form.changed_data} - {"name"}:
            obj.revoke_tokens()

    def delete_model(self, request: HttpRequest, obj: TrustedIssuer) -> None:
        obj.revoke_tokens()
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[TrustedIssuer]) -> None:
        for row in queryset:
            row.revoke_tokens()
        super().delete_queryset(request, queryset)


@admin.register(ExternalIdentity)
class ExternalIdentityAdmin(ReadOnlyAdmin):
    """Deleting an identity unlinks it: its next assertion counts as that of a new subject."""

    list_display = ("subject", "trusted_issuer_name", "tenant", "user", "created")
    list_select_related = ("user", "trusted_issuer")
    search_fields = (f"user__{get_user_model().USERNAME_FIELD}", "subject")
    fields = ("subject", "trusted_issuer_name", "tenant", "user", "created")

    @admin.display(description=_("trusted issuer"), ordering="trusted_issuer__name")
    def trusted_issuer_name(self, row: ExternalIdentity) -> str:
        return str(row.trusted_issuer.name)


@admin.register(ManagedAccess)
class ManagedAccessAdmin(ReadOnlyAdmin):
    """Access that companies give to clients for users. An administrator ends or restores it."""

    list_display = ("user", "client", "company", "resource", "scope", "updated", "ended_at")
    list_display_links = ("client",)
    list_select_related = ("user", "application", "trusted_issuer")
    list_filter = ("updated", "ended_at", "resource")
    search_fields = (
        f"user__{get_user_model().USERNAME_FIELD}",
        "application__name",
        "application__client_id",
    )
    fields = ("user", "client", "company", "resource", "scope", "created", "updated", "ended_at")
    actions = ("end", "allow_again")

    @admin.display(description=_("client"), ordering="application__name")
    def client(self, row: ManagedAccess) -> str:
        return str(row.application.name or row.application.client_id)

    @admin.display(description=_("company"), ordering="trusted_issuer__name")
    def company(self, row: ManagedAccess) -> str:
        return str(row.trusted_issuer.name)

    def delete_model(self, request: HttpRequest, obj: ManagedAccess) -> None:
        """End its tokens as well. The next assertion creates it again; ``end`` prevents that."""
        obj.end()
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ManagedAccess]) -> None:
        for row in queryset.select_related("user", "application"):
            row.end()
        super().delete_queryset(request, queryset)

    def has_end_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("django_mcp_oauth.change_managedaccess"))

    @admin.action(description=_("End selected accesses"), permissions=["end"])
    def end(self, request: HttpRequest, queryset: QuerySet[ManagedAccess]) -> None:
        rows = [*queryset.select_related("user", "application")]
        for row in rows:
            row.end()
        text = ngettext("%d access was ended.", "%d accesses were ended.", len(rows))
        self.message_user(request, text % len(rows), messages.SUCCESS)

    @admin.action(description=_("Allow selected accesses again"), permissions=["end"])
    def allow_again(self, request: HttpRequest, queryset: QuerySet[ManagedAccess]) -> None:
        count = queryset.update(ended_at=None)
        text = ngettext("%d access is allowed again.", "%d accesses are allowed again.", count)
        self.message_user(request, text % count, messages.SUCCESS)
