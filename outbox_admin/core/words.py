"""Figures as a person says them. English, no locale, no clock."""

from __future__ import annotations


def span(seconds: float) -> str:
    """``42 s``, ``5 min``, ``3 h 20 min``, ``71 h``, ``9 d``: at most two parts, never a false precision."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 6 and minutes:
        return f"{hours} h {minutes} min"
    if hours < 96:
        return f"{round(whole / 3600)} h"
    return f"{round(whole / 86400)} d"


def plural(number: int, noun: str, many: str = "") -> str:
    """``1 message``, ``2 messages``, ``10,000 tries``."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"
