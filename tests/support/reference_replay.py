"""Replay in its simplest form, as specified: a dict of paths, updated by the JSON actions one by one."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any


@dataclass
class State:
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # in log order
    txns: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None

    def after(self, version: int, actions: list[dict[str, Any]]) -> State:
        new = copy.copy(self)
        new.files, new.txns = dict(self.files), dict(self.txns)
        for action in actions:
            if "add" in action:
                new.files.pop(action["add"]["path"], None)
                new.files[action["add"]["path"]] = {**action["add"], "addedAtVersion": version}
            elif "remove" in action:
                new.files.pop(action["remove"]["path"], None)
            elif "txn" in action:
                app, number = action["txn"]["appId"], action["txn"]["version"]
                new.txns[app] = max(number, new.txns.get(app, number))
            elif "metaData" in action:
                new.metadata = action["metaData"]
            elif "protocol" in action:
                new.protocol = action["protocol"]
        return new
