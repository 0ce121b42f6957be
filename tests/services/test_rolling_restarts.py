"""All workers are restarted one after the other, as the pages have it, and no request fails."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services import pages, rolling
from tests.services.instances import PostgreSQL, Redis
from tests.services.workers import nginx_around, nginx_binary

pytestmark = pytest.mark.nightly

SERVERS = ("uvicorn", "granian", "daphne", "gunicorn")


@pytest.mark.parametrize("server", SERVERS)
async def test_no_request_fails_behind_nginx(
    server: str, redis: Redis, postgresql: PostgreSQL
) -> None:
    with rolling.site(server, "nginx", redis, postgresql) as site:
        tally = await rolling.restart_all(site)

        assert not tally.failures, tally.details() + site.logs
        assert not tally.problems(), tally.details()


async def test_no_request_fails_behind_caddy(redis: Redis, postgresql: PostgreSQL) -> None:
    with rolling.site("uvicorn", "caddy", redis, postgresql) as site:
        tally = await rolling.restart_all(site)

        assert not tally.failures, tally.details() + site.logs
        assert not tally.problems(), tally.details()


async def test_no_request_is_rejected_behind_traefik(redis: Redis, postgresql: PostgreSQL) -> None:
    with rolling.site("uvicorn", "traefik", redis, postgresql) as site:
        tally = await rolling.restart_all(site, allowed="RemoteProtocolError")

        # Traefik breaks some streams off that answer a POST, also when nothing is restarted, and
        # for an application of ten lines (traefik/traefik#11767, golang/go#40747).
        failures = {kind for kind, failure in tally.failures if failure != "RemoteProtocolError"}
        assert not failures, tally.details() + site.logs
        assert [*tally.crossed, *tally.hung] == [], tally.details()


@pytest.mark.parametrize("server", ["uvicorn", "daphne", "gunicorn"])
async def test_no_request_fails_with_the_socket_of_systemd(
    server: str, redis: Redis, postgresql: PostgreSQL
) -> None:
    with rolling.site(server, "nginx", redis, postgresql, shares_socket=True) as site:
        tally = await rolling.restart_all(site)

        assert not tally.failures, tally.details() + site.logs
        assert not tally.problems(), tally.details()


@pytest.mark.parametrize(
    "text",
    [pages.configuration("nginx", [8001, 8002]), pages.configuration_of_site()],
    ids=["ports", "socket"],
)
def test_configuration_of_nginx_is_valid_with_its_certificate(text: str, tmp_path: Path) -> None:
    if (reason := rolling.why_not("nginx")) is not None:
        pytest.skip(reason)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={pages.HOST}", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    text = text.replace("/etc/ssl/certs/shop.example.com.pem", str(certificate))
    text = text.replace("/etc/ssl/private/shop.example.com.key", str(key))
    (tmp_path / "site.conf").write_text(text)
    (tmp_path / "nginx.conf").write_text(nginx_around("include site.conf;"))
    binary = nginx_binary()
    assert binary is not None

    done = subprocess.run(
        [binary, "-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "log"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert "test is successful" in done.stderr


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not installed")
    found = pages.units()
    for name, text in found.items():
        # Programs of the page are not here.
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
        (tmp_path / name.replace("@.", "@1.")).write_text(text)
    names = [f"./{name.replace('@.', '@1.')}" for name in found]

    done = subprocess.run(
        [verify, "verify", "--man=no", *names], cwd=tmp_path, capture_output=True, text=True
    )

    assert len(names) == 3
    # Unknown keys are only warned of.
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
