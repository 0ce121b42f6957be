"""The WSGI servers of the tests, and their commands with a site in place of that of the docs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import migrated_file
from tests.processes import ROOT

Command = list[str | Path]

APPLICATION = "tests.wsgi.one_site:application"
BIND = ("--bind", "127.0.0.1:{port}")

GUNICORN: Command = ["gunicorn", *BIND, APPLICATION]
GUNICORN_THREADS: Command = ["gunicorn", *BIND, "--threads", "4", APPLICATION]
IN_PUSH_RUN: dict[str, Command] = {
    "gunicorn": ["gunicorn", *BIND, "--workers", "2", "--preload", APPLICATION],
    "gunicorn with threads": GUNICORN_THREADS,
    "waitress": ["waitress", "--listen", "127.0.0.1:{port}", APPLICATION],
    "runserver": ["tests.wsgi.manage", "runserver", "--noreload", "127.0.0.1:{port}"],
}
AT_NIGHT = ("uWSGI", "uWSGI without lazy-apps", "mod_wsgi")
NAMES = [*IN_PUSH_RUN, *(pytest.param(name, marks=pytest.mark.nightly) for name in AT_NIGHT)]
"""Parameters of a test or a fixture."""

PAGE = ROOT / "docs" / "how-to" / "deploy.md"
REPLACED = {
    "127.0.0.1:8001": "127.0.0.1:{port}",
    "0.0.0.0:$PORT": "127.0.0.1:{port}",
    "0.0.0.0:8000": "127.0.0.1:{port}",
    "mysite.wsgi:application": APPLICATION,
    "mysite.asgi:application": "tests.wsgi.one_site:asgi_application",
    "/srv/mysite/.venv": sys.prefix,
}
MODULES = Path("/usr/lib/apache2/modules")
APACHE = """
ServerName localhost
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog /dev/stderr
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule wsgi_module {wsgi}
WSGISocketPrefix {folder}/wsgi
<Directory />
    Require all granted
</Directory>
"""
"""What a Debian package configures around the lines of the page."""
READS_ALL = "dac_override"
"""A capability, because Apache refuses to run as root, which owns the files of a test as root."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """That of a site which configures Django itself, with its tables in a file."""
    database = folder / "site.sqlite3"
    migrated_file.copy(database)
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "",
        "PYTHONPATH": str(ROOT),
        "SITE_DATABASE": str(database),
        **more,
    }


def command(name: str, folder: Path) -> Command:
    """The command of a server, whose configuration is written into the folder."""
    if name in IN_PUSH_RUN:
        return IN_PUSH_RUN[name]
    if name == "mod_wsgi":
        return _apache(folder)
    return uwsgi(folder, is_lazy=name == "uWSGI")


def block(title: str) -> str:
    """The lines of the page for a file, with the site of the tests."""
    _, _, rest = PAGE.read_text().partition(f"\n# {title}\n")
    return replaced(rest.partition("\n```")[0])


def replaced(text: str) -> str:
    for written, used in REPLACED.items():
        text = text.replace(written, used)
    return text


def uwsgi(folder: Path, application: str = APPLICATION, *, is_lazy: bool = True) -> Command:
    """The command of uWSGI with the configuration of the page."""
    lines = block("/srv/mysite/uwsgi.ini").replace("{port}", "%(port)")
    lines = lines.replace("chdir = /srv/mysite", f"chdir = {ROOT}")
    lines = lines.replace(APPLICATION, application)
    if not is_lazy:
        assert "lazy-apps = true\n" in lines
        lines = lines.replace("lazy-apps = true\n", "")
    configuration = folder / "uwsgi.ini"
    configuration.write_text(lines)
    return [_program("uwsgi"), "--set-placeholder", "port={port}", "--ini", configuration]


def _apache(folder: Path) -> Command:
    script = folder / "wsgi.py"
    script.write_text("from tests.wsgi.one_site import application\n")
    lines = block("/etc/apache2/sites-available/mysite.conf")
    lines = lines.replace("/srv/mysite/mysite/wsgi.py", str(script))
    lines = lines.replace("python-path=/srv/mysite", f"python-path={ROOT}")
    location: Command = [_program("mod_wsgi-express"), "module-location"]
    wsgi = subprocess.run(location, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    configuration = folder / "apache.conf"
    around = APACHE.format(folder=folder, modules=MODULES, wsgi=wsgi)
    configuration.write_text(around + lines)
    serve: Command = [_program("apache2"), "-f", configuration, "-D", "FOREGROUND"]
    listen: Command = ["-c", "Listen 127.0.0.1:{port}"]
    return [*_as_another_user(folder), *serve, *listen]


def _as_another_user(folder: Path) -> Command:
    if os.getuid() != 0:
        return []
    allowed: list[Any] = [f"--inh-caps=+{READS_ALL}", f"--ambient-caps=+{READS_ALL}"]
    user: list[Any] = ["--reuid=www-data", "--regid=www-data", "--clear-groups"]
    return [_program("setpriv"), *user, *allowed]


def _program(name: str) -> Path:
    """A program, or the test is skipped; it fails if DRIVERS_REQUIRED is set."""
    where = os.pathsep.join([f"{sys.prefix}/bin", os.environ.get("PATH", ""), "/usr/sbin"])
    program = shutil.which(name, path=where)
    _require(program is not None, name)
    return Path(str(program))


def _require(is_installed: bool, name: str) -> None:
    if is_installed:
        return
    reason = f"{name} is not installed"
    if os.environ.get("DRIVERS_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)
