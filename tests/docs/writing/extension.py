# shop/tests.py
import pytest

from django_mcp import ConfigurationError, tool


def test_quota_is_a_number():
    with pytest.raises(ConfigurationError, match="write a number of calls"):
        tool(per_hour="many")(test_quota_is_a_number)
