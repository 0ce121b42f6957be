"""Codes and refresh tokens that were redeemed: each once, also by two requests at once.

States of a code or refresh token, and the answers to a request with it:

| state | stored as | answer |
|---|---|---|
| new | a row of the toolkit, not revoked | tokens; then it is redeemed |
| code, redeemed | a Redemption | invalid_grant; then it has ended |
| refresh token, repeatable | a Redemption, and a revoked row | the same tokens |
| refresh token, redeemed | a revoked row | invalid_grant; then it has ended |
| ended | nothing valid of its family | invalid_grant |

A refresh token is repeatable for ``REPEAT_SECONDS``, unless its successor is redeemed before, or
the client revokes it. When a code or refresh token ends, all tokens of its family are revoked.

``TokenView`` opens a transaction and calls ``lock``. ``ResourceValidator`` reads the state, and
stores the next one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.db import router
from django.db.models import Exists, OuterRef
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_grant_model,
    get_refresh_token_model,
)

from django_mcp.contrib.oauth.models import Redemption, current
from django_mcp.runtime.signing import DjangoSigner

logger = logging.getLogger("django_mcp")

REPEAT_SECONDS = 60
"""A refresh may be repeated for so long. A client that has lost the answer tries again after
its time limit, mostly 30 or 60 seconds. A stolen token is noticed that much later."""
KEPT = timedelta(hours=1)
"""Redemptions that are younger are never pruned."""


def database() -> str:
    """Return the alias of the database of tokens."""
    alias: str = router.db_for_write(get_access_token_model())
    return alias


def digest_of(credential: str) -> str:
    """Return the digest of a code or token for look-ups. The toolkit's is the same."""
    return sha256(credential.encode()).hexdigest()


def lock(parameters: Mapping[str, str]) -> None:
    """Wait until no other transaction redeems the same code or refresh token.

    An update that changes nothing locks the row. On SQLite, which has no locks of rows, it has to
    be the first statement: a transaction that has read before cannot wait for another writer.
    """
    if parameters.get("grant_type") == "authorization_code":
        code = parameters.get("code", "")
        current(get_grant_model()).filter(code=code).update(code=code)
    elif parameters.get("grant_type") == "refresh_token":
        digest = digest_of(parameters.get("refresh_token", ""))
        rows = current(get_refresh_token_model()).filter(token_checksum=digest)
        rows.update(token_checksum=digest)


def keep(credential: str, tokens: Mapping[str, Any], *, is_repeatable: bool) -> None:
    """Store that a code or refresh token was exchanged for ``tokens``."""
    successor = _refresh_token(tokens)
    if successor is None or successor.token_family is None:
        return  # The site has turned refresh tokens off.
    family = current(Redemption).filter(token_family=successor.token_family)
    # Once its successor is redeemed in turn, a refresh token is not repeated any more.
    family.exclude(response="").delete()
    response = ""
    if is_repeatable:
        # It takes the credential to decrypt it: the database and SECRET_KEY do not suffice.
        response = DjangoSigner().sign(_bound_to(credential), json.dumps(tokens))
    current(Redemption).create(
        digest=digest_of(credential),
        application=successor.application,
        token_family=successor.token_family,
        response=response,
    )


def repeatable(refresh_token: str, application: Any) -> Redemption | None:
    """Return the tokens that a refresh token was just exchanged for, if they may be sent again."""
    since = timezone.now() - timedelta(seconds=REPEAT_SECONDS)
    rows = current(Redemption).filter(created__gt=since, application=application)
    repeated = rows.filter(digest=digest_of(refresh_token)).exclude(response="")
    redemption: Redemption | None = repeated.first()
    if redemption is None or successor_of(redemption, refresh_token) is None:
        return None
    return redemption


def tokens_of(redemption: Redemption, refresh_token: str) -> dict[str, Any]:
    """Return the tokens that a refresh token was exchanged for, and how long they are valid now."""
    text = DjangoSigner().unsign(_bound_to(refresh_token), redemption.response)
    if text is None:  # SECRET_KEY has changed.
        return {}
    tokens: dict[str, Any] = json.loads(text)
    age = timezone.now() - redemption.created
    return {**tokens, "expires_in": max(0, tokens["expires_in"] - int(age.total_seconds()))}


def successor_of(redemption: Redemption, refresh_token: str) -> Any:
    """Return the refresh token among these tokens, or None where it is not valid any more."""
    successor = _refresh_token(tokens_of(redemption, refresh_token))
    if successor is None or successor.revoked or successor.access_token is None:
        return None
    return successor


def revoke_what_came_of(code: str, application: Any) -> None:
    """Revoke all tokens that a code was exchanged for, and those that followed (RFC 6749, 4.1.2).

    One of the two clients that redeemed the code may have stolen it.
    """
    if end_family_of(code, application):
        logger.warning("A code was redeemed twice: the tokens of client #%s end", application.pk)


def end_family_of(credential: str, application: Any) -> bool:
    """End a code or refresh token that was redeemed; return whether there is such a one."""
    redeemed = current(Redemption).filter(digest=digest_of(credential), application=application)
    redemption = redeemed.first()
    if redemption is None:
        return False
    get_refresh_token_model().revoke_family(redemption.token_family)
    current(Redemption).filter(token_family=redemption.token_family).delete()
    return True


def prune() -> int:
    """Delete the redemptions without valid tokens; return their number."""
    tokens = current(get_refresh_token_model()).filter(
        token_family=OuterRef("token_family"), revoked__isnull=True
    )
    older = current(Redemption).filter(created__lt=timezone.now() - KEPT)
    deleted, _ = older.exclude(Exists(tokens)).delete()
    return deleted


def _refresh_token(tokens: Mapping[str, Any]) -> Any:
    rows = current(get_refresh_token_model()).select_related("access_token")
    digest = digest_of(tokens.get("refresh_token", ""))
    return rows.filter(token_checksum=digest).order_by("-pk").first()


def _bound_to(credential: str) -> str:
    return f"django_mcp.oauth.redemption {credential}"
