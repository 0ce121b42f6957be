"""Installs projects beside this package, and compares its tools with their REST APIs or admins.

Run as `python -m tests.real`, or with the names of some projects; environments in .bench/real are
used again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT
from tests.supervisor import supervise

HERE = Path(__file__).parent
DATA = "{data}"
"""Stands for a folder of the run in the variables of a project."""


@dataclass(frozen=True)
class Project:
    name: str
    package: str
    site: str
    variables: dict[str, str]
    path: str = ""
    """A folder in the installed packages that has to be on the path."""
    compare: str = "compare.py"
    """What compares the tools with the site."""

    @property
    def folder(self) -> Path:
        return ROOT / ".bench" / "real" / self.name


PROJECTS = (
    Project(
        name="label-studio",
        package="label-studio==1.23.2",
        site="label_studio_site",
        variables={
            "COLLECT_ANALYTICS": "0",
            "DJANGO_DB": "sqlite",
            "LABEL_STUDIO_BASE_DATA_DIR": DATA,
            "LATEST_VERSION_CHECK": "0",
        },
        path="label_studio",
    ),
    Project(
        name="wagtail",
        package="wagtail==8.0.1",
        site="wagtail_site",
        variables={"WAGTAIL_DATA": DATA},
    ),
    Project(
        name="pretix",
        package="pretix==2026.8.0",
        site="pretix_site",
        variables={"PRETIX_CONFIG_FILE": os.devnull, "PRETIX_PRETIX_DATADIR": DATA},
    ),
    Project(
        name="oscar",
        package="django-oscar==4.2.1",
        site="oscar_site",
        variables={"OSCAR_DATA": DATA},
        compare="compare_admin.py",
    ),
)


def main() -> None:
    supervise()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROJECT")
    names = parser.parse_args().names
    by_name = {project.name: project for project in PROJECTS}
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"there is no project {unknown[0]!r}: there are {', '.join(by_name)}")
    failed = []
    for project in [by_name[name] for name in names] or PROJECTS:
        print(f"--- {project.package}", flush=True)
        install(project)
        if not is_equal(project):
            failed.append(project.name)
    if failed:
        sys.exit(f"These failed: {', '.join(failed)}")


def install(project: Project) -> None:
    python = project.folder / "bin" / "python"
    installed = project.folder / "installed"
    if not installed.exists() or installed.read_text() != project.package:
        subprocess.run([sys.executable, "-m", "venv", "--clear", project.folder], check=True)
        pip(python, project.package)
    pip(python, "--editable", f"{ROOT}[ninja,rest]")
    installed.write_text(project.package)


def pip(python: Path, *packages: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)


def is_equal(project: Project) -> bool:
    """Whether the tools of the project do what its API does."""
    python = project.folder / "bin" / "python"
    # The browser of the parity is in the last folder.
    paths = [HERE / project.site, HERE, ROOT / "tests" / "modeladmin"]
    if project.path:
        paths += project.folder.glob(f"lib/python*/site-packages/{project.path}")
    with tempfile.TemporaryDirectory() as data:
        own = {name: value.replace(DATA, data) for name, value in project.variables.items()}
        environment = os.environ | own
        environment["DJANGO_SETTINGS_MODULE"] = "real_settings"
        environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        manage = [str(python), "-m", "django"]
        commands = (
            [*manage, "migrate", "--verbosity", "0"],
            [*manage, "check"],
            [str(python), str(HERE / project.compare), "1"],
        )
        return all(
            subprocess.run(command, env=environment, check=False).returncode == 0
            for command in commands
        )


if __name__ == "__main__":
    main()
