"""Where a program's time goes: ``python -m tests.benchmarks.profiling FOLDER outbox-admin worker --drain``.

A thread looks at the stacks of all others every few milliseconds and weighs each look by the processor time that the
thread has used since the last one. Beside it every SQL statement is counted and timed. Python runs about a fifth
slower under it: it tells shares, not speeds. FOLDER gets ``functions.txt``, ``statements.txt`` and ``stacks.folded``,
which flame graph viewers read.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import sqlalchemy as sa

_EVERY = 0.002
#: Else a look would come only where a thread lets go by itself, which is where it waits.
_SWITCH = 0.00001
_SHOWN = 60
#: One statement is one statement however many rows it carries.
_PARAMETER = re.compile(r"%\(\w+\)s(?:::[A-Z]+(?: WITH TIME ZONE)?)?")
_LISTS = re.compile(r"\?(?:, \?)+")
_TUPLES = re.compile(r"(?:, \(\?\))+")
_UNION = " UNION ALL SELECT "


class Stacks:
    """Seconds of processor time by stack, outermost function first."""

    def __init__(self) -> None:
        self.seconds: Counter[tuple[str, ...]] = Counter()
        self._used: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _look_again(self) -> None:
        own = threading.get_ident()
        while not self._over.wait(_EVERY):
            for ident, frame in sys._current_frames().items():
                if ident != own:
                    self._note(ident, frame)

    def _note(self, ident: int, frame: FrameType) -> None:
        with suppress(OSError):  # it has ended
            now = time.clock_gettime(time.pthread_getcpuclockid(ident))
            spent = now - self._used.get(ident, now)
            self._used[ident] = now
            if spent > 0:
                self.seconds[_stack(frame)] += spent


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    names: list[str] = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{_module(code.co_filename)}:{code.co_qualname}")
        frame = frame.f_back
    return tuple(reversed(names))


def _module(file: str) -> str:
    for mark in ("site-packages/", "/outbox_admin/", "/lib/python"):
        _, found, rest = file.rpartition(mark)
        if found:
            return ("outbox_admin/" if "outbox_admin" in mark else "") + rest
    return Path(file).name


class Statements:
    """How often each statement ran, and how long the caller waited for it."""

    def __init__(self) -> None:
        self.times: defaultdict[str, list[float]] = defaultdict(list)

    def watch(self) -> None:
        sa.event.listen(sa.Engine, "before_cursor_execute", self._before)
        sa.event.listen(sa.Engine, "after_cursor_execute", self._after)
        sa.event.listen(sa.Engine, "commit", lambda db: self.times["COMMIT"].append(0.0))

    def _before(self, *_: Any) -> None:
        threading.current_thread().__dict__["_statement_began"] = time.perf_counter()

    def _after(self, db: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        spent = time.perf_counter() - threading.current_thread().__dict__["_statement_began"]
        self.times[plain(statement)].append(spent)


def plain(statement: str) -> str:
    """Without names of parameters; whatever repeats for each row stands there once."""
    short = _TUPLES.sub(" …", _LISTS.sub("?", _PARAMETER.sub("?", " ".join(statement.split()))))
    first, *others = short.split(_UNION)
    return f"{first} …{_UNION}{others[-1]}" if others else first


def functions(stacks: Counter[tuple[str, ...]]) -> str:
    """Own seconds first, then with all that was called."""
    whole = sum(stacks.values()) or 1.0
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for stack, seconds in stacks.items():
        own[stack[-1]] += seconds
        for name in set(stack):
            within[name] += seconds
    lines = [f"{whole:.2f} s of processor time", "", "own:"]
    lines += [f"{seconds / whole:6.1%} {name}" for name, seconds in own.most_common(_SHOWN)]
    lines += ["", "with what it calls:"]
    lines += [f"{seconds / whole:6.1%} {name}" for name, seconds in within.most_common(_SHOWN)]
    return "\n".join(lines) + "\n"


def statements(times: dict[str, list[float]], messages: int) -> str:
    lines = ["    runs    total s   each ms  statement"]
    for text, spent in sorted(times.items(), key=lambda one: (-sum(one[1]), -len(one[1]))):
        total = sum(spent)
        lines.append(f"{len(spent):8,} {total:10.3f} {total / len(spent) * 1000:9.3f}  {text[:500]}")
    number = sum(map(len, times.values()))
    lines.append(f"{number:8,} in all, COMMITs included (their time is not seen)")
    if messages:
        lines.append(f"{number / messages:8.2f} for each message of the whole queue")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder, program = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    sys.argv = sys.argv[2:]
    sys.setswitchinterval(_SWITCH)
    stacks, watched = Stacks(), Statements()
    watched.watch()
    stacks.start()
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        stacks.stop()
        (folder / "functions.txt").write_text(functions(stacks.seconds))
        (folder / "statements.txt").write_text(
            statements(watched.times, int(os.environ.get("BENCH_MESSAGES", "0")))
        )
        folded = (f"{';'.join(stack)} {seconds * 1e6:.0f}" for stack, seconds in stacks.seconds.items())
        (folder / "stacks.folded").write_text("\n".join(folded) + "\n")


if __name__ == "__main__":
    main()
