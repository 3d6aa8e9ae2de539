import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.ringfile import check_access, read_file, stamp_of, write_file
from outbox_admin.errors import ConfigurationError

ME = 4711
CANARY = "canary-in-the-ring"


def status(*, mode: int, user: int, kind: int = stat.S_IFREG) -> os.stat_result:
    return os.stat_result((kind | mode, 1, 1, 1, user, 0, 10, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "user", "allowed"),
    [
        (0o600, ME, True),
        (0o400, ME, True),
        (0o640, ME, False),
        (0o604, ME, False),
        (0o644, ME, False),
        (0o700, ME, False),
        (0o600, 0, True),
        (0o640, 0, True),
        (0o440, 0, True),
        (0o400, 0, True),
        (0o644, 0, False),
        (0o660, 0, False),
        (0o600, 1234, False),
        (0o400, 1234, False),
    ],
)
def test_s11_only_its_own_user_and_root_may_have_written_a_ring_and_nobody_else_read_it(mode, user, allowed):
    found = status(mode=mode, user=user)
    if allowed:
        check_access(found, path="/etc/outbox/ring.json", user=ME)
        return
    with pytest.raises(ConfigurationError, match="key ring /etc/outbox"):
        check_access(found, path="/etc/outbox/ring.json", user=ME)


def ring_file(folder: Path, mode: int = 0o600, text: str = CANARY) -> Path:
    path = folder / "ring.json"
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_file(str(path))
    message = str(caught.value)
    assert CANARY not in message
    assert str(path) in message
    return message


def test_s11_a_ring_that_all_may_read_is_refused_with_the_cure(tmp_path):
    path = ring_file(tmp_path, mode=0o644)
    assert "has mode 0644" in refusal(path)
    assert f"{path}" in refusal(path).partition("run: chmod ")[2]


def test_s11_a_link_to_a_ring_that_all_may_read_is_refused(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(ring_file(tmp_path, mode=0o644))
    assert "has mode 0644" in refusal(link)


def test_a_link_to_a_well_kept_ring_is_followed(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(ring_file(tmp_path))
    assert read_file(str(link)).text == CANARY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.may_skip
def test_s11_a_ring_of_a_foreign_owner_is_refused(tmp_path):
    path = ring_file(tmp_path)
    os.chown(path, 12345, -1)
    assert "belongs to user 12345" in refusal(path)


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "not a regular file" in refusal(pipe)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    assert "is a directory" in refusal(folder)
    assert "no such file" in refusal(tmp_path / "missing")


def test_what_is_too_large_or_no_text_is_refused(tmp_path):
    assert "larger than 1 MiB" in refusal(ring_file(tmp_path, text="x" * 1_048_577))
    path = ring_file(tmp_path)
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal(path)


def test_a_written_ring_is_ours_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_file(str(tmp_path / "ring.json"), "text", replace=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ring.json").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.may_skip
def test_a_replaced_ring_of_root_stays_readable_for_the_group_that_reads_it(tmp_path):
    path = ring_file(tmp_path, text="old")
    os.chown(path, 0, 12345)
    path.chmod(0o640)
    write_file(str(path), "new", replace=True)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 12345, 0o640)


def test_replacing_goes_through_a_link_to_the_file_behind_it(tmp_path):
    path = ring_file(tmp_path, text="old")
    link = tmp_path / "link"
    link.symlink_to(path)
    write_file(str(link), "new", replace=True)
    assert link.is_symlink()
    assert path.read_text() == "new"


@contextmanager
def no_file_larger_than(octets: int) -> Iterator[None]:
    """The system itself refuses, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_failed_write_leaves_the_old_ring_and_no_draft(tmp_path):
    path = ring_file(tmp_path, text="old")
    with (
        no_file_larger_than(100),
        pytest.raises(ConfigurationError, match="cannot be written, file too large"),
    ):
        write_file(str(path), "x" * 200_000, replace=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["ring.json"]


def test_writing_where_there_is_no_folder_names_the_path(tmp_path):
    with pytest.raises(ConfigurationError, match="no such file or directory"):
        KeyRing.generate().write(tmp_path / "missing" / "ring.json")


def test_the_stamp_tells_every_rewritten_file(tmp_path):
    path = ring_file(tmp_path, text="one")
    first = stamp_of(str(path))
    assert first == read_file(str(path)).stamp
    write_file(str(path), "two", replace=True)
    assert stamp_of(str(path)) not in (first, None)
    assert stamp_of(str(tmp_path / "missing")) is None
