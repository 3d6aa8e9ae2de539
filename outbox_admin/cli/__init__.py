"""The command ``outbox-admin``: thin commands over the other rooms, a module a topic. Every console button is one."""

from __future__ import annotations

import click

from outbox_admin.cli.boundary import Commands

_HERE = "outbox_admin.cli"
_PLACES = {
    "init": f"{_HERE}.setup:init",
    "demo": f"{_HERE}.demo:demo",
    "web": f"{_HERE}.serving:web",
    "worker": f"{_HERE}.serving:worker",
    "status": f"{_HERE}.status:status",
    "enqueue": f"{_HERE}.sending:enqueue",
    "list": f"{_HERE}.queue:list_messages",
    "show": f"{_HERE}.queue:show",
    "explain": f"{_HERE}.explaining:explain",
    "retry": f"{_HERE}.repair:retry",
    "settle": f"{_HERE}.settling:settle",
    "cancel": f"{_HERE}.repair:cancel",
    "unreadable": f"{_HERE}.unreadable:unreadable",
    "resume": f"{_HERE}.resuming:resume",
    "routes": f"{_HERE}.routes:routes",
    "probe": f"{_HERE}.routes:probe",
    "hold": f"{_HERE}.holding:hold",
    "holds": f"{_HERE}.holding:holds",
    "unhold": f"{_HERE}.holding:unhold",
    "suppress": f"{_HERE}.suppressing:suppress",
    "erase": f"{_HERE}.erasing:erase",
    "purge": f"{_HERE}.purging:purge",
    "db": f"{_HERE}.database:db",
    "keys": f"{_HERE}.keys:keys",
    "users": f"{_HERE}.users:users",
    "check": f"{_HERE}.check:check",
}


@click.command(
    cls=Commands,
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="outbox-admin")
def main() -> None:
    """Run and repair a transactional e-mail outbox.

    Settings come from OUTBOX_* environment variables alone; see the README, or `outbox-admin check`.

    \b
    Exit codes: 0 done, 1 warning or refused, 2 critical or wrong usage, 78 configuration.

    \b
    Example:
      outbox-admin demo
    """
