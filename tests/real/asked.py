"""The requests that the tools of a site send to its views."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    body: bytes
    content_type: str


REQUESTS: list[Asked] = []


def prepare(request, frame):
    # Without a match, the permissions of a tool are asked, before any call.
    if request.resolver_match is not None:
        REQUESTS.append(
            Asked(request.method, request.get_full_path(), request.body, request.content_type)
        )
