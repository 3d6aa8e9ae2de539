"""A transactional e-mail outbox with the console to run it."""
