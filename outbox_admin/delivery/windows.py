"""Which claimed rows are opened, marked and sent together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from outbox_admin.core.lifecycle import OnUnknown
from outbox_admin.db.store.claims import INLINE, Claim
from outbox_admin.delivery.opening import Ready

#: Octets of payload that are open at a time, beside a single larger one.
MOST = 4 * INLINE


def windows_of(claims: Sequence[Claim], size: int) -> Iterator[list[Claim]]:
    """In order: up to ``size`` rows where each may be announced early, else one."""
    window: list[Claim] = []
    octets = 0
    for claim in claims:
        alone = announced_alone(claim)
        if window and (alone or len(window) >= size or octets + claim.payload_size > MOST):
            yield window
            window, octets = [], 0
        window.append(claim)
        octets += claim.payload_size
        if alone:
            yield window
            window, octets = [], 0
    if window:
        yield window


def announced_alone(claim: Claim) -> bool:
    """Known before it is opened: at most once, or too large to be read with others."""
    return claim.on_unknown == OnUnknown.HOLD or claim.payload is None


def grouped(ready: Iterable[Ready]) -> Iterator[list[Ready]]:
    """What may be marked together, in order; lazily, so that a late-rendered message is rendered in its turn."""
    group: list[Ready] = []
    for item in ready:
        if not item.alone:
            group.append(item)
            continue
        if group:
            yield group
        yield [item]
        group = []
    if group:
        yield group
