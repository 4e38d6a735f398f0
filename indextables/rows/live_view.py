"""Searches many live splits as one index and reads the rows of the hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indextables import limits
from indextables.actions import Add
from indextables.process_cache import ProcessCache
from indextables.rows.live_split import LiveRows, LiveSplit
from indextables.splits import Group, Hits, ParsedQuery, SplitPlace, View, cached_view, open_view
from indextables.table import Snapshot, TableContext


@dataclass(frozen=True, slots=True)
class LiveView:
    """Open splits of a snapshot in the order of the log. Hits are positions in files; `rows` gives the rows of a split."""

    snapshot: Snapshot
    adds: Sequence[Add]
    _view: View

    @property
    def groups(self) -> Sequence[Group]:
        """Groups of splits that are scored together."""
        return self._view.groups

    def search(self, query: ParsedQuery, limit: int) -> Hits:
        """The best `limit` hits of all splits. Only valid if all splits are in `fully_matching_files`."""
        return self._view.search(query, limit)

    def rows(self, number: int) -> LiveRows:
        """The rows of the split with this number in `Hits`."""
        return LiveSplit.of(self.snapshot, self.adds[number]).rows_of(self._view.readers[number])


def open_live_view(context: TableContext, snapshot: Snapshot, adds: Sequence[Add]) -> LiveView:
    """Opens the splits as one index. Caches the locations of the files, because finding them costs more than a search.

    Raises the errors of `LiveSplit.open`.
    """
    key = (str(context.root), context.store.spec.endpoint, *(add.path for add in adds))
    known = _PLACES.get(key)
    if known is not None and (view := cached_view(known)) is not None:
        return LiveView(snapshot, adds, view)
    splits = [LiveSplit.of(snapshot, add) for add in adds]
    partly = len(adds) <= limits.PARTIAL_SPLITS
    places = [split.find(context, partly) for split in splits]
    try:
        view = open_view(places)
    except FileNotFoundError as error:
        raise next(split for split in splits if split.add.path == str(error)).missing(context) from None
    for split, reader in zip(splits, view.readers, strict=True):
        split.rows_of(reader)  # checks all splits before the first hit
    _PLACES.pop(key)
    _PLACES.put(key, places)
    return LiveView(snapshot, adds, view)


_PLACES: ProcessCache[tuple[str, ...], list[SplitPlace]] = ProcessCache(lambda: (limits.OPEN_VIEWS,))
