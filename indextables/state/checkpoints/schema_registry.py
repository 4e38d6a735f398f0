"""The schema registry: doc mappings stored once, in the table's configuration; adds reference them by a hash (`docMappingRef`).

Entries are never removed, because version files still reference old ones when the log is read without its checkpoint.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from indextables.actions import MAPPING_PREFIX as PREFIX
from indextables.actions import Action, Add, LayeredFiles, Metadata, Part, Protocol, columns
from indextables.state.checkpoints.checked_columns import live_files

NEEDED = Protocol.of(3, "schemaDeduplication")
_HASH_CHARACTERS = 16


@lru_cache(maxsize=1024)
def schema_hash(text: str) -> str | None:
    """A hash that ignores the order of keys and of named items (SDD-01); None if the text is not JSON."""
    try:
        canonical = json.dumps(_canonical(json.loads(text)), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        digest = hashlib.sha256(canonical.encode()).digest()
    except (ValueError, RecursionError):
        return None
    return base64.urlsafe_b64encode(digest).decode()[:_HASH_CHARACTERS]


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    items = [_canonical(inner) for inner in value]
    if items and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return sorted(items, key=lambda item: str(item["name"]))
    return items


class Registry:
    """Doc mappings by hash, from the `schemaRegistry` of a state or the configuration of a table; the prefix of keys is optional."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = {key.removeprefix(PREFIX): text for key, text in texts.items()}  # by hash, without prefix

    @classmethod
    def of(cls, metadata: Metadata) -> Registry:
        return cls({key: text for key, text in metadata.configuration.items() if key.startswith(PREFIX)})

    def outdated(self, threshold: int) -> dict[str, str]:
        """Old ref -> hash, for refs that are not the hash of their mapping; empty if the registry has at most `threshold` entries (SDD-05).

        Refs that we write are always hashes; then the result is empty and the files need not be examined.
        """
        if len(self.texts) <= threshold:
            return {}
        hashes = {ref: schema_hash(text) for ref, text in self.texts.items()}
        return {ref: new for ref, new in hashes.items() if new is not None and new != ref}

    def renamed(self, used: Sequence[str], threshold: int) -> dict[str, str]:
        """The entries of `outdated` that live files use; empty if they use at most `threshold` refs."""
        if len(used) <= threshold:
            return {}
        old = self.outdated(threshold)
        return {ref: old[ref] for ref in used if ref in old}

    def missing(self, files: LayeredFiles, renamed: Mapping[str, str]) -> dict[str, str]:
        """Hash -> text of mappings that are not registered yet: those contained in newer files, and those of `renamed` refs."""
        found = {new: self.texts[old] for old, new in renamed.items()}
        for text in column_values(files.newer.all_parts, "doc_mapping_json"):
            known = schema_hash(text)
            if known is not None:
                found[known] = text
        return {new: text for new, text in found.items() if new not in self.texts}

    def normalised(self, files: LayeredFiles, renamed: Mapping[str, str]) -> LayeredFiles:
        """The files with references instead of registered mappings, and with `renamed` refs; the same object if nothing changes."""
        renamed = {old: new for old, new in renamed.items() if new in self.texts}
        hashes = {text: schema_hash(text) for text in column_values(files.newer.all_parts, "doc_mapping_json")}
        known = {text: new for text, new in hashes.items() if new is not None and new in self.texts}
        if not renamed and not known:
            return files
        table = files.newer.table()
        texts, refs = table.column("doc_mapping_json"), table.column("doc_mapping_ref")
        new_refs = pc.coalesce(_mapped(texts, known), _mapped(refs, renamed), refs)
        left = pc.if_else(pc.is_in(texts, pa.array(list(known), texts.type)), pa.scalar(None, texts.type), texts)
        for name, column in (("doc_mapping_ref", new_refs), ("doc_mapping_json", left)):
            place = columns.SCHEMA.get_field_index(name)
            table = table.set_column(place, columns.SCHEMA.field(name), column.cast(columns.SCHEMA.field(name).type))
        return replace(files, newer=live_files(table))


def column_values(parts: Iterable[Part], name: str) -> list[str]:
    """The distinct values of a column, oldest first. Columns with nulls only cost nothing."""
    found: dict[str, None] = {}
    for part in parts:
        column = part.segment.rows.column(name)
        if column.null_count < len(column):
            found.update(dict.fromkeys(pc.unique(column).to_pylist()))
    return [text for text in found if text is not None]


def _mapped(column: pa.ChunkedArray, words: Mapping[str, str]) -> pa.ChunkedArray:
    """Replaces each text by its value in `words`; null if it has none."""
    places = pc.index_in(column, pa.array(list(words), column.type))
    return pc.take(pa.array(list(words.values()), pa.string()), places)


def registered(metadata: Metadata, entries: Mapping[str, str]) -> Metadata:
    """The metadata with these entries added to its configuration; the same object if it has them already."""
    more = {PREFIX + key: text for key, text in entries.items() if PREFIX + key not in metadata.configuration}
    return structs.replace(metadata, configuration={**metadata.configuration, **more}) if more else metadata


def deduplicated(actions: Sequence[Action], metadata: Metadata) -> tuple[list[Action], bool]:
    """The actions of a commit with adds that reference their doc mapping, and whether any does. `metadata` is the table's.

    New mappings are added to the commit's metadata, along with all earlier ones if the commit replaces the metadata.
    """
    found: dict[str, str] = {}
    rewritten = [_with_ref(action, found) for action in actions]
    refers = any(isinstance(action, Add) and action.doc_mapping_ref is not None for action in rewritten)
    if any(isinstance(action, Metadata) for action in rewritten):
        texts = {**Registry.of(metadata).texts, **found}
        rewritten = [registered(action, texts) if isinstance(action, Metadata) else action for action in rewritten]
    elif (updated := registered(metadata, found)) is not metadata:
        rewritten.insert(0, updated)
    return rewritten, refers


def _with_ref(action: Action, found: dict[str, str]) -> Action:
    """The add with a reference instead of its mapping, which is put into `found`; other actions unchanged."""
    if not isinstance(action, Add) or action.doc_mapping_json is None:
        return action
    known = schema_hash(action.doc_mapping_json)
    if known is None:
        return action
    found[known] = action.doc_mapping_json
    return structs.replace(action, doc_mapping_ref=known, doc_mapping_json=None)
