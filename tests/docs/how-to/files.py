# shop/tests.py
import pytest

from django_mcp.testing import ErrorResponse, SyncClient


def test_files_of_the_folder_are_read():
    with SyncClient() as client:
        result = client.read_resource("manual:teapots/care.txt")
        assert result.text == "Never use soap."


def test_nothing_else_is_read():
    with SyncClient() as client:
        for path in (
            "../secret.txt",
            "%2e%2e/secret.txt",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "C:/boot.ini",
            "none.txt",
        ):
            with pytest.raises(ErrorResponse):
                client.read_resource(f"manual:{path}")
