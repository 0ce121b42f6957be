"""Signing: strings that travel through the client, stored components, and states of single use.

Values of rows are encrypted with the same keys.

All keys are derived from SECRET_KEY and SECRET_KEY_FALLBACKS.
"""

from __future__ import annotations

import json
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.cache import cache
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.encoding import force_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE = 12
"""Bytes of the random number before each ciphertext, as AES-GCM needs it."""
TIME = struct.Struct(">Q")
"""How the time of signing, in milliseconds, is stored before the text."""


class DjangoSigner:
    """A Signer with AES-256-GCM: HKDF derives a key for each value that a string is bound to.

    A string that is bound to something else therefore cannot be decrypted. Since hardly any two
    strings have the same key, random nonces cannot collide.
    """

    def sign(self, bound_to: str, text: str, /) -> str:
        nonce = token_bytes(NONCE)
        now = TIME.pack(int(time.time() * 1000))
        cipher = _cipher(_secrets()[0], _digest(bound_to))
        encrypted = cipher.encrypt(nonce, now + text.encode(), None)
        return _encode(nonce + encrypted)

    def unsign(self, bound_to: str, signed: str, /, max_age: float | None = None) -> str | None:
        """Return the signed text, or None when it is forged, bound otherwise, or too old."""
        try:
            data = urlsafe_b64decode(signed + "=" * (-len(signed) % 4))
        except ValueError:
            return None
        # Base64 has several spellings of the same bytes: a state of single use has one only.
        if _encode(data) != signed or len(data) <= NONCE:
            return None
        digest = _digest(bound_to)
        for secret in _secrets():
            text = _decrypted(_cipher(secret, digest), data)
            if text is None:
                continue
            age = time.time() - TIME.unpack_from(text)[0] / 1000
            return None if max_age is not None and age > max_age else text[TIME.size :].decode()
        return None


# cryptography is imported at the first use: it takes 9 MB, and most processes sign nothing.


def _digest(bound_to: str) -> bytes:
    """What the cache of ciphers keeps of a text: that may have the arguments of a large call."""
    return sha256(bound_to.encode()).digest()


@lru_cache(maxsize=256)
def _cipher(secret: bytes, digest: bytes) -> AESGCM:
    """Return the cipher of a key: its derivation takes longer than the encryption."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"django_mcp" + digest
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=info).derive(secret))


def _decrypted(cipher: AESGCM, data: bytes) -> bytes | None:
    """Return the time and the text, or None where the key is another one."""
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(data[:NONCE], data[NONCE:], None)
    except InvalidTag:
        return None


def _secrets() -> list[bytes]:
    return [force_bytes(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def encrypt(table: str, row: str, column: str, value: Any) -> str:
    """Return a JSON value encrypted for one column of one row."""
    return DjangoSigner().sign(_place(table, row, column), json.dumps(value))


def decrypt(table: str, row: str, column: str, stored: str) -> Any:
    """Return the value that ``encrypt`` was given; raises ValueError for anything else.

    A value of another row or column is rejected. So is one with a key that was removed from
    SECRET_KEY and SECRET_KEY_FALLBACKS.
    """
    text = DjangoSigner().unsign(_place(table, row, column), stored)
    if text is None:
        raise ValueError(f"The {column} of a row in {table} cannot be decrypted")
    return json.loads(text)


def _place(table: str, row: str, column: str) -> str:
    return json.dumps(["row", table, row, column])


def signature(purpose: str, text: str) -> str:
    """Return the signature of a text that this site stores."""
    return next(_signatures(purpose, text))


def is_signature(purpose: str, text: str, signature: object) -> bool:
    """Whether ``signature`` belongs to the text, with any key of the site."""
    return isinstance(signature, str) and any(
        constant_time_compare(signature, own) for own in _signatures(purpose, text)
    )


def _signatures(purpose: str, text: str) -> Iterator[str]:
    for secret in _secrets():
        yield salted_hmac(f"django_mcp.{purpose}", text, secret, algorithm="sha256").hexdigest()


class SingleUse:
    """Request states that are accepted once; all workers must share Django's default cache.

    A state is claimed while its call runs, so that two calls cannot use it at the same time. It
    is used up when the answer is kept; a call that failed or was cancelled releases it. After
    ``call_timeout`` seconds, the state of a worker that died is released as well.
    """

    def __init__(self, lifetime: float, call_timeout: float | None) -> None:
        self._lifetime = lifetime
        self._call_timeout = min(lifetime, call_timeout or lifetime)

    def claim(self, state: str) -> bool:
        """Return whether no other call has used the state, or is using it."""
        return bool(cache.add(_key(state), "running", timeout=self._call_timeout))

    def keep(self, state: str) -> None:
        """Mark the state as used, for as long as it could be valid."""
        cache.set(_key(state), "used", timeout=self._lifetime)

    def release(self, state: str) -> None:
        cache.delete(_key(state))


def _key(state: str) -> str:
    return f"django_mcp.used.{sha256(state.encode()).hexdigest()}"
