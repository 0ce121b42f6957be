"""The tool of the site."""

from django_mcp import Frame, tool


@tool(read_only=True)
def whoami(frame: Frame) -> str:
    """Return the name of the user who logged in."""
    return str(frame.user.username)
