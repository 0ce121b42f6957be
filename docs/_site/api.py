"""The generated parts of the reference as objects of Sphinx: found by the search, and linked.

``tests.docs.generated`` writes signatures and docstrings into the Markdown. The site shows the same
text within the directives of the Python domain.
"""

from __future__ import annotations

import re

PART = re.compile(r"<!-- generated: api ([\w.\s]+) -->\n(.*?)<!-- end -->", re.DOTALL)
ONE = re.compile(r"\s*```text\n(.*?)\n```\n(.*)", re.DOTALL)
MEMBER = re.compile(r"^\* `(.+?)`: (.*)$", re.MULTILINE)


def with_objects(text: str) -> str:
    """Return a page with its generated parts as directives."""
    return PART.sub(_directives, text)


def _directives(part: re.Match[str]) -> str:
    name, *members = part[1].split()
    if members:
        return MEMBER.sub(lambda member: _directive(name, member[1], member[2]), part[2])
    whole = ONE.fullmatch(part[2])
    assert whole is not None, f"The part of {name} is no signature with a docstring."
    return _directive(name.rpartition(".")[0], whole[1], whole[2])


def _directive(owner: str, signature: str, description: str) -> str:
    name = re.split(r"\W", signature, maxsplit=1)[0]
    within_class = owner.rpartition(".")[2][:1].isupper()
    kind = _kind(name, within_class=within_class, is_called="(" in signature)
    shown = re.sub(r"<(\w+)>", r"\1", signature)
    lines = [f"::::{{py:{kind}}} {owner}.{shown}", "", description.strip(), "", "::::", ""]
    return "\n".join(lines)


def _kind(name: str, *, within_class: bool, is_called: bool) -> str:
    if name[:1].isupper():
        return "class"
    if within_class:
        return "method" if is_called else "attribute"
    return "function"
