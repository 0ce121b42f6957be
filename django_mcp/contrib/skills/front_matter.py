"""The front matter of a SKILL.md: YAML between two lines ``---``, read as hosts read it.

Hosts parse the file themselves and compare each field with the one that they were sent. So values
have the types of the core schema of YAML 1.2 (section 10.3.2), as in libraries for JavaScript.
PyYAML itself has the types of YAML 1.1, where ``yes`` is true and a date is not a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

MAX_FRONT_MATTER = 64 * 1024
"""Characters. It is in each list that clients read."""
FENCED = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
"""Characters, as the format of Agent Skills says."""
BYTE_ORDER_MARK = "\ufeff"

INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
SCALARS = {
    "tag:yaml.org,2002:null": (re.compile(r"null|Null|NULL|~|"), ["n", "N", "~", ""]),
    "tag:yaml.org,2002:bool": (re.compile("true|True|TRUE|false|False|FALSE"), [*"tTfF"]),
    "tag:yaml.org,2002:int": (INTEGER, [*"-+0123456789"]),
    "tag:yaml.org,2002:float": (FLOAT, [*"-+.0123456789"]),
}
"""The types of scalars without quotes, with their possible first characters."""
BASES = {"0o": 8, "0x": 16}


class SkillError(ValueError):
    """A skill that cannot be served; ``code`` is the number of the system check."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class CoreLoader(yaml.SafeLoader):
    """A loader for the core schema, which refuses a key that a mapping has twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_integer(self, node: Any) -> int:
        text = self.construct_scalar(node)
        base = BASES.get(text[:2])
        return int(text) if base is None else int(text[2:], base)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in getattr(node, "value", ()):
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is no string", key.start_mark
                )
            if key.value in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice", key.start_mark
                )
            keys.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


for _tag, (_pattern, _first) in SCALARS.items():
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    CoreLoader.add_implicit_resolver(_tag, _whole, _first)
CoreLoader.add_constructor("tag:yaml.org,2002:int", CoreLoader.construct_integer)


class SkillText(NamedTuple):
    """A SKILL.md that was read."""

    front_matter: dict[str, Any]
    body: str

    @property
    def name(self) -> str:
        name: str = self.front_matter["name"]
        return name

    @property
    def description(self) -> str:
        description: str = self.front_matter["description"]
        return description


@lru_cache(maxsize=256)
def read(data: bytes) -> SkillText:
    """Read the bytes of a SKILL.md; raises SkillError if hosts refuse or misread them.

    The value is kept: do not change it.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SkillError("E001", f"it is not UTF-8 ({error})") from error
    if text.startswith(BYTE_ORDER_MARK):
        raise SkillError("E001", "it begins with a byte order mark: save it as UTF-8 without one")
    fenced = FENCED.match(text)
    if fenced is None:
        raise SkillError("E001", "it has no front matter: begin with a line ---, and end it so")
    if len(fenced[1]) > MAX_FRONT_MATTER:
        raise SkillError("E001", f"its front matter has more than {MAX_FRONT_MATTER} characters")
    front_matter = parsed(fenced[1])
    _check_fields(front_matter)
    return SkillText(front_matter, text[fenced.end() :])


def parsed(text: str) -> dict[str, Any]:
    """Return front matter as JSON has it; raises SkillError for values that JSON does not have."""
    try:
        value = yaml.load(text, Loader=CoreLoader)
        if not isinstance(value, dict):
            raise SkillError("E001", "its front matter is no mapping: write name and description")
        written = json.dumps(value, allow_nan=False)
    except yaml.YAMLError as error:
        raise SkillError("E001", f"its front matter is no YAML: {error}") from error
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, SkillError):
            raise
        raise SkillError("E001", f"JSON cannot carry its front matter: {error}") from error
    if len(written) > 2 * MAX_FRONT_MATTER:
        raise SkillError("E001", "its front matter grows by its anchors: write it out")
    front_matter: dict[str, Any] = json.loads(written)
    try:
        # Half of a pair of surrogates, such as "\ud83d", is no character.
        json.dumps(front_matter, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise SkillError("E001", f"JSON cannot carry its front matter: {error}") from error
    return front_matter


def _check_fields(front_matter: dict[str, Any]) -> None:
    name = front_matter.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise SkillError(
            "E002",
            f"its name is {name!r}: write 1 to {MAX_NAME} of a-z, 0-9 and single hyphens between",
        )
    _check_text(front_matter, "description", MAX_DESCRIPTION, is_needed=True)
    _check_text(front_matter, "compatibility", MAX_COMPATIBILITY, is_needed=False)


def _check_text(front_matter: dict[str, Any], field: str, most: int, *, is_needed: bool) -> None:
    value = front_matter.get(field)
    if field not in front_matter and not is_needed:
        return
    if not isinstance(value, str) or not value.strip():
        raise SkillError("E003", f"its {field} is {value!r}: write a text")
    if len(value) > most:
        raise SkillError("E003", f"its {field} has {len(value)} characters, of {most} at most")
