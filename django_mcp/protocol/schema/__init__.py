"""JSON Schema: compiling a schema once, and validating values against it."""
