"""Signing strings which travel through the client, with the site's SECRET_KEY."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from django.core.cache import cache
from django.core.signing import BadSignature, TimestampSigner


class DjangoSigner:
    """A Signer with Django's signing: keys come from SECRET_KEY and SECRET_KEY_FALLBACKS."""

    def sign(self, purpose: str, text: str, /) -> str:
        return _signer(purpose).sign(text)

    def unsign(self, purpose: str, signed: str, /, max_age: float | None = None) -> str | None:
        """Return the signed text, or None when it is forged, for another purpose, or too old."""
        age = None if max_age is None else timedelta(seconds=max_age)
        try:
            return _signer(purpose).unsign(signed, max_age=age)
        except BadSignature:
            return None


def claim_single_use(signed: str, lifetime: float) -> bool:
    """Return whether this is the first use of a signed text with this lifetime in seconds.

    Uses are stored in Django's default cache, which all workers must share.
    """
    used = sha256(signed.encode()).hexdigest()
    return bool(cache.add(f"django_mcp.used.{used}", True, timeout=lifetime))


def _signer(purpose: str) -> TimestampSigner:
    return TimestampSigner(salt=f"django_mcp.{purpose}")
