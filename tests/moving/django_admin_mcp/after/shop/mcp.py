from django_mcp.modeladmin import admin_tools

admin_tools(include=["shop"])
