"""Consents of users, registrations of clients, and redeemed codes and tokens.

And what administrators allowed: clients that are machines, and issuers that name users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, router, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.resource import canonical
from django_mcp.contrib import require_app
from django_mcp.stores import retries

if TYPE_CHECKING:
    from django_mcp.auth.issuers.verification import Key

require_app(__name__)


def current(model: Any) -> models.QuerySet[Any]:
    """Return the rows in the database for writing: a replica may not have a revocation yet.

    Rows of the toolkit that were just written are read back as well, in the same transaction.
    """
    rows: models.QuerySet[Any] = model._default_manager.using(router.db_for_write(model))
    return rows


SECRET_OVERLAP = timedelta(days=7)
"""The secret of a machine client is accepted for so long after it was replaced."""


class ConsentManager(models.Manager["Consent"]):
    def get_queryset(self) -> models.QuerySet[Consent]:
        return super().get_queryset().using(self._db or router.db_for_write(self.model))

    def add(self, user: Any, application: Any, resource: str, scopes: Iterable[str]) -> None:
        """Add scopes to the consent of a user for a client.

        Several pages of one user may do it at once. The row is inserted before it is locked: on
        MariaDB, the lock of a missing row locks a gap, and nobody can insert there.
        """
        key = {"user": user, "application": application, "resource": resource}
        given = {*scopes}

        def add() -> None:
            if not self.filter(**key).exists():
                self.bulk_create([self.model(**key)], ignore_conflicts=True)
            with transaction.atomic(using=router.db_for_write(self.model)):
                consent = self.select_for_update().get(**key)
                consent.scope = " ".join(sorted({*consent.scopes, *given}))
                consent.save()

        retries.retried(add, using=router.db_for_write(self.model))

    def covers(self, user: Any, application: Any, resource: str, scopes: Iterable[str]) -> bool:
        """Whether the user allowed all of ``scopes`` to this client before."""
        consent = self.filter(user=user, application=application, resource=resource).first()
        return consent is not None and {*scopes} <= {*consent.scopes}


class Consent(models.Model):
    """The scopes that a user allowed to one client, on one server."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_consents"
    )
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="mcp_consents"
    )
    resource = models.CharField(max_length=255, blank=True)
    scope = models.TextField(blank=True)
    created = models.DateTimeField(auto_now_add=True)
    updated = models.DateTimeField(auto_now=True)

    objects = ConsentManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "application", "resource"], name="django_mcp_oauth_unique_consent"
            )
        ]

    def __str__(self) -> str:
        return f"Consent #{self.pk}"

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()

    def revoke(self) -> None:
        """Revoke it, with the codes and tokens of the client for this server."""
        with transaction.atomic(using=router.db_for_write(get_access_token_model())):
            revoke_tokens(self.resource, user=self.user_id, application=self.application_id)
            self.delete()


def revoke_tokens(resource: str | None = None, **of: Any) -> None:
    """End the codes and tokens of a user or a client, for one server or for all of them.

    ``of`` selects the rows, by the keys of ``user`` and ``application``. They are deleted one by
    one, since the caches of all workers have to forget each of them.
    """
    access = get_access_token_model()
    refresh = get_refresh_token_model()

    def those(rows: Any) -> list[Any]:
        in_common = _locked(rows.filter(**of))
        if resource is None:
            return [*in_common]
        # Tokens have the resource as their client has written it.
        name = canonical(resource)
        return [row for row in in_common if [*map(canonical, row.resource or [""])] == [name]]

    with transaction.atomic(using=router.db_for_write(access)):
        # First the codes: it waits here for one that is just redeemed, and then sees its tokens.
        for row in those(current(get_grant_model())):
            row.delete()
        lately = Q(revoked=None) | Q(revoked__gt=timezone.now() - LONGEST_REQUEST)
        for token in those(current(refresh).filter(lately)):
            token.revoke()
        for row in those(current(access)):
            row.delete()


LONGEST_REQUEST = timedelta(minutes=10)
"""No request takes longer to redeem a refresh token."""


def _locked(rows: Any) -> Any:
    """Lock rows of codes or tokens, and those that a request adds which is redeeming one of them.

    An update that changes nothing waits for such requests. What they have added is seen by the next
    one, so that the rows are complete when their number stays the same. On SQLite, the first one
    locks the database: see ``redemptions.lock``.
    """
    before = -1
    while (number := rows.update(user=F("user"))) != before:
        before = number
    return rows.select_for_update()


def end_with_password(user: Any) -> None:
    """Revoke the consents of a user whose password has changed; the app connects it.

    The tokens that programs got from the user's company end as well. Programs get new ones as long
    as the company vouches for the user.
    """
    for consent in Consent.objects.filter(user=user):
        consent.revoke()
    for access in current(ManagedAccess).filter(user=user):
        revoke_tokens(access.resource, user=access.user_id, application=access.application_id)


class Registration(models.Model):
    """Metadata of a client that the toolkit does not store, and its network (RFC 7591)."""

    application = models.OneToOneField(
        oauth2_settings.APPLICATION_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_registration",
    )
    network = models.CharField(max_length=64, db_index=True)
    metadata = models.JSONField()

    def __str__(self) -> str:
        return f"Registration #{self.pk}"


class Redemption(models.Model):
    """The tokens for a redeemed code or refresh token; ``redemptions`` has the states."""

    digest = models.CharField(max_length=64, unique=True)
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="mcp_redemptions"
    )
    token_family = models.UUIDField(db_index=True)
    response = models.TextField(blank=True)
    """The tokens, which nobody can decrypt without the refresh token; empty for a code."""
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"Redemption #{self.pk}"


class MachineClient(models.Model):
    """A client that authenticates by itself: an administrator registered it.

    With a ``user``, it gets tokens by client credentials, and acts as this user (RFC 6749, section
    4.4). Without one, it only presents assertions of trusted issuers.
    """

    application = models.OneToOneField(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="mcp_machine"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="mcp_machines",
    )
    scope = models.TextField(_("scopes"), blank=True)
    jwks = models.JSONField(
        _("public keys"),
        null=True,
        blank=True,
    )
    jwks_uri = models.CharField(
        _("URL of public keys"),
        max_length=255,
        blank=True,
    )
    previous_secret = models.CharField(max_length=255, blank=True, editable=False)
    """The hash of the secret before the present one, valid until ``previous_secret_until``."""
    previous_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    is_active = models.BooleanField(_("active"), default=True)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("machine client")
        verbose_name_plural = _("machine clients")

    def __str__(self) -> str:
        return f"Machine client #{self.pk}"

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()

    @property
    def has_keys(self) -> bool:
        """Whether it authenticates by keys, so that its secret is not accepted."""
        return bool(self.jwks or self.jwks_uri)

    @property
    def name(self) -> str:
        return str(self.application.name or self.application.client_id)

    def own_keys(self) -> Sequence[Key]:
        """Return the keys that are stored here; raises Unavailable for none that are usable."""
        # Here and below: imported for a client or an issuer that has keys.
        from django_mcp.auth.issuers.verification import read_keys

        return read_keys(self.jwks or {}, f"client {self.application.client_id}")

    def clean(self) -> None:
        from django_mcp.outbound import is_secure

        if self.jwks and self.jwks_uri:
            raise ValidationError(_("Use keys or a URL of keys, not both."))
        if self.jwks_uri and not is_secure(self.jwks_uri):
            raise ValidationError({"jwks_uri": _("Use a URL that begins with https://.")})
        if self.jwks:
            raise_for_keys(self.jwks)

    def rotate_secret(self, secret: str, overlap: timedelta = SECRET_OVERLAP) -> None:
        """Replace the secret. The one before is accepted for a while, until all use the new one."""
        self.previous_secret = self.application.client_secret
        self.previous_secret_until = timezone.now() + overlap
        self.application.client_secret = secret  # The model of the toolkit hashes it.
        with transaction.atomic(using=router.db_for_write(type(self))):
            self.application.save(update_fields=["client_secret", "updated"])
            self.save(update_fields=["previous_secret", "previous_secret_until"])

    def is_previous_secret(self, secret: str) -> bool:
        until = self.previous_secret_until
        if not self.previous_secret or until is None or until <= timezone.now():
            return False
        return check_password(secret, self.previous_secret)

    def revoke_tokens(self) -> None:
        """End its tokens, for example when its user changes."""
        revoke_tokens(application=self.application_id)


def raise_for_keys(jwks: Any) -> None:
    """Raise ValidationError unless ``jwks`` are public keys that can be told apart."""
    from django_mcp.auth.issuers.fetching import Unavailable
    from django_mcp.auth.issuers.verification import KEY_TYPES, read_keys

    listed = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise ValidationError({"jwks": _('Enter a JSON Web Key Set: {"keys": [...]}.')})
    if any("d" in each or "k" in each for each in listed):
        raise ValidationError({"jwks": _("Enter public keys only: this has a secret one.")})
    names = [each.get("kid") for each in listed]
    if len(listed) > 1 and (None in names or len({*map(str, names)}) < len(names)):
        raise ValidationError({"jwks": _("Each of several keys needs a kid of its own.")})
    try:
        usable = read_keys(jwks, "client")
    except Unavailable:
        usable = []
    if not listed or len(usable) < len(listed):
        message = _("A key is not usable. Usable are keys for %(algorithms)s.")
        raise ValidationError({"jwks": message % {"algorithms": ", ".join(KEY_TYPES)}})


class TrustedIssuer(models.Model):
    """An identity provider whose assertions name users of the site (ID-JAG).

    Whoever has its keys can act as any user that is linked to it: trust as few as possible.
    """

    name = models.CharField(
        _("name"),
        max_length=100,
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=255,
        unique=True,
    )
    jwks_uri = models.CharField(
        _("URL of public keys"),
        max_length=255,
        blank=True,
    )
    algorithms = models.CharField(
        _("algorithms"),
        max_length=255,
        blank=True,
    )
    tenant_claim = models.CharField(
        _("claim of the tenant"),
        max_length=100,
        blank=True,
    )
    tenants = models.TextField(_("tenants"), blank=True)
    scope = models.TextField(_("scopes"), blank=True)
    link_by_email = models.BooleanField(
        _("link users by email"),
        default=False,
    )
    create_users = models.BooleanField(_("create users"), default=False)
    email_domains = models.TextField(
        _("domains of email"),
        blank=True,
    )
    is_active = models.BooleanField(_("active"), default=True)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("trusted issuer")
        verbose_name_plural = _("trusted issuers")

    def __str__(self) -> str:
        return f"Trusted issuer #{self.pk}"

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()

    @property
    def accepted_algorithms(self) -> Sequence[str]:
        from django_mcp.auth.issuers.verification import KEY_TYPES

        return self.algorithms.split() or tuple(KEY_TYPES)

    def load_keys(self) -> Sequence[Key]:
        """Return its keys; it blocks. Raises Unavailable."""
        from django_mcp.auth.issuers.verification import load_keys

        return load_keys(self.issuer, self.jwks_uri or None)

    def clean(self) -> None:
        from django_mcp.auth.issuers.verification import KEY_TYPES
        from django_mcp.outbound import is_secure

        for name in ("issuer", "jwks_uri"):
            url = getattr(self, name)
            if url and not is_secure(url):
                raise ValidationError({name: _("Use a URL that begins with https://.")})
        if {*self.algorithms.split()} - {*KEY_TYPES}:
            names = ", ".join(KEY_TYPES)
            raise ValidationError({"algorithms": _("Use some of %s.") % names})
        if bool(self.tenant_claim) != bool(self.tenants.split()):
            raise ValidationError({"tenants": _("Name a claim and the values to accept.")})
        if self.link_by_email and not self.email_domains.split():
            message = _("Name the domains whose addresses this issuer may vouch for.")
            raise ValidationError({"email_domains": message})

    def vouched_email(self, claims: Mapping[str, Any]) -> str:
        """Return the address that the issuer may vouch for, or ""."""
        email = claims.get("email")
        if not isinstance(email, str) or claims.get("email_verified", True) is not True:
            return ""
        local, _at, domain = email.rpartition("@")
        is_own = domain.lower() in {each.lower() for each in self.email_domains.split()}
        return email if local and is_own and email.isprintable() and " " not in email else ""

    def revoke_tokens(self) -> None:
        """End all tokens that its assertions gave."""
        for access in current(ManagedAccess).filter(trusted_issuer=self):
            revoke_tokens(access.resource, user=access.user_id, application=access.application_id)


class ExternalIdentity(models.Model):
    """The user for a subject of an issuer. Issuer, tenant and subject identify it."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    """The digest of the three, because some databases compare text without case."""
    trusted_issuer = models.ForeignKey(
        TrustedIssuer,
        verbose_name=_("trusted issuer"),
        on_delete=models.CASCADE,
        related_name="identities",
    )
    tenant = models.CharField(_("tenant"), max_length=255, blank=True)
    subject = models.CharField(_("subject"), max_length=255)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.CASCADE,
        related_name="mcp_identities",
    )
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("external identity")
        verbose_name_plural = _("external identities")

    def __str__(self) -> str:
        return f"External identity #{self.pk}"


class ManagedAccess(models.Model):
    """Access that a company gives a client for a user, on one server. An administrator ends it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.CASCADE,
        related_name="mcp_managed_accesses",
    )
    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL,
        verbose_name=_("client"),
        on_delete=models.CASCADE,
        related_name="mcp_managed_accesses",
    )
    trusted_issuer = models.ForeignKey(
        TrustedIssuer,
        verbose_name=_("trusted issuer"),
        on_delete=models.CASCADE,
        related_name="accesses",
    )
    resource = models.CharField(_("server"), max_length=255)
    scope = models.TextField(_("scopes"), blank=True)
    created = models.DateTimeField(_("created"), auto_now_add=True)
    updated = models.DateTimeField(_("last assertion"), auto_now=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("access by a company")
        verbose_name_plural = _("accesses by a company")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "application", "resource"], name="django_mcp_oauth_unique_access"
            )
        ]

    def __str__(self) -> str:
        return f"Managed access #{self.pk}"

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()

    def end(self) -> None:
        """End it and its tokens. Further assertions are refused until it is allowed again."""
        with transaction.atomic(using=router.db_for_write(type(self))):
            self.ended_at = timezone.now()
            self.save(update_fields=["ended_at"])
            revoke_tokens(self.resource, user=self.user_id, application=self.application_id)


class UsedAssertion(models.Model):
    """An assertion that was used, until it expires: each is valid once, on all workers."""

    digest = models.CharField(max_length=64, unique=True)
    expires = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"Used assertion #{self.pk}"

    @classmethod
    def use(cls, *identity: str, expires: datetime) -> bool:
        """Remember an assertion; return False if it was used before."""
        alias = router.db_for_write(cls)
        try:
            with transaction.atomic(using=alias):
                current(cls).create(digest=identity_digest(*identity), expires=expires)
        except IntegrityError:
            return False
        return True


def identity_digest(*parts: str) -> str:
    """Return a digest of some strings, which no other strings have."""
    return sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()
