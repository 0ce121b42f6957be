"""Requests of WSGI servers, answered by the ASGI applications of this package.

``bridge`` passes one request to the event loop and its response back, ``environ`` makes its scope,
and ``event_loop`` has the thread of the loop. They know neither MCP nor Django. ``waiting_thread``
decides which handlers run on the thread of the server.
"""
