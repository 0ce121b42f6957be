"""The settings of a site whose Redis is found by Sentinel, as the documentation has them."""

import json
import os

from redis.sentinel import Sentinel

from tests.services.site.settings import *  # noqa: F403

SENTINELS = [tuple(address) for address in json.loads(os.environ["SENTINELS"])]

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [{"sentinels": SENTINELS, "master_name": "main", "db": 1}]},
    },
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://main/2",
        "OPTIONS": {
            "pool_class": "redis.sentinel.SentinelConnectionPool",
            "service_name": "main",
            "sentinel_manager": Sentinel(SENTINELS, socket_timeout=1),  # type: ignore[no-untyped-call]
        },
    },
}
