"""A document of OpenAPI 3: its operations, with the parts that tools need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.declaration import snake_case
from django_mcp.openapi.parameters import COOKIE, HEADER, QUERY, Parameter, of_openapi
from django_mcp.openapi.schemas import (
    definitions,
    map_schemas,
    to_json_schema,
    with_examples,
    without_trivial_title,
    without_trivial_titles,
)
from django_mcp.runtime.django_types import uploads

Schema = dict[str, Any]

MARK = "x-django-mcp-operation"
"""Member of an operation with its number, which a source may write."""
METHODS = ("get", "post", "put", "patch", "delete")
JSON = "application/json"
MULTIPART = "multipart/form-data"
FORMS = (MULTIPART, "application/x-www-form-urlencoded")
MAX_REFERENCES = 20
"""References that follow each other; more are a circle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation, as its document describes it."""

    id: str
    method: str
    path: str
    """With its variables in braces, below the path of the server."""
    summary: str = ""
    description: str = ""
    group: str = ""
    """Its first tag with a name; without one, the first word of its path."""
    parameters: Sequence[Parameter] = ()
    path_schemas: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    is_body_required: bool = False
    is_form: bool = False
    """Whether the body is a form, and not JSON."""
    media_types: Sequence[str] = ()
    """The media types of the body."""
    answer: Schema | None = None
    """Of a response of success in JSON."""
    definitions: Schema = field(default_factory=dict)
    security: Sequence[frozenset[str]] | None = None
    """The names of security schemes, in sets; one set is enough. None without any."""
    mark: int = -1
    """The number of the operation in its API, where a source has written one."""
    problem: str = ""
    """Why it cannot be read, and lacks its parameters, its body and its answer."""

    @property
    def where(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def has_body(self) -> bool:
        return self.body is not None or self.method in ("post", "put", "patch")

    def tool_name(self, text: str) -> str:
        """Return the name of its tool: by a text, else by its path if no name can have the text."""
        return name_of(text) or name_of(f"{self.method} {self.path}")


class Document:
    """A document, with the parts that its references name."""

    def __init__(
        self, content: Mapping[str, Any], prefix: str | None = None, *, base: str = ""
    ) -> None:
        """Read a document whose paths are below ``prefix``, by default its first server's.

        ``base`` is the beginning that all paths have, and that says nothing of an operation.
        """
        if not str(content.get("openapi", "")).startswith("3"):
            raise ConfigurationError("This is no document of OpenAPI 3: it has no openapi: 3.…")
        self._content = content
        components = content.get("components") or {}
        schemas = components.get("schemas") or {}
        self._inputs = {name: _of_input(each) for name, each in schemas.items()}
        self._outputs = {
            name: to_json_schema(each, hidden="writeOnly") for name, each in schemas.items()
        }
        self.schemes: Mapping[str, Any] = components.get("securitySchemes") or {}
        self._base = base.strip("/")
        servers: Sequence[Mapping[str, Any]] = content.get("servers") or ({},)
        path_of_server = urlsplit(str(servers[0].get("url") or "")).path
        self._prefix = (path_of_server if prefix is None else prefix).strip("/")

    def operations(self) -> Iterator[Described]:
        """Yield the operations, in the order of the document."""
        for path, declared in (self._content.get("paths") or {}).items():
            item = self._resolved(declared)
            for method in METHODS:
                if method in item:
                    yield self._operation(path, method, item, item[method])

    def _operation(
        self, path: str, method: str, item: Mapping[str, Any], declared: Mapping[str, Any]
    ) -> Described:
        full_path = "/".join(part for part in (self._prefix, path.strip("/")) if part)
        words = path.strip("/").removeprefix(self._base).split("/")
        tags = [str(tag) for tag in declared.get("tags") or ()]
        groups = (*tags, *(word for word in words if word and "{" not in word), "operations")
        security = declared.get("security", self._content.get("security"))
        described = Described(
            id=str(declared.get("operationId") or name_of(f"{method} {path}")),
            method=method,
            path=f"/{full_path}{'/' if path.endswith('/') and full_path else ''}",
            summary=str(declared.get("summary") or item.get("summary") or ""),
            description=str(declared.get("description") or ""),
            group=next(filter(None, map(name_of, groups))),
            security=[frozenset(each) for each in security] if security else None,
            mark=declared.get(MARK, -1),
        )
        try:
            return replace(described, **self._parts(item, declared))
        except ConfigurationError as error:  # The other operations can be read.
            return replace(described, problem=str(error))

    def _parts(self, item: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an operation is sent and answers; raises ConfigurationError."""
        parameters = self._parameters(item, declared)
        media_types, body, is_required = self._body(declared)
        read = [_parameter(each) for each in parameters if each["in"] in (QUERY, HEADER, COOKIE)]
        of_path = [each for each in parameters if each["in"] == "path"]
        return {
            "parameters": read,
            "path_schemas": {each["name"]: _parameter(each).schema for each in of_path},
            "body": body,
            "is_body_required": is_required,
            "is_form": not any(map(_is_json, media_types)) and bool(media_types),
            "media_types": media_types,
            "answer": self._answer(declared),
            "definitions": definitions([body, *(each.schema for each in read)], self._inputs),
        }

    def _parameters(
        self, item: Mapping[str, Any], declared: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """Return the parameters of a path and of one operation, which come last."""
        by_place = {}
        for each in (*(item.get("parameters") or ()), *(declared.get("parameters") or ())):
            parameter = self._resolved(each)
            by_place[parameter["in"], parameter["name"]] = parameter
        return [*by_place.values()]

    def _body(self, declared: Mapping[str, Any]) -> tuple[Sequence[str], Schema | None, bool]:
        body = self._resolved(declared.get("requestBody") or {})
        content = body.get("content") or {}
        # JSON first, then forms.
        media_types = sorted(content, key=lambda it: (not _is_json(it), it not in FORMS))
        if not media_types:
            return (), None, False
        chosen = content[media_types[0]]
        schema = with_examples(_of_input(chosen.get("schema") or {}), chosen)
        return media_types, schema, bool(body.get("required"))

    def _answer(self, declared: Mapping[str, Any]) -> Schema | None:
        """Return the schema of the operation's response, where it is JSON."""
        responses = declared.get("responses") or {}
        for status, response in sorted(responses.items(), key=lambda each: str(each[0])):
            content = self._resolved(response).get("content") or {}
            schema = next(
                (it.get("schema") for name, it in content.items() if _is_json(name)), None
            )
            if str(status).startswith("2") and schema is not None:
                return self._inlined(to_json_schema(schema, hidden="writeOnly"))
        return None

    def _inlined(self, schema: Any) -> Schema:
        """Return a schema without a reference at its root, or at the root of its rows."""
        resolved = self._of_outputs(schema)
        members = resolved.get("properties") or {}
        properties = {
            name: self._with_rows(self._of_outputs(each)) for name, each in members.items()
        }
        return self._with_rows({**resolved, **({"properties": properties} if members else {})})

    def _with_rows(self, schema: Schema) -> Schema:
        return (
            {**schema, "items": self._of_outputs(schema["items"])} if "items" in schema else schema
        )

    def _of_outputs(self, schema: Any) -> Schema:
        for _ in range(MAX_REFERENCES):
            reference = schema.get("$ref") if isinstance(schema, Mapping) else None
            if reference is None:
                break
            schema = self._outputs.get(str(reference).removeprefix("#/$defs/"), {})
        return dict(schema) if isinstance(schema, Mapping) else {}

    def _resolved(self, part: Any) -> Mapping[str, Any]:
        """Return the referenced part; raises ConfigurationError for a part that is not here."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(part, Mapping) or "$ref" not in part:
                break
            part = self._at(str(part["$ref"]))
        return part if isinstance(part, Mapping) else {}

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ConfigurationError(
                f"The document refers to {reference!r}, which is another file: put all into one"
            )
        target: Any = self._content
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        if target is None:
            raise ConfigurationError(f"The document refers to {reference!r}, which it lacks")
        return target


def read(target: str | Path) -> Mapping[str, Any]:
    """Return the document in a file, JSON or YAML; a relative path is below BASE_DIR of the site.

    Raises ConfigurationError for a missing file, and for a file without a document.
    """
    path = Path(getattr(settings, "BASE_DIR", "."), target)
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path} cannot be read as a document of OpenAPI: {error}"
        ) from None
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{path} is no document of OpenAPI: it has no mapping")
    return content


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigurationError("A document in YAML needs PyYAML: pip install pyyaml") from None
    try:
        # YAML has dates; documents of OpenAPI have strings.
        return yaml.load(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(error) from None


def _parameter(declared: Mapping[str, Any]) -> Parameter:
    parameter = of_openapi(declared, place=declared["in"])
    return replace(parameter, schema=without_trivial_title(parameter.name, parameter.schema))


def _of_input(schema: Any) -> Any:
    return without_trivial_titles(map_schemas(to_json_schema(schema), _with_file))


def _with_file(schema: Schema) -> Schema:
    """Return the schema of an uploaded file for the schema of its bytes."""
    is_file = schema.get("format") == "binary" or "contentMediaType" in schema
    if not is_file or schema.get("type") not in ("string", None):
        return schema
    described = {key: it for key, it in schema.items() if key in ("title", "description")}
    return {**uploads.schema(), **described}


def _is_json(media_type: str) -> bool:
    essence = media_type.partition(";")[0].strip().lower()
    return essence in (JSON, "*/*") or essence.endswith("+json")


def name_of(text: str) -> str:
    """Return a name of a tool: words with underscores."""
    return re.sub(r"\W+", "_", snake_case(text), flags=re.ASCII).strip("_").lower()
