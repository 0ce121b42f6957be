"""Django signals for metrics, auditing and cache invalidation.

The sender is the ``Server``, or None when the admin ends a session of a server that was removed
since. No signal has arguments, results or tokens, so that a receiver may log everything. They
are sent after the event, on the thread of the event loop: a receiver which does more than a little
work should be asynchronous, or delegate it.
"""

from __future__ import annotations

from django.dispatch import Signal

tool_called = Signal()
"""A tool was called. With ``name``, ``user`` (Django's, or None), ``principal`` (its key),
``outcome`` ("ok", "error" for an error in the result, "input_required", "challenged",
"client_error", "server_error" or "cancelled") and ``duration`` in seconds."""

resource_read = Signal()
"""A resource was read. With ``uri``, ``user``, ``principal``, ``outcome`` and
``duration`` as for a tool."""

prompt_got = Signal()
"""A prompt was got. With ``name``, ``user``, ``principal``, ``outcome`` and
``duration`` as for a tool."""

session_started = Signal()
"""A session was opened. With ``address`` (a digest, never the id), ``version`` (of the protocol),
``client_info`` (as the client reports it, unverified), ``user`` and ``principal``."""

session_ended = Signal()
"""A session was ended by its client, by the server or in the admin; a session that expires, or
makes room for another one, sends no signal. With ``address`` and ``principal``."""
