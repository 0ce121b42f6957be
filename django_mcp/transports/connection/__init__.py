"""One connection per client, and stdio, which has one; HTTP+SSE is in ``transports.http``."""
