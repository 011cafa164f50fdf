"""The project's own commands; the Makefile calls them as ``python -m tools.<name>``."""
