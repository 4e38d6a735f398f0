"""What a sequence of transactions amounts to. Pure: no storage, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from indextables.actions.live import EMPTY, LiveFiles
from indextables.actions.model import Action, Add, Metadata, Protocol, Remove, Txn
from indextables.paths import are_plain

Normalise = Callable[[str], str]  # a path of the log -> relative to the table; raises UnsafePath


class Replay:
    """Folds actions in version order: an add puts by path, a remove takes away by path, the latest protocol and metadata win."""

    def __init__(
        self,
        normalise: Normalise,
        *,
        protocol: Protocol | None = None,
        metadata: Metadata | None = None,
        files: LiveFiles = EMPTY,
        txns: Mapping[str, Txn] | None = None,
    ) -> None:
        self._normalise = normalise
        self.protocol = protocol
        self.metadata = metadata
        self._files = files.edit()
        self.txns: dict[str, Txn] = dict(txns or {})

    def apply(self, version: int, actions: Sequence[Action]) -> None:
        # Usually all paths are plain, which is found out for all of them at once.
        is_plain = are_plain([action.path for action in actions if isinstance(action, Add | Remove)])
        put = self._files.put
        for action in actions:
            if isinstance(action, Add):
                if is_plain and action.added_at_version == version:
                    put(action.path, action)  # as version files have it
                    continue
                path = self._normalise(action.path)
                put(path, structs.replace(action, path=path, added_at_version=version))
            elif isinstance(action, Remove):
                self._files.remove(action.path if is_plain else self._normalise(action.path))
            elif isinstance(action, Protocol):
                self.protocol = action
            elif isinstance(action, Metadata):
                self.metadata = action
            elif isinstance(action, Txn):
                self.put_txn(action)

    def put(self, add: Add) -> None:
        """An add as it stands, from a checkpoint. A path added anew goes to the end, as in the log."""
        path = self._normalise(add.path)
        self._files.put(path, add if add.path == path else structs.replace(add, path=path))

    def put_txn(self, txn: Txn) -> None:
        known = self.txns.get(txn.app_id)
        if known is None or known.version < txn.version:
            self.txns[txn.app_id] = txn

    def files(self) -> LiveFiles:
        """What is live now; the replay ends with it."""
        return self._files.done()
