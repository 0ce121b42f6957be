"""The template of ``counters``, for settings, which cannot import the server."""

from __future__ import annotations

from typing import Any

COUNTER = """{% load mcp_app %}
<h2>{{ name }}</h2>
<output id="count">{{ count }}</output>
<p id="owner">{{ owner }}</p>
<p data-mcp-context="The user sees {{ count }} {{ name }}."></p>
<button id="add" data-mcp-tool="add" {% mcp_arguments name=name %}>Add</button>
<form data-mcp-tool="add" {% mcp_arguments name=name %}>
  <input type="number" name="by" value="1" aria-label="Number">
  <button id="add-many">Add</button>
</form>
<button id="secret" data-mcp-tool="secret">Secret</button>
<a id="link" href="https://site.example/counters">All</a>
<button id="say" data-mcp-message="Count again">Ask</button>
"""

ENGINE: dict[str, Any] = {
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "NAME": "counters",
    "OPTIONS": {
        "loaders": [
            ("django.template.loaders.locmem.Loader", {"counters/_counter.html": COUNTER}),
            "django.template.loaders.app_directories.Loader",
        ]
    },
}
"""An entry of TEMPLATES."""
