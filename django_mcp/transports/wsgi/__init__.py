"""Requests of WSGI servers, answered by the ASGI applications of this package.

It knows neither MCP nor Django. ``bridge`` passes one request to the event loop and its response
back, ``environ`` makes its scope, and ``event_loop`` has the thread of the loop.
"""
