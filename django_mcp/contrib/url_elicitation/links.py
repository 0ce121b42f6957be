"""The link of an elicitation: encrypted, bound to one user, and valid until it expires.

It gives no access by itself (ELIC-33): the page compares the user who is logged in with the one
in the link. That user is encrypted with all the rest, so that no change of the URL has another
result than an invalid link (ELIC-38).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils import timezone

from django_mcp.core.frame.client import request_state
from django_mcp.runtime.around import tenants
from django_mcp.runtime.signing import DjangoSigner

PURPOSE = "elicitation link"
DECLINE = "decline"
"""The name of the button on a page that answers nothing."""
MAX_MESSAGE = 1000
"""Characters of the message: it is a part of the URL, which servers and proxies bound at 8 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One elicitation: its user, the content of its page, and its expiry."""

    id: str
    user: str
    """The primary key of the user, as a string."""
    server: str
    """The title of the MCP server."""
    message: str
    view: str
    """The name of the URL pattern: the link of one page is not valid for another."""
    form: str | None
    """``module:class`` of the form that the ready page shows."""
    expires: float
    """Seconds since the epoch."""
    tenant: str = ""
    """The tenant of the user, where the site has tenants."""
    lifetime: float = request_state.LIFETIME
    """Seconds for which each link of the elicitation is valid. It is sent again with each retry."""

    def answer_expires_at(self) -> datetime:
        """Return until when an answer that is given now is kept.

        A client may have received the link again a moment ago, and may retry the call until that
        one expires.
        """
        return timezone.now() + timedelta(seconds=self.lifetime)

    def is_for(self, request: HttpRequest) -> bool:
        """Whether the link is for the user and the page of a request, at its tenant."""
        if self.tenant != tenants.of_request(request):
            return False
        match = request.resolver_match
        user = request.user
        is_own = user.is_authenticated and user.is_active and str(user.pk) == self.user
        return is_own and match is not None and self.view == match.view_name


def token_of(link: Link) -> str:
    # Without escapes: one for each letter would be six bytes.
    return DjangoSigner().sign(PURPOSE, json.dumps(asdict(link), ensure_ascii=False))


def shortened(message: str) -> str:
    """Return the message as the link has it; a long one often repeats input of a client."""
    # Half of a surrogate pair, which JSON may have, has no form in a link.
    text = message[:MAX_MESSAGE].encode(errors="replace").decode()
    return text if len(message) <= MAX_MESSAGE else f"{text[:-1]}…"


def read(token: str) -> Link | None:
    """Return the link of a token; None if it is forged, incomplete or expired."""
    text = DjangoSigner().unsign(PURPOSE, token)
    if text is None:
        return None
    link = Link(**json.loads(text))
    return link if timezone.now().timestamp() < link.expires else None
