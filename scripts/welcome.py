"""Prints the URLs of the example site before scripts/serve starts it.

It fails if the port is in use, because daphne only logs that and runs without listening.
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
    _check_port(host, port)
    site = f"http://{host}:{port}"
    urls = _urls(site)
    print("MCP servers:")
    for name, url in urls.items():
        print(f"  {name:<16}{url}")
    print("A client's configuration:")
    print(json.dumps({"mcpServers": _clients(urls)}, indent=2))
    print(f"Admin: {site}/admin/ (admin / admin)", flush=True)


def _check_port(host: str, port: str) -> None:
    try:
        socket.create_server((host, int(port))).close()
    except OSError as fault:
        sys.exit(f"{host}:{port} cannot be used ({fault}). Try PORT=8001 scripts/serve.")


def _urls(site: str) -> dict[str, str]:
    # Imported late: the registry requires django.setup().
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
