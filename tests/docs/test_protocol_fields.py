"""docs/protocol.md lists every field of every file, and marks the required ones."""

from __future__ import annotations

import re

import msgspec
import pytest

from indextables.actions import Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.splits.format.bundle import Hotcache
from indextables.state.checkpoints.avro.entry import FIELDS, FieldType
from indextables.state.checkpoints.avro.state_files import ManifestInfo, StateManifest
from indextables.state.checkpoints.json.multipart import PartList
from indextables.state.checkpoints.parquet import CheckpointMetadata
from indextables.state.pointer import Pointer
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "protocol.md").read_text("utf-8")
IGNORED = {"tombstoneCount", "liveEntryCount"}  # fields of other programs
TABLES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "protocol": ("### `protocol`", Protocol),
    "metaData": ("### `metaData`", Metadata),
    "add": ("### `add`", Add),
    "remove": ("### `remove`", Remove),
    "mergeskip": ("### `mergeskip`", Skip),
    "commitInfo": ("### `commitInfo`", CommitInfo),
    "pointer": ("### Pointer", Pointer),
    "list of parts": ("### Multi-part JSON checkpoint", PartList),
    "Parquet metadata": ("| metadata field |", CheckpointMetadata),
    "state": ("### Avro state", StateManifest),
    "entry of a state": ("| field of a manifest entry |", ManifestInfo),
    "hotcache": ("### Hotcache", Hotcache),
}


def table_after(heading: str) -> list[tuple[list[str], str]]:
    """The first table at or after the heading: the names in the first cell of each row, and its second cell."""
    text = PAGE[PAGE.index(f"\n{heading}") :]
    lines = re.search(r"^\|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    assert lines is not None
    cells = [line.strip("|\n ").split(" | ") for line in lines[0].splitlines()[2:]]
    return [(re.findall(r"`(\w+)`", row[0]), row[1] if len(row) > 1 else "") for row in cells]


@pytest.mark.parametrize(("heading", "struct"), TABLES.values(), ids=TABLES)
def test_the_page_has_every_field(heading: str, struct: type[msgspec.Struct]) -> None:
    listed = [name for names, _ in table_after(heading) for name in names]
    assert len(set(listed)) == len(listed)
    assert set(listed) - IGNORED == {field.encode_name for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize("name", ["protocol", "metaData", "add", "remove", "mergeskip", "commitInfo", "pointer"])
def test_the_page_marks_required_fields(name: str) -> None:
    heading, struct = TABLES[name]
    required = {field.encode_name for field in msgspec.structs.fields(struct) if field.required}
    assert {name for names, kind in table_after(heading) if "required" in kind for name in names} == required


def test_the_page_has_every_field_of_a_manifest_in_order() -> None:
    """Its table has three columns of fields, each read from top to bottom."""
    kinds = {FieldType.LONG: "long", FieldType.INT: "int", FieldType.BOOLEAN: "boolean", FieldType.STRING: "string"}
    table = PAGE[PAGE.index("| id | field | id | field | id | field |") :]
    rows = [line.strip("| \n").split(" | ") for line in re.findall(r"^\| \d.*$", table[: table.index("\n\n")], re.MULTILINE)]
    found = [(row[place], row[place + 1]) for place in (0, 2, 4) for row in rows if len(row) > place + 1]
    expected = [(str(one.number), f"{one.name} {kinds.get(one.kind, one.kind.value)}{'?' * one.nullable}") for one in FIELDS]
    assert [(number, text.partition(",")[0]) for number, text in found] == expected
