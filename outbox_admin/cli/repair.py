"""``retry``, ``cancel`` and ``purge``: the console's buttons in a terminal. Conditional, counted, audited."""

from __future__ import annotations
