"""Verbs that examine a table without changing it.

`doctor` checks the log and `verify` the splits; `health`, `describe_state` and `describe_log` return figures. `describe_options` lists the
options in effect with their sources.
"""

from __future__ import annotations

from indextables.operations.inspect.doctor_checks import doctor
from indextables.operations.inspect.effective_options import describe_options
from indextables.operations.inspect.health_document import health, health_report
from indextables.operations.inspect.log_actions import describe_log
from indextables.operations.inspect.state_summary import SCHEMA, describe_state
from indextables.operations.inspect.table_summary import describe, metrics
from indextables.operations.inspect.verify_splits import MISSING, VerifyTask, verify
