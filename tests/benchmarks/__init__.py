"""Measurements, each a command of its own; none of them is part of the tests."""
