"""A site with the noisy app alone, which starts in half the time of the example site."""

SECRET_KEY = "noisy"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.transports.connection.noisy",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]}

print("settings: read")
