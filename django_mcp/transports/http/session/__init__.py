"""The requests and streams of one session over streamable HTTP."""
