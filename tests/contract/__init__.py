"""The tests behind tests/test_contract.py, by subject. What each of them proves is said by its `proves`."""
