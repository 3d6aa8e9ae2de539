"""The database: tables, every statement that changes them (``store``), every query over them (``reads``), migrations."""
