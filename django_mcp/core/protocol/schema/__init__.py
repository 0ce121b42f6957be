"""JSON Schema: compile a schema once and validate values against it."""
