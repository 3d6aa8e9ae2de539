"""Who takes part: how each one fills its queue, what its processes are, and how many messages it still has.

A peer's program runs in an environment of its own (venvs.py, peers/); its knobs are those that its documentation names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
import sqlalchemy as sa

from outbox_admin import Entry, KeyRing, Message, Outbox
from tests.benchmarks import mail, venvs
from tests.benchmarks.measures import Program
from tests.support.databases import disposable_engine
from tests.support.ports import HOST

PEERS = Path(__file__).parent / "peers"
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("outbox-admin"))
#: Messages of one transaction when our own queue is filled.
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contender works: its database, a relay's port, a folder for what it needs beside."""

    url: str
    port: int
    folder: Path

    @property
    def plain_url(self) -> str:
        """For drivers: without the dialect's name."""
        return self.url.replace("+psycopg", "")


@dataclass(frozen=True, slots=True)
class Contender:
    """``settings`` are environment variables; ``processes`` are started together, unless it forks by itself."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1
    is_peer: bool = True
    on_sqlite: bool = False

    def fill(self, place: Place, mails: int) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def left(self, place: Place) -> int:
        raise NotImplementedError

    def programs(self, place: Place) -> list[Program]:
        return [Program(self.command(), self.environ(place))] * self.processes

    def environ(self, place: Place) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return kept | dict(self.settings)


class Ours(Contender):
    """The product by its own command line."""

    def fill(self, place: Place, mails: int) -> None:
        fill(place, range(mails))

    def command(self) -> list[str]:
        return [PROGRAM, "worker", "--drain"]

    def environ(self, place: Place) -> dict[str, str]:
        return super().environ(place) | settings(place) | dict(self.settings)

    def left(self, place: Place) -> int:
        with disposable_engine(place.url) as engine, engine.begin() as db:
            return db.execute(sa.text("SELECT count(*) FROM email_outbox WHERE state <> 'sent'")).scalar_one()


@dataclass(frozen=True, slots=True)
class Peer(Contender):
    """``peer`` names its environment, ``program`` its file in peers/, ``waiting`` counts what is not sent."""

    peer: str = ""
    program: str = ""
    waiting: str = ""

    def fill(self, place: Place, mails: int) -> None:
        file = place.folder / f"mails-{mails}.jsonl"
        if not file.exists():
            mail.write_mails(file, mails)
        environ = self.environ(place) | {"BENCH_MAILS": str(file)}
        _finish(Program([*self.python(), "fill"], environ))

    def python(self) -> list[str]:
        return [str(venvs.python_of(self.peer)), str(PEERS / self.program)]

    def command(self) -> list[str]:
        return [*self.python(), "run"]

    def environ(self, place: Place) -> dict[str, str]:
        ways = {
            "BENCH_DATABASE": place.plain_url,
            "BENCH_SMTP_PORT": str(place.port),
            "BENCH_LOCK": str(place.folder / "post-office"),
        }
        return super(Peer, self).environ(place) | ways

    def left(self, place: Place) -> int:
        with psycopg.connect(place.plain_url) as db:
            found = db.execute(self.waiting.encode()).fetchone()
        return int(found[0]) if found else 0


def fill(place: Place, numbers: range) -> None:
    """These messages into our own queue, as a busy application would."""
    outbox = Outbox(keys=ring(place.folder), sender=mail.SENDER)
    with disposable_engine(place.url) as engine:
        for start in range(0, len(numbers), CHUNK):
            with engine.begin() as db:
                outbox.enqueue_many(db, [entry(number) for number in numbers[start : start + CHUNK]])


def ring(folder: Path) -> KeyRing:
    file = folder / "keyring.json"
    if not file.exists():
        KeyRing.generate().write(file)
    return KeyRing.load(file)


def entry(number: int) -> Entry:
    one = mail.mail(number)
    return Entry(
        Message(one.to, one.subject, one.text, one.html), f"bench:{number}", template_key="order.sent"
    )


def settings(place: Place) -> dict[str, str]:
    """Of a worker: only what it cannot do without."""
    ring(place.folder)
    return {
        "OUTBOX_ENV": "production",
        "OUTBOX_DATABASE_URL": place.url,
        "OUTBOX_KEY_RING": str(place.folder / "keyring.json"),
        "OUTBOX_SENDER": mail.SENDER,
        "OUTBOX_SMTP_URL": f"smtp://{HOST}:{place.port}",
        "OUTBOX_SMTP_TLS": "none-i-understand",
        "PYTHONPATH": str(ROOT),
    }


def chosen(field: Sequence[Contender], options: argparse.Namespace) -> list[Contender]:
    """Those that were asked for, ours with the settings that were given; in a hurry ours alone."""
    alone, words = options.no_peers or options.quick, options.only or [""]
    given = dict(pair.split("=", 1) for pair in options.set)
    return [
        replace(one, settings={**one.settings, **({} if one.is_peer else given)})
        for one in field
        if not (alone and one.is_peer) and any(word in one.name for word in words)
    ]


def django(name: str, **knobs: str) -> Peer:
    return Peer(
        f"django-post-office, {name}",
        {f"BENCH_{knob.upper()}": value for knob, value in knobs.items()},
        peer="django-post-office",
        program="django_mail.py",
        waiting="SELECT count(*) FROM post_office_email WHERE status IS DISTINCT FROM 0",
    )


def pgqueuer(name: str, processes: int, **knobs: str) -> Peer:
    return Peer(
        f"pgqueuer, {name}",
        {f"BENCH_{knob.upper()}": value for knob, value in knobs.items()},
        processes,
        peer="pgqueuer",
        program="pgqueuer_mail.py",
        waiting="SELECT count(*) FROM pgqueuer",
    )


def by_hand() -> Peer:
    return Peer(
        "smtplib loop, kept connection",
        peer="smtplib",
        program="smtplib_loop.py",
        waiting="SELECT count(*) FROM mails WHERE sent_at IS NULL",
    )


def ours(name: str, processes: int = 1, *, on_sqlite: bool = False, **knobs: str) -> Ours:
    given = {f"OUTBOX_{knob.upper()}": value for knob, value in knobs.items()}
    return Ours(f"outbox-admin, {name}", given, processes, is_peer=False, on_sqlite=on_sqlite)


def _finish(program: Program) -> None:
    done = subprocess.run(program.command, env=program.environ, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{program.command} ended with {done.returncode}:\n{done.stderr[-3000:]}")
