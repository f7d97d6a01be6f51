"""Tools of development that are not tests: each is run as `python -m tests.tools.NAME`."""
