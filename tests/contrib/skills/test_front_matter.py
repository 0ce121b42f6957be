"""The front matter of a SKILL.md: the types that hosts read, and what cannot be served."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.contrib.skills.front_matter import SkillError, parsed, read
from tests.spec import spec

HEAD = "---\nname: refunds\ndescription: Refunds\n"


@spec("SK-21")
@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("FALSE", False),
        ("tRuE", "tRuE"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("1.10", 1.1),
        ("'1.10'", "1.10"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("-7", -7),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ('"\\ud83d\\ude00"', "😀"),
        ("[a, 1, yes]", ["a", 1, "yes"]),
        ("{<<: x}", {"<<": "x"}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        (">\n  one\n  line\n", "one line\n"),
    ],
)
def test_scalars_have_the_types_of_yaml_1_2(yaml: str, value: Any) -> None:
    front_matter = parsed(f"field: {yaml}\n")
    assert front_matter == {"field": value}
    assert type(front_matter["field"]) is type(value)


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"\xef\xbb\xbf" + HEAD.encode() + b"---\n", "E001", "byte order mark"),
        (HEAD.encode() + b"title: \xff\n---\n", "E001", "not UTF-8"),
        (b"# Refunds\n", "E001", "no front matter"),
        (HEAD.encode(), "E001", "no front matter"),
        (b"\n" + HEAD.encode() + b"---\n", "E001", "no front matter"),
        (b"---\n- a\n---\n", "E001", "no mapping"),
        (b"---\n---\n", "E001", "no mapping"),
        (HEAD.encode() + b"x: [\n---\n", "E001", "no YAML"),
        (HEAD.encode() + b"x: .nan\n---\n", "E001", "JSON cannot carry"),
        (HEAD.encode() + b"x: .inf\n---\n", "E001", "JSON cannot carry"),
        (HEAD.encode() + b"x: !!binary aGk=\n---\n", "E001", "JSON cannot carry"),
        (HEAD.encode() + b"x: !!set {a}\n---\n", "E001", "JSON cannot carry"),
        (HEAD.encode() + b"x: !!python/name:os.system\n---\n", "E001", "no YAML"),
        (HEAD.encode() + b"x: &x [*x]\n---\n", "E001", "JSON cannot carry"),
        (HEAD.encode() + b'x: "\\ud83d"\n---\n', "E001", "JSON cannot carry"),
        (HEAD.encode() + b"1: x\n---\n", "E001", "is no string"),
        (HEAD.encode() + b"name: again\n---\n", "E001", "there twice"),
        (HEAD.encode() + b"x: " + b"a" * 70_000 + b"\n---\n", "E001", "65536"),
        (b"---\ndescription: x\n---\n", "E002", "None"),
        (b"---\nname: Refunds\ndescription: x\n---\n", "E002", "'Refunds'"),
        (b"---\nname: a--b\ndescription: x\n---\n", "E002", "'a--b'"),
        (b"---\nname: -a\ndescription: x\n---\n", "E002", "'-a'"),
        (b"---\nname: 7\ndescription: x\n---\n", "E002", "7"),
        (b"---\nname: " + b"a" * 65 + b"\ndescription: x\n---\n", "E002", "1 to 64"),
        (b"---\nname: a\n---\n", "E003", "description is None"),
        (b"---\nname: a\ndescription: ' '\n---\n", "E003", "description is ' '"),
        (b"---\nname: a\ndescription: " + b"x" * 1025 + b"\n---\n", "E003", "1025"),
        (b"---\nname: a\ndescription: x\ncompatibility: 5\n---\n", "E003", "compatibility is 5"),
    ],
)
def test_what_hosts_refuse_is_not_read(data: bytes, code: str, said: str) -> None:
    with pytest.raises(SkillError, match=said) as caught:
        read(data)
    assert caught.value.code == code


def test_anchors_cannot_grow_without_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6)]

    with pytest.raises(SkillError, match="anchors"):
        parsed("\n".join(lines))


def test_front_matter_ends_at_the_first_line_of_hyphens() -> None:
    text = read(b"---\r\nname: a\r\ndescription: |\r\n  x\r\n---\r\n# A\r\n---\r\n")

    assert text.front_matter == {"name": "a", "description": "x\n"}
    assert text.body == "# A\r\n---\r\n"
