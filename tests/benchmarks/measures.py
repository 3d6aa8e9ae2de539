"""What a run took: seconds, processor time of each side, the most memory. Read from /proc, where there is one."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.benchmarks.servers import Sink
from tests.support.children import child

_TICK, _SELDOM = 0.005, 4  #: seconds between two looks; memory is read at each fourth
_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _CHILDREN_END = 11, 15  #: of /proc/PID/stat, counted behind the name


@dataclass(frozen=True, slots=True)
class Program:
    """One process of a contender."""

    command: Sequence[str]
    environ: dict[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """``seconds``: from the first connection at the sink to the end of the last process. ``start``: before that.

    Processor times in seconds: ``cpu`` from the first connection on, of all processes of the contender.
    """

    seconds: float
    start: float
    cpu: float
    postgres_cpu: float
    sink_cpu: float
    rss: int


def run(programs: Sequence[Program], *, sink: Sink, postgres: int | None, log: Path) -> Run:
    """Starts all of them together; raises when one fails."""
    quiet, before = sink.connections(), _children_cpu()
    servers = _cpu(postgres), _cpu(sink.pid)
    began = time.monotonic()
    with ExitStack() as stack:
        output = stack.enter_context(log.open("ab"))
        processes = [_start(stack, program, output) for program in programs]
        first = _watch(processes, lambda: sink.connections() > quiet)
        spent = sum(_cpu(process.pid) for process in processes)
        last = _watch(processes, lambda: False)
    _check(processes, log)
    return Run(
        seconds=last.at - first.at,
        start=first.at - began,
        cpu=_children_cpu() - before - spent,
        postgres_cpu=_cpu(postgres) - servers[0],
        sink_cpu=_cpu(sink.pid) - servers[1],
        rss=max(first.rss, last.rss),
    )


def _start(stack: ExitStack, program: Program, output: IO[bytes]) -> subprocess.Popen[bytes]:
    options = {"env": program.environ, "stdout": output, "stderr": output}
    return stack.enter_context(child(program.command, **options))


@dataclass(frozen=True, slots=True)
class _Seen:
    """The moment, and the most memory that the processes had together until then."""

    at: float
    rss: int


def _watch(processes: Sequence[subprocess.Popen[bytes]], until: Callable[[], bool]) -> _Seen:
    """Until the condition comes true, or all processes have ended."""
    rss, tick = 0, 0
    while not _ended(processes) and not until():
        if tick % _SELDOM == 0:
            rss = max(rss, sum(_rss(process.pid) for process in processes))
        tick += 1
        time.sleep(_TICK)
    return _Seen(time.monotonic(), rss)


def _ended(processes: Iterable[subprocess.Popen[bytes]]) -> bool:
    return all(process.poll() is not None for process in processes)


def _check(processes: Iterable[subprocess.Popen[bytes]], log: Path) -> None:
    for process in processes:
        if process.returncode:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"{process.args} ended with {process.returncode}:\n{tail}")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stat(pid: int) -> list[str]:
    """The fields behind the name; empty when the process is gone or the system has no /proc."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _cpu(pid: int | None) -> float:
    """Of the process, of its children that have ended, and of those that live, to any depth."""
    total = 0
    for one in _family(pid):
        total += sum(int(field) for field in _stat(one)[_UTIME:_CHILDREN_END])
    return total / _TICKS


def _rss(pid: int) -> int:
    """The most that the process, and each of its children, has ever had in memory, added up."""
    return sum(_highest(one) for one in _family(pid))


def _highest(pid: int) -> int:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return next(
            (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0
        )
    return 0


def _family(pid: int | None) -> list[int]:
    if pid is None:
        return []
    family = [pid]
    for parent in family:  # grows while it is walked
        with suppress(OSError):
            family += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return family
