"""Signing strings that travel through the client (cursors, request state) with the SECRET_KEY."""

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
    """Return whether this is the first use; all workers must share Django's default cache."""
    used = sha256(signed.encode()).hexdigest()
    return bool(cache.add(f"django_mcp.used.{used}", True, timeout=lifetime))


def _signer(purpose: str) -> TimestampSigner:
    return TimestampSigner(salt=f"django_mcp.{purpose}")
