"""How fast it is, beside others: ``python -m tests.benchmarks drain`` and its fellows; docs/benchmarks.md explains.

Never part of the tests: only that it still runs is one of them. Every figure is of this machine at this time, so each
command runs what it compares in turn, in the same minutes, and says ratios.
"""
