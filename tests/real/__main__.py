"""Installs Label Studio beside this package, and compares its tools with its REST API.

Run as `python -m tests.real`; environments in .bench/real are used again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.processes import ROOT
from tests.supervisor import supervise

PACKAGE = "label-studio==1.23.2"
FOLDER = ROOT / ".bench" / "real" / "label-studio"
HERE = Path(__file__).parent


def main() -> None:
    supervise()
    python = FOLDER / "bin" / "python"
    if not (FOLDER / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--editable", ROOT]
    subprocess.run(install, check=True)
    (FOLDER / "installed").write_text(PACKAGE)
    (package,) = FOLDER.glob("lib/python*/site-packages/label_studio")
    with tempfile.TemporaryDirectory() as data:
        environment = os.environ | {
            "COLLECT_ANALYTICS": "0",
            "DJANGO_DB": "sqlite",
            "DJANGO_SETTINGS_MODULE": "real_settings",
            "LABEL_STUDIO_BASE_DATA_DIR": data,
            "LATEST_VERSION_CHECK": "0",
            "PYTHONPATH": os.pathsep.join([str(package), str(HERE / "label_studio_site")]),
        }
        manage: list[str | Path] = [python, "-m", "django"]
        commands: tuple[list[str | Path], ...] = (
            [*manage, "migrate", "--verbosity", "0"],
            [*manage, "check"],
            [python, HERE / "compare.py", "1"],
        )
        for command in commands:
            subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
