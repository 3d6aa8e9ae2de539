"""The least that django-post-office needs; its own knobs come in by the environment."""

import os
from urllib.parse import urlsplit

_place = urlsplit(os.environ["BENCH_DATABASE"])

SECRET_KEY = "not a secret"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "post_office"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _place.hostname,
        "PORT": _place.port,
        "USER": _place.username,
        "NAME": _place.path.strip("/"),
    }
}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
EMAIL_BACKEND = "post_office.EmailBackend"
EMAIL_HOST, EMAIL_PORT = "127.0.0.1", int(os.environ.get("BENCH_SMTP_PORT", "25"))
POST_OFFICE = {
    "BATCH_SIZE": int(os.environ.get("BENCH_BATCH", "100")),
    "THREADS_PER_PROCESS": int(os.environ.get("BENCH_CONNECTIONS", "5")),
    "LOG_LEVEL": int(os.environ.get("BENCH_LOG_LEVEL", "2")),
    "BATCH_DELIVERY_TIMEOUT": 600,
}
