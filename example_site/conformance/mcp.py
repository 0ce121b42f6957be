"""What django_mcp finds of this app: the server, once its modules have registered everything.

Names, texts and schemas are those which the suite looks for, so they are no model to follow;
how they are produced is.
"""

from example_site.conformance import announcing, asking, prompts, resources, tools
from example_site.conformance.server import conformance

__all__ = ["announcing", "asking", "conformance", "prompts", "resources", "tools"]
