"""Row ids: UUID version 7, drawn in the process, so that they grow with time and are known before any statement.

Version 7 keeps new rows together at the end of every index. A forked child draws other ids than its parent.
"""

from __future__ import annotations

import sys
from uuid import UUID

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh id; later ones are greater within one process."""
    return uuid7()
