"""Gunicorn's worker for ASGI, with a root_path: it ignores SCRIPT_NAME."""

from uvicorn_worker import UvicornWorker  # type: ignore[import-untyped]


class PrefixedWorker(UvicornWorker):  # type: ignore[misc]
    CONFIG_KWARGS = {**UvicornWorker.CONFIG_KWARGS, "root_path": "/app"}
