"""Reads the skills of a server with fastmcp's client; prints each of their files as JSON."""

import asyncio
import base64
import json
import sys

from fastmcp import Client
from fastmcp.skills.client import SkillsClientExtension


async def main(url: str) -> None:
    skills = {}
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        for listed in await client.list_skills():
            skill = await client.get_skill(listed.uri)
            assert skill == listed
            files = []
            for file in skill.resources:
                (content,) = await client.read_resource(file.uri)
                text = getattr(content, "text", None)
                data = base64.b64decode(content.blob) if text is None else text.encode()
                read = base64.b64encode(data).decode()
                files.append([file.uri, file.digest, file.size, read])
            skills[skill.frontmatter.name] = files
    print(json.dumps(skills))


asyncio.run(main(*sys.argv[1:]))
