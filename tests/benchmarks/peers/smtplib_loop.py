"""What people write by hand: a table, a loop, smtplib over one kept connection, a commit for each message."""

import json
import os
import smtplib
import sys
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formatdate, make_msgid

import psycopg

SENDER = "no-reply@shop.example"
TABLE = (
    "CREATE TABLE mails (id bigserial PRIMARY KEY, recipient text NOT NULL, subject text NOT NULL, text text NOT NULL, "
    "html text NOT NULL, sent_at timestamptz); CREATE INDEX waiting ON mails (id) WHERE sent_at IS NULL"
)


def fill(db: psycopg.Connection) -> None:
    db.execute(TABLE)
    with (
        open(os.environ["BENCH_MAILS"]) as lines,
        db.cursor().copy("COPY mails (recipient, subject, text, html) FROM STDIN") as rows,
    ):
        for line in lines:
            one = json.loads(line)
            rows.write_row((one["to"], one["subject"], one["text"], one["html"]))
    db.commit()


def compose(to: str, subject: str, text: str, html: str) -> bytes:
    message = MIMEMultipart("alternative")
    message["From"], message["To"], message["Subject"] = SENDER, to, subject
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="shop.example")
    message.attach(MIMEText(text, "plain", "us-ascii"))
    message.attach(MIMEText(html, "html", "us-ascii"))
    return message.as_bytes()


def run(db: psycopg.Connection) -> None:
    relay = smtplib.SMTP("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"]), local_hostname="localhost")
    query = "SELECT id, recipient, subject, text, html FROM mails WHERE sent_at IS NULL ORDER BY id LIMIT 100"
    while rows := db.execute(query).fetchall():
        for row_id, to, *content in rows:
            relay.sendmail(SENDER, [to], compose(to, *content))
            db.execute("UPDATE mails SET sent_at = now() WHERE id = %s", (row_id,))
            db.commit()
    relay.quit()


if __name__ == "__main__":
    with psycopg.connect(os.environ["BENCH_DATABASE"]) as connection:
        {"fill": fill, "run": run}[sys.argv[1]](connection)
