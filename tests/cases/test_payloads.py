"""Payloads of other programs: sealed correctly, and not a message. Rejected one by one; mail behind them goes on."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from tests.cases.scene import BATCH, Scene, each
from tests.support import mail

WHOLE = '"to":"jane@example.com","subject":"s","text":"t"'  #: stands in documents below by its name
DEEP = 100_000


def octets(document: str) -> bytes:
    return document.replace("WHOLE", WHOLE).encode()


def unreadable(scene: Scene, *documents: str | bytes) -> None:
    given = [octets(document) if isinstance(document, str) else document for document in documents]
    row_ids = [scene.place(document) for document in given]
    scene.send()
    scene.assert_rejected(*row_ids, kind="payload_unreadable")


@each(
    "document",
    [
        "",
        "\0",
        "null",
        "[]",
        '"text"',
        "{}",
        "{WHOLE}",
        '{"v":0,WHOLE}',
        '{"v":"1",WHOLE}',
        '{"v":1.0,WHOLE}',
        '{"v":true,WHOLE}',
        '{"v":null,WHOLE}',
        '{"v":1,WHOLE',
        '{"v":1,WHOLE}{}',
        '\ufeff{"v":1,WHOLE}',
        '{"v":1,WHOLE,"bcc":"eve@example.com"}',
        '{"v":1,WHOLE,"x":1}',
        '{"v":1,WHOLE,"":""}',
    ],
)
def test_what_is_no_message_is_rejected(scene: Scene, document: str) -> None:
    unreadable(scene, document)


@each(
    "document",
    [
        '{"v":1,"v":1,WHOLE}',
        '{"v":1,WHOLE,"to":"eve@example.com"}',
        '{"v":1,WHOLE,"headers":{"X":"1","X":"2"}}',
        '{"v":1,WHOLE,"attachments":[{"name":"a","name":"b","type":"text/csv","content":""}]}',
        '{"v":1,WHOLE,"t\\u006f":"eve@example.com"}',
    ],
)
def test_a_key_given_twice_is_no_message(scene: Scene, document: str) -> None:
    unreadable(scene, document)


WRONG: list[Any] = [1, 1.5, True, {}, {"a": "b"}, [1], [None], [["a"]], 10**400]


@each("key", ["to", "subject", "text", "html", "from", "cc", "reply_to", "date", "message_id", "mime"])
def test_a_value_of_the_wrong_type_is_no_message(scene: Scene, key: str) -> None:
    minimal = {"v": 1, "to": mail.JANE, "subject": "s", "text": "t"}
    for value in WRONG:
        row_id = scene.place(json.dumps(minimal | {key: value}).encode())
        scene.send(scene.new_lane())
        scene.assert_rejected(row_id, kind="payload_unreadable")


@each(
    "extra",
    [
        '"headers":[]',
        '"headers":{"X":1}',
        '"headers":{"X":null}',
        '"headers":{"X":["a"]}',
        '"attachments":{}',
        '"attachments":[null]',
        '"attachments":[{"name":"a","type":"text/csv"}]',
        '"attachments":[{"name":"a","type":"text/csv","content":"*"}]',
        '"attachments":[{"name":"a","type":"text/csv","content":"YQ"}]',
        '"attachments":[{"name":"a","type":"text/csv","content":"YQ==","path":"/etc/passwd"}]',
        '"date":"yesterday"',
        '"date":"2026-12-01T08:00:00"',
        '"date":"99999-01-01T00:00:00+00:00"',
        '"mime":"*"',
        '"mime":"\u00e9"',
        '"context":{}',
        '"template":"x"',
    ],
)
def test_a_part_of_the_wrong_shape_is_no_message(scene: Scene, extra: str) -> None:
    unreadable(scene, f'{{"v":1,WHOLE,{extra}}}')


@each("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity", "1" * 5000, "0x1", "1e-999"])
def test_numbers_that_are_none_stop_nobody(scene: Scene, number: str) -> None:
    early = f'{{"v":{number},WHOLE}}'
    late = f'{{"v":1,"to":"jane@example.com","template":"x","context":{{"n":{number}}}}}'
    row_ids = [scene.place(octets(early)), scene.place(octets(late))]
    scene.send()
    assert scene.states(row_ids) <= {"rejected", "failed"}


@each("opened", ["[", '{"a":', '[{"a":'])
def test_nesting_without_end_is_no_message(scene: Scene, opened: str) -> None:
    deep = opened * DEEP
    closed = deep + "1" + "".join({"[": "]", "{": "}"}[sign] for sign in reversed(deep) if sign in "[{")
    unreadable(scene, deep, closed, *(f'{{"v":1,WHOLE,"headers":{text}}}' for text in (deep, closed)))


@each("depth", [200, 900, 2000, 20_000])
def test_a_deep_context_fails_its_own_message_only(scene: Scene, depth: int) -> None:
    nested = "[" * depth + "1" + "]" * depth
    document = f'{{"v":1,"to":"jane@example.com","template":"x","context":{{"a":{nested}}}}}'
    row_id = scene.place(octets(document))
    scene.send()
    assert scene.state(row_id) in ("rejected", "failed")


@each("data", [b"\xff\xfe{}", b'{"v":1,"to":"\xff"}', b"\xed\xa0\xbd", "{}".encode("utf-16"), b"\x80" * 9])
def test_what_is_not_utf8_is_no_message(scene: Scene, data: bytes) -> None:
    unreadable(scene, data)


@each(
    "fields",
    [
        {"to": []},
        {"to": [mail.JANE] * 51},
        {"to": [""]},
        {"cc": [mail.JANE, "jane"]},
        {"reply_to": "a@example.com, b@example.com"},
        {"from": ""},
        {"from": "shop"},
        {"from": "a@example.com, b@example.com"},
        {"envelope_from": ""},
        {"envelope_from": "postmaster"},
        {"message_id": "<a b@example.com>"},
        {"message_id": "<a@example.com>\r\nBcc: eve@example.com"},
        {"message_id": "é@example.com"},
        {"message_id": "x" * 2000},
        {"text": None},
        {"headers": {"Bcc": "eve@example.com"}},
    ],
)
def test_a_message_that_could_not_be_sent_as_it_is_meant_is_rejected(
    scene: Scene, fields: dict[str, Any]
) -> None:
    row_id = scene.place(**fields)
    scene.send()
    if fields == {"to": []}:
        assert scene.state(row_id) in ("sent", "rejected")
        return
    if fields in ({"from": ""}, {"envelope_from": ""}) and scene.state(row_id) == "sent":
        assert mail.mailboxes(scene.content(row_id), "From") == [("Shop", "no-reply@shop.example")]
        return
    scene.assert_rejected(row_id)


@each("date", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-12-01T08:00:00+23:59"])
def test_a_date_at_the_edge_of_the_calendar_stops_nobody(scene: Scene, date: str) -> None:
    row_id = scene.place(date=date)
    scene.send()
    assert scene.state(row_id) in ("sent", "rejected")


def finished(head: bytes, body: bytes = b"Hello\r\n") -> bytes:
    content = base64.b64encode(head + b"\r\n" + body).decode()
    return json.dumps({"v": 1, "mime": content}).encode()


@each(
    "document",
    [
        finished(b"Bcc: eve@example.com\r\nFrom: a@example.com\r\n"),
        finished(b"From: a@example.com\r\nBcc : eve@example.com\r\n"),
        finished(b"From: a@example.com\r\nBCC\t: eve@example.com\r\n"),
        finished(b"From shop Tue Dec  1 08:00:00 2026\r\nFrom: a@example.com\r\n"),
        finished(b" From: a@example.com\r\n"),
        finished(b"From: a@example.com\r\n\t\r\n \r\nBcc: eve@example.com\r\n"),
        finished(b"From: a@example.com\r\nno field\r\n"),
        finished(b"From: a@example.com\r\nResent-Bcc: eve@example.com\r\n"),
        finished(b"From: a@example.com\nBcc: eve@example.com\r\n"),
        finished(b"From: a@example.com\rBcc: eve@example.com\r\n"),
        finished(b"From: a@example.com\r\nX: \0\r\n"),
        finished(b"From: a@example.com\r\n", b"\xff\r\n"),
        finished(b"From: a@example.com\r\n", b"x" * 999 + b"\r\n"),
        finished(b"From: a@example.com\r\n", b"a\n.\nb"),
        finished(b"From: \xff@example.com\r\n"),
        json.dumps({"v": 1, "mime": base64.b64encode(b"no header at all").decode()}).encode(),
        json.dumps({"v": 1, "mime": ""}).encode(),
    ],
)
def test_a_finished_message_that_is_not_fit_is_rejected(scene: Scene, document: bytes) -> None:
    row_id = scene.place(document)
    scene.send()
    scene.assert_rejected(row_id)
    assert not any(b"eve" in bytes(connection.octets) for connection in scene.relay.connections)


def test_a_whole_batch_of_bad_payloads_does_not_hold_up_the_mail_behind_it(scene: Scene) -> None:
    """Refused for what they say, each of them: that is neither a fault of the relay nor of the key ring."""
    row_ids: list[UUID] = [
        scene.place(subject=f"Hi\r\nBcc: {number}@example.com") for number in range(2 * BATCH)
    ]
    scene.send()
    scene.assert_rejected(*row_ids)
