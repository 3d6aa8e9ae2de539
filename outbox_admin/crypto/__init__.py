"""Sealing and opening payloads, and the ring of keys that does it. Imports nothing of this package but the errors."""
