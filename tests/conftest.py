"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# The machine may be busy: how long one example takes says nothing. A failure can be repeated from the blob it prints.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
