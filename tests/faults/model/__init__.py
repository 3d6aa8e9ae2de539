"""The whole queue as a world that is acted on step by step, and the laws that must hold after each step."""
