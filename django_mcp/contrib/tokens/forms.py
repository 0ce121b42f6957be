"""The forms for new tokens: of users for themselves, and of the admin."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp import conf, registry
from django_mcp.contrib.tokens.checks import accepts_tokens
from django_mcp.contrib.tokens.models import MAX_NAME_LENGTH
from django_mcp.runtime.pages import in_words

LIFETIMES = ((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (365, _("1 year")))
"""The lifetimes which users may choose from, in days."""
DEFAULT_LIFETIME = 90

SCOPES_HELP = _(
    "What programs may do with the token, within what its owner may do. A component that demands "
    "a scope cannot be used without it."
)
SERVERS_HELP = _("None: all servers of this site.")
READ_ONLY_HELP = _("Programs can use only tools that change nothing.")
GROUPS_HELP = _("None: the tools of all groups, and those without a group.")


def known_scopes() -> list[str]:
    """Return the scopes that components, servers or the scope hierarchy of the site name."""
    scopes: set[str] = set()
    for server in registry.servers():
        registry.make_ready(server)
        scopes |= server.scopes
    for entry in registry.entries():
        scopes |= entry.component.scopes
    for scope, included in conf.get().scope_hierarchy.items():
        scopes |= {scope, *included}
    return sorted(scopes)


def needed_scopes() -> list[str]:
    """Return the scopes that every token of a server of the site needs."""
    return sorted({scope for name in known_servers() for scope in registry.get(name).scopes})


def known_servers() -> list[str]:
    """Return the names of the servers that accept personal access tokens."""
    return sorted(server.name for server in registry.servers() if accepts_tokens(server))


def known_groups() -> list[str]:
    """Return the groups of components that servers of the site have."""
    servers = registry.servers()
    return sorted({group for server in servers for group in server.components.groups()})


class Names(forms.MultipleChoiceField):
    """Some names, as check boxes; saved as a list in alphabetical order."""

    widget = forms.CheckboxSelectMultiple

    def offer(self, names: Iterable[str]) -> None:
        self.choices = [(name, name) for name in sorted(set(names))]

    def offer_scopes(self, scopes: Iterable[str]) -> None:
        """Offer scopes with their descriptions, and with their names where the site has none."""
        offered = sorted(set(scopes))
        self.choices = [
            (scope, scope if words == scope else f"{words} ({scope})")
            for scope, words in zip(offered, in_words(offered), strict=True)
        ]

    def clean(self, value: Any) -> list[str]:
        return sorted(set(super().clean(value)))


class TokenForm(forms.Form):
    """A new token for the user who sends the form."""

    name = forms.CharField(
        label=_("Name"), max_length=MAX_NAME_LENGTH, help_text=_("What the token is for.")
    )
    lifetime = forms.TypedChoiceField(
        label=_("Expires after"), choices=LIFETIMES, initial=DEFAULT_LIFETIME, coerce=int
    )
    scopes = Names(label=_("Scopes"), required=False, help_text=SCOPES_HELP)
    servers = Names(label=_("Servers"), required=False, help_text=SERVERS_HELP)
    groups = Names(label=_("Groups"), required=False, help_text=GROUPS_HELP)
    read_only = forms.BooleanField(
        label=_("Read only"),
        label_suffix="",
        required=False,
        help_text=READ_ONLY_HELP,
    )

    def __init__(self, *args: Any, scopes: Iterable[str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names(self, "scopes").offer_scopes(known_scopes() if scopes is None else scopes)
        names(self, "servers").offer(known_servers())
        names(self, "groups").offer(known_groups())
        self.fields["scopes"].initial = needed_scopes()
        for name in ("scopes", "servers", "groups"):
            if not names(self, name).choices:
                del self.fields[name]

    @property
    def expires_at(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["lifetime"])


class TokenAdminForm(forms.ModelForm):  # type: ignore[type-arg] # Generic for mypy only.
    """A new token in the admin, or a change of an existing one."""

    scopes = Names(label=_("Scopes"), required=False, help_text=SCOPES_HELP)
    servers = Names(label=_("Servers"), required=False, help_text=SERVERS_HELP)
    groups = Names(label=_("Groups"), required=False, help_text=GROUPS_HELP)
    read_only = forms.BooleanField(label=_("Read only"), required=False, help_text=READ_ONLY_HELP)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A name which the site does not know any more stays on the token.
        if "scopes" in self.fields:
            names(self, "scopes").offer_scopes({*known_scopes(), *self.instance.scopes})
            names(self, "servers").offer({*known_servers(), *self.instance.servers})
            names(self, "groups").offer({*known_groups(), *self.instance.groups})

    def clean_expires_at(self) -> datetime | None:
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if "expires_at" in self.changed_data and expires_at and expires_at <= timezone.now():
            raise forms.ValidationError(_("This is in the past."), code="past")
        return expires_at


def names(form: forms.BaseForm, name: str) -> Names:
    field = form.fields[name]
    assert isinstance(field, Names)
    return field
