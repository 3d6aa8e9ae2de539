"""Faults of real processes: killed, stopped, cut off, out of space; and how many copies each of them costs."""
