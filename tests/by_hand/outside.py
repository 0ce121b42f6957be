"""A module of no installed app."""

ran: list[str] = []


def run(arguments: dict[str, str]) -> str:
    """Note that this ran."""
    ran.append(str(arguments))
    return "ran"
