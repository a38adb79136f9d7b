"""Settings for development; the last two lines are those of trio-stomp."""

import os
from pathlib import Path

SECRET_KEY = "for development"  # noqa: S105  # the example has no secrets
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", Path(__file__).with_name("orders.sqlite3")),
    }
}

STOMP_URL = os.environ.get("STOMP_URL", "stomp://guest:guest@localhost:61613")
STOMP_QUEUE = "/queue/orders"
