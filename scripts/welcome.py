"""Prints how to connect to the example site before scripts/serve starts it.

It creates the access token that it prints, and revokes the one of the previous start. It fails if
the port is in use, because daphne only logs that and runs without listening.
"""

import json
import os
import shlex
import socket
import sys
from datetime import timedelta
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
USER = "agent"
"""The demo user as whom the token authenticates; the password is the same."""
TOKEN_NAME = "scripts/serve"
TOKEN_SCOPES = ("helpdesk", "helpdesk:write")
TOKEN_LIFETIME = timedelta(days=1)

TEXT = """\
MCP servers:
{servers}

Everybody may search tickets. my_tickets needs a login, and set_priority the scope helpdesk:write.
close_ticket needs a permission that the demo user {user} has, and delete_ticket one that only
admin has.

1. Without an account:
     {anonymous}
2. With an access token of {user}. It is not shown again, and replaced at the next start:
     {token}
     {with_token}
3. By OAuth: connect as in 1, and let the client log in (in Claude Code: /mcp, Authenticate; other
   clients do so at the first call of my_tickets). In the browser, log in as {user}, password
   {user}. To check what clients find: {doctor}

For other clients: {config}
A client's configuration:
{clients}

Pages, in a browser: {site}/
Access tokens: {site}/tokens/
Allowed programs: {site}/o/access
Approvals: {site}/approvals/
Admin: {site}/admin/ (admin / admin)"""


def main() -> None:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")
    django.setup()
    host, port = os.environ["HOST"], os.environ["PORT"]
    _check_port(host, port)
    print(welcome(f"http://{host}:{port}", _new_token()), flush=True)


def welcome(site: str, token: str) -> str:
    """Return the text, with ready commands."""
    urls = _urls(site)
    name, url = next(iter(urls.items()))
    header = f"Authorization: Bearer {token}"
    return TEXT.format(
        site=site,
        user=USER,
        token=token,
        servers="\n".join(f"  {each:<16}{urls[each]}" for each in urls),
        anonymous=_add(name, url),
        with_token=_add(f"{name}-{USER}", url, "--header", header),
        doctor=_manage("mcp_doctor", url),
        config=_manage("mcp_config", "--url", url, "--token"),
        clients=json.dumps({"mcpServers": _clients(name, url, header)}, indent=2),
    )


def _check_port(host: str, port: str) -> None:
    try:
        socket.create_server((host, int(port))).close()
    except OSError as fault:
        sys.exit(f"{host}:{port} cannot be used ({fault}). Try PORT=8001 scripts/serve.")


# Imported late: models and the registry require django.setup().


def _new_token() -> str:
    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from django_mcp.contrib.tokens.models import PersonalAccessToken

    user = get_user_model().objects.get(username=USER)
    PersonalAccessToken.objects.filter(owner=user.pk, name=TOKEN_NAME).revoke()
    _, token = PersonalAccessToken.objects.issue(
        user, TOKEN_NAME, scopes=TOKEN_SCOPES, expires_at=timezone.now() + TOKEN_LIFETIME
    )
    return token


def _urls(site: str) -> dict[str, str]:
    from django_mcp import registry

    servers = [registry.configure(server) for server in registry.servers()]
    return {server.name: site + server.path for server in servers}


def _add(name: str, url: str, *options: str) -> str:
    """The command that adds a server to Claude Code."""
    return shlex.join(["claude", "mcp", "add", "--transport", "http", name, url, *options])


def _manage(*words: str) -> str:
    return shlex.join([".venv/bin/python", "manage.py", *words])


def _clients(name: str, url: str, header: str) -> dict[str, object]:
    """The default server: for everybody, with the token, and over stdio."""
    stdio = {"command": sys.executable, "args": [str(ROOT / "manage.py"), "mcp_stdio"]}
    key, _, value = header.partition(": ")
    return {
        name: {"type": "http", "url": url},
        f"{name}-{USER}": {"type": "http", "url": url, "headers": {key: value}},
        f"{name}-stdio": stdio,
    }


if __name__ == "__main__":
    main()
