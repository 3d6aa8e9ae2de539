"""``users``: who may sign in to the console. Accounts are made here and nowhere else."""

from __future__ import annotations

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import Desk, actor, desk, reading
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.cli.passwords import ask_hash, password_file_option
from outbox_admin.db.reads import people
from outbox_admin.db.store import audit
from outbox_admin.db.store import users as store

ROLES = ("viewer", "operator", "admin")


@click.group()
def users() -> None:
    """Accounts of the console.

    \b
    Example:
      outbox-admin users add grace --role operator
    """


@users.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="viewer", show_default=True)
@password_file_option
def add(name: str, role: str, password_file: str | None) -> None:
    """Make an account; the password is asked for.

    \b
    Examples:
      outbox-admin users add grace --role admin
      pass show outbox | outbox-admin users add grace --role admin --password-file -
    """
    password_hash = ask_hash(password_file)
    with desk() as at:
        if not store.add(at.db, name=name, role=role, password_hash=password_hash, now=at.now):
            raise Refused(
                f"There is an account called {name.casefold()} already; `users passwd` changes its password."
            )
        _note(at, "user_added", name)
    click.echo(f"{name.casefold()} may sign in as {role}.")


@users.command("list")
@json_option
def list_users(as_json: bool) -> None:
    """List the accounts.

    \b
    Example:
      outbox-admin users list --json
    """
    with reading() as at:
        found = people.everybody(at.db)
    if as_json:
        print_json({"users": found})
        return
    print_table(
        ("name", "role", "since", "disabled"),
        [(one.name, one.role, one.created_at, one.disabled_at) for one in found],
    )


@users.command()
@click.argument("name")
@password_file_option
def passwd(name: str, password_file: str | None) -> None:
    """Give an account a new password; its sessions end.

    \b
    Example:
      outbox-admin users passwd grace
    """
    password_hash = ask_hash(password_file)
    with desk() as at:
        if not store.set_password(at.db, name=name, password_hash=password_hash):
            raise Refused(f"There is no account called {name.casefold()}.")
        _note(at, "password_set", name)
        closed = any(one.disabled_at and one.name == name.casefold() for one in people.everybody(at.db))
    click.echo(f"{name.casefold()} has a new password and is signed out everywhere.")
    if closed:
        click.echo("The account stays closed; `outbox-admin users enable` opens it again.")


@users.command()
@click.argument("name")
def disable(name: str) -> None:
    """Close an account; its sessions end.

    \b
    Example:
      outbox-admin users disable grace
    """
    with desk() as at:
        if not store.disable(at.db, name=name, now=at.now):
            raise Refused(f"There is no open account called {name.casefold()}.")
        _note(at, "user_disabled", name)
    click.echo(f"{name.casefold()} may not sign in any more.")


@users.command()
@click.argument("name")
def enable(name: str) -> None:
    """Open a closed account again, with the role and the password it had.

    Exits 1 where no such account is closed.

    \b
    Example:
      outbox-admin users enable grace
    """
    with desk() as at:
        if not store.enable(at.db, name=name):
            raise Refused(
                f"There is no closed account called {name.casefold()}; see `outbox-admin users list`."
            )
        _note(at, "user_enabled", name)
    click.echo(f"{name.casefold()} may sign in again, with the password as before.")


def _note(at: Desk, action: str, name: str) -> None:
    audit.add(at.db, at=at.now, actor=actor(), action=action, target=f"user:{name.casefold()}")
