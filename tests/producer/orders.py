"""The application's side of the producer's tests: a table of its own, a mail, and looks at both."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from outbox_admin.core.message import Message
from outbox_admin.db.schema import email_outbox


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


def mail(to: Any = "jane@example.com", **values: Any) -> Message:
    return Message(to, values.pop("subject", "Your order"), values.pop("text", "Thank you."), **values)


def rows(engine: sa.Engine) -> list[Any]:
    with engine.connect() as db:
        return list(
            db.execute(sa.select(email_outbox).order_by(email_outbox.c.idempotency_key, email_outbox.c.part))
        )


def orders(engine: sa.Engine) -> list[int]:
    with engine.connect() as db:
        return list(db.execute(sa.select(Order.id).order_by(Order.id)).scalars())
