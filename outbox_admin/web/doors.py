"""Which process serves, when the console is loaded by Flask's command line. Reads where it runs; starts nothing."""

from __future__ import annotations

import click
from flask.cli import FlaskGroup
from flask.helpers import get_debug_flag
from werkzeug.serving import is_running_from_reloader


def serves_here() -> bool:
    """False in the parent of a reloader, which only watches files, and for commands such as ``flask shell``.

    Outside Flask's command line whoever loads the console is taken to serve it.
    """
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(context.find_root().command, FlaskGroup):
        return True
    if context.info_name != "run":
        return False
    reloads = context.params.get("reload")
    if reloads is None:
        reloads = get_debug_flag()
    return is_running_from_reloader() or not reloads
