"""Stands for the file that startproject makes; checks import it."""


def application() -> None:
    """Do nothing."""
