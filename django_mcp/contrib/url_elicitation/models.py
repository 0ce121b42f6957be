"""The table of answers: a row is added when a user answers a page, and never before.

Until then, the link itself has all that is known, encrypted. The primary key makes an answer
single-use: of two that are given at the same time, the database keeps one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from datetime import timezone as fixed_zone
from typing import Any, Literal

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, models, router, transaction
from django.utils import timezone, translation
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext_lazy as _

from django_mcp import conf
from django_mcp.contrib import require_app
from django_mcp.models import delete_in_steps
from django_mcp.runtime import signing

require_app(__name__)

Action = Literal["accept", "decline", "cancel"]
MAX_FILE_BYTES = 5_000_000
"""All files of an answer: encrypted, they take twice as much, and databases bound a statement at
16 MB."""


class PageAnswerManager(models.Manager["PageAnswer"]):
    def answer(
        self, key: str, user: Any, action: Action, content: Any, *, expires_at: datetime
    ) -> bool:
        """Store the answer to the elicitation ``key``; return False if there is one already.

        ``content`` is a JSON value.
        """
        row = self.model(id=key, user_key=str(user.pk), action=action, expires_at=expires_at)
        row.encrypted_content = row.encrypt(content)
        using = router.db_for_write(self.model)
        try:
            with transaction.atomic(using=using):
                row.save(force_insert=True, using=using)
        except IntegrityError:
            return False
        return True

    def of(self, key: str, user: Any) -> PageAnswer | None:
        """Return the answer of ``user``, from the database for writing: a replica may lag."""
        rows = self.using(router.db_for_write(self.model))
        return rows.filter(id=key, user_key=str(user.pk), expires_at__gt=timezone.now()).first()

    def keep(self, answer: PageAnswer, expires_at: datetime) -> None:
        """Keep the answer until then, and longer if it was kept longer."""
        rows = self.using(router.db_for_write(self.model))
        rows.filter(pk=answer.pk, expires_at__lt=expires_at).update(expires_at=expires_at)

    def prune(self) -> int:
        """Delete expired answers, and return their number."""
        return delete_in_steps(self.filter(expires_at__lte=timezone.now()))


class PageAnswer(models.Model):
    """The answer of a user on a page: the values are encrypted, and bound to the user."""

    id = models.CharField(primary_key=True, max_length=64)
    # The primary key as a string; no foreign key, because users may be in another database.
    user_key = models.CharField(_("user"), max_length=255)
    action = models.CharField(_("action"), max_length=10)
    encrypted_content = models.TextField(_("values"))
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    objects = PageAnswerManager()

    class Meta:
        verbose_name = _("answer of an elicitation page")
        verbose_name_plural = _("answers of elicitation pages")

    def __str__(self) -> str:
        return f"{self.action} at {self.created_at:%Y-%m-%d %H:%M}"

    def encrypt(self, content: Any) -> str:
        return signing.encrypt(self._meta.db_table, self._place, "content", content)

    @property
    def content(self) -> Any:
        """The JSON value that the page stored; raises ValueError if it cannot be decrypted."""
        return signing.decrypt(self._meta.db_table, self._place, "content", self.encrypted_content)

    @property
    def _place(self) -> str:
        return f"{self.pk} of {self.user_key}"


# The language and the time zone of an answer: 03/04 is in March or in April.


def current_formats() -> dict[str, Any]:
    """Return the current language and time zone, in which a form reads values, as JSON."""
    zone = timezone.get_current_timezone()
    # An offset has no name by which it is found again.
    offset = zone.utcoffset(None)
    time_zone = str(zone) if offset is None else offset.total_seconds()
    return {"language": translation.get_language(), "time_zone": time_zone}


@contextmanager
def restored_formats(formats: Mapping[str, Any]) -> Iterator[None]:
    """Activate what ``current_formats`` returned."""
    zone = formats["time_zone"]
    if not isinstance(zone, str):
        zone = fixed_zone(timedelta(seconds=zone))
    with translation.override(formats["language"]), timezone.override(zone):
        yield


# The files of an answer: they are stored in its row, encrypted, and deleted with it.


def max_file_bytes() -> int:
    """Return the limit of this site for all files of an answer."""
    return min(MAX_FILE_BYTES, conf.get().max_upload_size)


def stored_files(lists: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return uploaded files, which are listed by the names of their inputs, as JSON."""
    return {
        name: [
            {
                "name": file.name,
                "type": file.content_type,
                # From the beginning: the form may have read it.
                "content": b64encode(b"".join(file.chunks())).decode(),
            }
            for file in files
        ]
        for name, files in lists
    }


def restored_files(content: Mapping[str, Any]) -> MultiValueDict[str, Any]:
    """Return the uploaded files of what ``stored_files`` returned."""
    return MultiValueDict(
        {
            name: [
                SimpleUploadedFile(file["name"], b64decode(file["content"]), file["type"])
                for file in files
            ]
            for name, files in content.items()
        }
    )
