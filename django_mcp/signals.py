"""Django signals for what happened: for counting, auditing, invalidating.

The sender is always the ``Server``. None of them carries arguments, results or tokens, so that
a receiver may write down all it is given. They are sent after the fact, on the thread of the
event loop: a receiver which does more than a little work should be asynchronous, or hand it on.
"""

from __future__ import annotations

from django.dispatch import Signal

tool_called = Signal()
"""A tool was called. With ``name``, ``user`` (Django's, or None), ``principal`` (its key),
``outcome`` ("ok", "error" which the model reads, "asked" where the client is asked first,
"refused" by an error for the client, "failed" by one of ours, or "cancelled") and ``duration``
in seconds."""

resource_read = Signal()
"""A resource was read. With ``uri``, ``user``, ``principal``, ``outcome`` and
``duration`` as for a tool."""

prompt_got = Signal()
"""A prompt was got. With ``name``, ``user``, ``principal``, ``outcome`` and
``duration`` as for a tool."""

session_started = Signal()
"""A session was opened. With ``address`` (never its id), ``version`` (of the protocol),
``client_info`` (as the client says, unverified), ``user`` and ``principal``."""

session_ended = Signal()
"""A session was ended by its client or by us, not by silence: one that expires ends unnoticed.
With ``address`` and ``principal``."""
