"""The command line, against real databases and files."""
