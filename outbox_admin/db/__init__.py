"""The database: tables, the statements that change them (``store``), the queries over them (``reads``), migrations."""
