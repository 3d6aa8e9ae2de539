"""Every statement that changes a table, a module per writer.

Nothing here commits: whoever opened the transaction ends it. Every change of state is one conditional UPDATE whose
returned rows say whether it happened.
"""
