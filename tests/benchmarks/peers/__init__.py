"""Programs that run in a contender's own environment. They know nothing of this package: a file of mails, a database
and a port come in by the environment (BENCH_MAILS, BENCH_DATABASE, BENCH_SMTP_PORT).

Each has the verbs ``fill`` and ``run``.
"""
