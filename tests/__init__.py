"""The tests mirror the package: a test file for each module, a folder for each room."""
