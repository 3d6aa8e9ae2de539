"""Ids of processes that fork: each is drawn once."""

import os
from uuid import UUID

from outbox_admin.ids import new_id


def draw(_: int) -> list[UUID]:
    return [new_id() for _ in range(200)]


def test_forked_processes_draw_different_ids() -> None:
    new_id()  # so that there is a state to inherit
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"".join(one.bytes for one in draw(0)))
        os._exit(0)
    os.close(writer)
    own = draw(0)
    with os.fdopen(reader, "rb") as pipe:
        octets = pipe.read()
    os.waitpid(child, 0)
    theirs = [UUID(bytes=octets[start : start + 16]) for start in range(0, len(octets), 16)]
    assert len(theirs) == 200
    assert len({*own, *theirs}) == 400


def test_ids_grow_within_a_process_and_are_version_7() -> None:
    ids = draw(0)
    assert ids == sorted(ids)
    assert {one.version for one in ids} <= {7, None}
    assert {one.int >> 76 & 0xF for one in ids} == {7}
