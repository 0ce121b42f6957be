"""What a server offers: tools, resources, templates of resources, prompts.

A component is what an author declared, read once and ready to be listed and called.
"""
