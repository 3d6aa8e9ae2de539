"""The worker: opens, composes and hands over what is due, and records what became of it. Never imports the console."""
