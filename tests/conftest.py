"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The machine may be busy: how long an example takes, or is drawn, says nothing. A failure can be repeated from the blob it prints.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("house")
