"""Tasks: tool calls that outlive their request, stored in a table and run where a setting says."""
