"""Runs the tests on each Python with the newest Django for it, and with the lowest dependencies.

The lowest ones of extras as well: a site may have an older REST framework or drf-spectacular.
"""

import os

import nox

PYPROJECT = nox.project.load_toml("pyproject.toml")
# The driver for MariaDB is built where it is installed: only .ci/nightly names its group.
GROUPS = os.environ.get("TEST_GROUPS", "test").split()
TEST_TOOLS = nox.project.dependency_groups(PYPROJECT, *GROUPS)
EXTRAS = [
    each for extra in PYPROJECT["project"]["optional-dependencies"].values() for each in extra
]
# They are in no extra, because the package only looks whether a site has them.
INTEGRATIONS = [
    each for each in TEST_TOOLS if each.startswith(("django-filter", "drf-spectacular"))
]
LOWEST = [
    each.replace(">=", "==")
    for each in (*PYPROJECT["project"]["dependencies"], *EXTRAS, *INTEGRATIONS)
]
DJANGO = {"3.11": "5.2", "3.12": "6.0", "3.13": "6.1", "3.14": "6.1"}

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False


@nox.session(python=list(DJANGO))
def tests(session: nox.Session) -> None:
    django = f"django~={DJANGO[str(session.python)]}.0"
    session.install("--editable", ".", django, *TEST_TOOLS)
    session.run("pytest", *session.posargs)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    session.install("--editable", ".", *LOWEST, *TEST_TOOLS)
    session.run("pytest", *session.posargs)
