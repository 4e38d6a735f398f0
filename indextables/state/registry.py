"""The schema registry: doc mappings said once, which adds refer to by a hash (`docMappingRef`)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from indextables.actions import Add

PREFIX = "docMappingSchema."


class Registry:
    """From a state's `schemaRegistry` (bare keys, or prefixed by native writers) or a table's configuration (prefixed among others)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {key.removeprefix(PREFIX): text for key, text in texts.items()}

    def restored(self, add: Add) -> Add:
        """The add with its mapping spelt out, where it refers to one that is known."""
        if add.doc_mapping_ref is None or add.doc_mapping_json is not None or add.doc_mapping_ref not in self._texts:
            return add
        return structs.replace(add, doc_mapping_json=self._texts[add.doc_mapping_ref])
