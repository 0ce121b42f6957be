"""Prints how to reach the example site which scripts/serve is about to serve.

It refuses when the port is taken, for daphne only logs that, and goes on without listening.
"""

import json
import os
import socket
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
    django.setup()
    host, port = os.environ["HOST"], os.environ["PORT"]
    _refuse_taken(host, port)
    site = f"http://{host}:{port}"
    urls = _urls(site)
    print("MCP servers:")
    for name, url in urls.items():
        print(f"  {name:<16}{url}")
    print("A client's configuration:")
    print(json.dumps({"mcpServers": _clients(urls)}, indent=2))
    print(f"Admin: {site}/admin/ (admin / admin)", flush=True)


def _refuse_taken(host: str, port: str) -> None:
    try:
        socket.create_server((host, int(port))).close()
    except OSError as fault:
        sys.exit(f"{host}:{port} cannot be used ({fault}). Say PORT=8001 scripts/serve, perhaps.")


def _urls(site: str) -> dict[str, str]:
    # Only now: the registry needs the apps to be ready.
    from django_mcp import registry

    servers = [registry.configure(server) for server in registry.servers()]
    return {server.name: site + server.path for server in servers}


def _clients(urls: dict[str, str]) -> dict[str, object]:
    """The default server, over HTTP and over stdio."""
    name, url = next(iter(urls.items()))
    stdio = {"command": sys.executable, "args": [str(ROOT / "manage.py"), "mcp_stdio"]}
    return {name: {"type": "http", "url": url}, f"{name}-stdio": stdio}


if __name__ == "__main__":
    main()
