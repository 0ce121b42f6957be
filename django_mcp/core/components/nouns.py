"""English nouns in names of tools: one, and several."""

from __future__ import annotations


def plural(noun: str) -> str:
    if noun.endswith("s") and not noun.endswith(UNCOUNTED):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def singular(noun: str) -> str:
    if noun.endswith("ies"):
        return f"{noun[:-3]}y"
    if noun.endswith(("xes", "ches", "shes", "sses")):
        return noun[:-2]
    is_plural = noun.endswith("s") and not noun.endswith(UNCOUNTED)
    return noun[:-1] if is_plural else noun


UNCOUNTED = ("ss", "us", "is")
"""Endings of nouns in the singular, such as address and status."""
