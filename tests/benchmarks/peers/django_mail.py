"""django-post-office by its own management command; ``fill`` goes by its models."""

import json
import os
import sys

import django
from django.core.management import call_command

SENDER = "no-reply@shop.example"


def fill() -> None:
    from post_office.models import PRIORITY, STATUS, Email

    call_command("migrate", verbosity=0)
    with open(os.environ["BENCH_MAILS"]) as lines:
        rows = (json.loads(line) for line in lines)
        emails = [
            Email(
                from_email=SENDER,
                to=[one["to"]],
                subject=one["subject"],
                message=one["text"],
                html_message=one["html"],
                status=STATUS.queued,
                priority=PRIORITY.medium,
            )
            for one in rows
        ]
    Email.objects.bulk_create(emails, batch_size=1000)


def run() -> None:
    processes = int(os.environ.get("BENCH_PROCESSES", "1"))
    call_command("send_queued_mail", processes=processes, lockfile=os.environ["BENCH_LOCK"])


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    os.environ["DJANGO_SETTINGS_MODULE"] = "django_settings"
    django.setup()
    {"fill": fill, "run": run}[sys.argv[1]]()
