"""pgqueuer as its documentation shows it, with smtplib connections that are kept, one for each thread."""

import asyncio
import json
import os
import smtplib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formatdate, make_msgid

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

SENDER = "no-reply@shop.example"
BATCH = int(os.environ.get("BENCH_BATCH", "100"))
CONNECTIONS = int(os.environ.get("BENCH_CONNECTIONS", "4"))
KEPT = threading.local()


def mails() -> list[bytes]:
    with open(os.environ["BENCH_MAILS"], "rb") as lines:
        return list(lines)


async def fill(queries: Queries) -> None:
    await queries.install()
    payloads = mails()
    for start in range(0, len(payloads), 1000):
        part = payloads[start : start + 1000]
        await queries.enqueue(["mail"] * len(part), part, [0] * len(part))


def send(payload: bytes) -> None:
    one = json.loads(payload)
    message = MIMEMultipart("alternative")
    message["From"], message["To"], message["Subject"] = SENDER, one["to"], one["subject"]
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="shop.example")
    message.attach(MIMEText(one["text"], "plain", "us-ascii"))
    message.attach(MIMEText(one["html"], "html", "us-ascii"))
    relay().sendmail(SENDER, [one["to"]], message.as_bytes())


def relay() -> smtplib.SMTP:
    if not hasattr(KEPT, "relay"):
        port = int(os.environ["BENCH_SMTP_PORT"])
        KEPT.relay = smtplib.SMTP("127.0.0.1", port, local_hostname="localhost")
    return KEPT.relay


async def run(queries: Queries) -> None:
    manager = QueueManager(queries)
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(CONNECTIONS)

    @manager.entrypoint("mail")
    async def deliver(job: Job) -> None:
        if CONNECTIONS == 1:  # in the loop itself: nothing else could use the time
            send(job.payload)
        else:
            await loop.run_in_executor(threads, send, job.payload)

    mode = QueueExecutionMode.continuous if sys.argv[1] == "serve" else QueueExecutionMode.drain
    await manager.run(batch_size=BATCH, mode=mode, dequeue_timeout=timedelta(seconds=30))


async def main() -> None:
    connection = await asyncpg.connect(os.environ["BENCH_DATABASE"])
    queries = Queries(AsyncpgDriver(connection))
    await (fill(queries) if sys.argv[1] == "fill" else run(queries))


if __name__ == "__main__":
    uvloop.run(main())
