"""The console for any WSGI server: ``gunicorn wsgi:app``, ``flask --app wsgi run``. Settings come from OUTBOX_*."""

from outbox_admin.assemble import console

app = console()
