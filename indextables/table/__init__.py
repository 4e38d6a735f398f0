"""A table at one version, and transactions on it."""
