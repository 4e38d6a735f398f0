"""Derived state beside the log: it may always be rebuilt from it."""
