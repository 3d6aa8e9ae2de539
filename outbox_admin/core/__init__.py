"""Pure decisions: no clock, no dice, no file, no socket, no database. Values come in, values go out."""
