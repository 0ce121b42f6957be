"""The table of personal access tokens, which has their digests and never the tokens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, router
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.token import PREFIX, digest_of, new_token
from django_mcp.contrib import require_app
from django_mcp.core.components.base import listed, scope_names
from django_mcp.pubsub import revocations
from django_mcp.runtime import background
from django_mcp.runtime.pages import in_words

require_app(__name__)

START_LENGTH = len(PREFIX) + 4
USE_INTERVAL = timedelta(minutes=1)
"""How often the time of the last use is written, at most."""
MAX_NAME_LENGTH = 100


class TokenQuerySet(models.QuerySet["PersonalAccessToken"]):
    @sensitive_variables("token")
    def issue(
        self,
        owner: Any,
        name: str,
        *,
        scopes: Iterable[str] = (),
        servers: Iterable[str] = (),
        groups: Iterable[str] = (),
        read_only: bool = False,
        expires_at: datetime | None = None,
        made_by_owner: bool = False,
    ) -> tuple[PersonalAccessToken, str]:
        """Create a token for ``owner``; return its row and the token, to be shown once.

        Without ``servers``, it is for every server. ``groups`` and ``read_only`` limit its
        components. With ``made_by_owner``, it ends with the password of its owner
        (TOKENS_END_WITH_PASSWORD).
        """
        row = self.model(
            owner=owner,
            name=name,
            scopes=sorted(scope_names("the token", scopes)),
            servers=sorted({*listed("servers of the token", servers)}),
            groups=sorted({*listed("groups of the token", groups)}),
            read_only=read_only,
            expires_at=expires_at,
            made_by_owner=made_by_owner,
        )
        token = row.set_new_token()
        row.save(force_insert=True, using=self._for_writing().db)
        return row, token

    def _for_writing(self) -> TokenQuerySet:
        """The same rows in the database for writing, unless they are of another one by name."""
        is_replica = self.db == router.db_for_read(self.model)
        return self.using(router.db_for_write(self.model)) if is_replica else self

    def unrevoked(self) -> TokenQuerySet:
        """The tokens which are neither revoked nor expired."""
        now = timezone.now()
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)

    def revoke(self) -> int:
        """Revoke these tokens on all workers, and return how many were not revoked before."""
        rows = self._for_writing().filter(revoked_at=None)
        digests = list(rows.values_list("digest", flat=True))
        count = rows.update(revoked_at=timezone.now())
        for digest in digests:
            # After the commit in the database that has the change: a replica has none of it yet.
            revocations.publish(digest=digest, using=rows.db)
        return count

    revoke.alters_data = True  # type: ignore[attr-defined]

    async def find_valid(self, digest: str, server: str) -> PersonalAccessToken | None:
        """Return the token with its owner if it is valid for the server of this name.

        A replica may not have a revocation yet: the database for writing is asked.
        """
        rows = self.using(router.db_for_write(self.model)).select_related("owner")
        token = await rows.filter(digest=digest).afirst()
        if token is None or not token.is_valid_for(server):
            return None
        token.note_use()
        return token


class PersonalAccessToken(models.Model):
    """A token of a program that acts as its owner; ``issue`` of the manager creates one.

    For a program that acts for nobody, the owner is a user of its own, without a password.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="mcp_access_tokens",
        verbose_name=_("owner"),
    )
    name = models.CharField(
        _("name"), max_length=MAX_NAME_LENGTH, help_text=_("What the token is for.")
    )
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    start = models.CharField(_("token"), max_length=START_LENGTH, editable=False)
    scopes = models.JSONField(_("scopes"), default=list, blank=True)
    # The names of servers; empty: all of the site.
    servers = models.JSONField(_("servers"), default=list, blank=True)
    # The groups of components; empty: all components, with a group or without.
    groups = models.JSONField(_("groups"), default=list, blank=True)
    read_only = models.BooleanField(
        _("read only"), default=False, help_text=_("Only what changes nothing.")
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    # A person made it for themselves: it ends with their password.
    made_by_owner = models.BooleanField(default=False, editable=False)

    objects = TokenQuerySet.as_manager()

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ("-created_at", "-pk")

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"

    @sensitive_variables("token")
    def set_new_token(self) -> str:
        """Give an unsaved row its token, and return it."""
        token = new_token()
        self.digest = digest_of(token)
        self.start = token[:START_LENGTH]
        return token

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def status(self) -> str:
        """ "valid", "expired" or "revoked", translated."""
        if self.revoked_at is not None:
            return str(_("revoked"))
        return str(_("expired") if self.is_expired else _("valid"))

    @property
    def scopes_in_words(self) -> list[str]:
        return in_words(self.scopes)

    def is_valid_for(self, server: str) -> bool:
        """Whether the server of this name accepts the token now."""
        is_named = not self.servers or server in self.servers
        is_valid = self.revoked_at is None and not self.is_expired and self.owner.is_active
        return bool(is_named and is_valid)

    def revoke(self) -> None:
        """Revoke the token on all workers."""
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    revoke.alters_data = True  # type: ignore[attr-defined]

    def note_use(self) -> None:
        """Write the time of the last use in the background, unless one was written recently."""
        earliest = timezone.now() - USE_INTERVAL
        if self.last_used_at is None or self.last_used_at <= earliest:
            background.spawn(self._write_use())

    async def _write_use(self) -> None:
        now = timezone.now()
        # Another worker may have written it since.
        is_due = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_INTERVAL)
        rows = type(self).objects.using(self._state.db).filter(is_due, pk=self.pk)
        await rows.aupdate(last_used_at=now)


def on_change(*, instance: PersonalAccessToken, using: str, **_: Any) -> None:
    """Let all workers forget a token which was saved or deleted; the app connects it."""
    revocations.publish(digest=revocations.loaded_digest(instance, "digest"), using=using)


def end_with_password(user: Any) -> None:
    """Revoke the tokens that a user made for themselves; the app connects it."""
    PersonalAccessToken.objects.filter(owner=user, made_by_owner=True).revoke()
