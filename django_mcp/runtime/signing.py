"""Signing what travels through the client with the site's SECRET_KEY, fallbacks included."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from django.core.cache import cache
from django.core.signing import BadSignature, TimestampSigner


class DjangoSigner:
    """A Sealer on Django's signing: keys come from SECRET_KEY and SECRET_KEY_FALLBACKS."""

    def sign(self, purpose: str, text: str, /) -> str:
        """``text`` with a time and a signature, salted with the purpose."""
        return _signer(purpose).sign(text)

    def unsign(self, purpose: str, sealed: str, /, max_age: float | None = None) -> str | None:
        """The signed text, or None when it is forged, for something else, or older than seconds."""
        age = None if max_age is None else timedelta(seconds=max_age)
        try:
            return _signer(purpose).unsign(sealed, max_age=age)
        except BadSignature:
            return None


def claim_single_use(sealed: str, lifetime: float) -> bool:
    """Whether this is the first use of a sealed text, which may be used for ``lifetime`` seconds.

    It is remembered in Django's default cache, which all workers have to share.
    """
    used = sha256(sealed.encode()).hexdigest()
    return bool(cache.add(f"django_mcp.used.{used}", True, timeout=lifetime))


def _signer(purpose: str) -> TimestampSigner:
    return TimestampSigner(salt=f"django_mcp.{purpose}")
