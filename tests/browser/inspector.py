"""The web interface of the official inspector, as a host of views."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.browser.app_host import ShownView
from tests.browser.chromium import TIMEOUT
from tests.clients import environments
from tests.processes import free_port, kill_group, spawn
from tests.waiting import wait_until

READY = re.compile(r"http://\S+\?MCP_INSPECTOR_API_TOKEN=\w+")

PRESS = r"""
const shown = [...document.querySelectorAll("button, label")];
const control = shown.find(control => control.innerText.trim().split("\n")[0] === arguments[0]);
control?.click();
return control !== undefined;
"""
CONNECT = """
const control = document.querySelector("input[aria-label^='Connect or disconnect']");
control?.click();
return control !== null;
"""
FILL = 'document.querySelector(".ace_editor").env.editor.setValue(arguments[0])'


class Inspector(ShownView):
    """A user of the inspector; the view is in a frame within that of the sandbox."""

    frames = ("iframe[src*='/sandbox']", "iframe")

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        super().__init__(driver)
        driver.get(url)
        wait_until(lambda: driver.execute_script(CONNECT), "the server is shown", seconds=TIMEOUT)

    def open_app(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Call a tool, and show its view."""
        self._press("Apps")
        self._press(tool)
        self._press("Edit as JSON")
        self._wait_for(".ace_editor")
        self.driver.execute_script(FILL, json.dumps(arguments))
        self._press("Open App")
        self._wait_for(self.frames[0])

    def _press(self, text: str) -> None:
        try:
            wait_until(lambda: self.driver.execute_script(PRESS, text), seconds=TIMEOUT)
        except TimeoutError:
            shown = self.driver.execute_script("return document.body.innerText")
            raise AssertionError(f"The inspector shows no {text}:\n{shown}") from None

    def _wait_for(self, selector: str) -> None:
        wait_until(
            lambda: self.driver.find_elements(By.CSS_SELECTOR, selector), selector, seconds=TIMEOUT
        )


@contextmanager
def inspector(endpoint: str, folder: Path, **headers: str) -> Iterator[str]:
    """Run the inspector for an endpoint within the block; return its URL."""
    modules = environments.made("inspector") / "node_modules" / ".bin"
    environment = os.environ | {
        "CLIENT_PORT": str(free_port()),
        "HOME": str(folder),
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_SECRET_STORE": "memory",
        "MCP_SANDBOX_PORT": "0",
        "MCP_STORAGE_DIR": str(folder),
    }
    command = [str(modules / "node"), str(modules / "mcp-inspector"), "--web"]
    command += ["--transport", "http", "--server-url", endpoint]
    for name, value in headers.items():
        command += ["--header", f"{name}: {value}"]
    log_file = folder / "inspector.log"
    process = spawn(command, log_file, folder, env=environment)
    try:
        wait_until(lambda: READY.search(log_file.read_text()), "the inspector listens")
        match = READY.search(log_file.read_text())
        assert match is not None
        yield match[0]
    finally:
        kill_group(process)
