"""Writes Avro states: on top of the state that the files were read from, or from scratch.

A state that extends another references its manifests and adds manifests for new files, so its cost depends on the change and not on the
size of the table. The state manifest is written last, with an atomic create: a state is complete or absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from indextables.actions import Manifest, ManifestSet, Part
from indextables.errors import CheckpointError, ConcurrentConflict
from indextables.log import LogListing, TransactionLog, names
from indextables.logs import logger
from indextables.paths import LOG_FOLDER
from indextables.schema import from_spark_json
from indextables.state.checkpoints.avro import containers as avro
from indextables.state.checkpoints.avro import manifest_cache, manifests
from indextables.state.checkpoints.avro import state_files as avro_state
from indextables.state.checkpoints.avro.compaction import ManifestAction, StateFigures, compaction_reason, manifest_actions
from indextables.state.checkpoints.avro.file_loader import FileLoader, verified_manifests
from indextables.state.checkpoints.avro.layout import Kinds, bounds_of, slices
from indextables.state.checkpoints.avro.manifests import CODECS, Block, Packing
from indextables.state.checkpoints.avro.read import is_intact
from indextables.state.checkpoints.avro.state_files import ManifestInfo, StateManifest, manifest_path, read_state_manifest
from indextables.state.checkpoints.contents import AVRO_STATE_PROTOCOL, CheckpointOptions, Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.schema_registry import Registry


@dataclass(slots=True)
class _ManifestWriter:
    """Collects and writes the manifests of a new state."""

    log: TransactionLog
    packing: Packing
    kinds: Kinds
    max_rows: int  # of a manifest
    infos: list[ManifestInfo] = field(default_factory=list)
    reused: int = 0
    bytes_written: int = 0
    unpacked: int = 0

    def refer(self, manifest: Manifest) -> None:
        """References an existing manifest, by its path in the log folder even if it lies in the folder of another state (AVR-06)."""
        info: ManifestInfo = manifest.info
        size = len(self.log.store.read(manifest.path)) if info.size_bytes is None else info.size_bytes
        self.infos.append(structs.replace(info, path=manifest.path.removeprefix(LOG_FOLDER + "/"), size_bytes=size))
        self.reused += 1

    def write_all(self, rows: pa.Table) -> None:
        for piece in slices(rows, self.kinds, self.max_rows):
            self.write(piece)

    def write(self, rows: pa.Table, blocks: Sequence[Block] | None = None) -> None:
        """Writes a manifest of these rows and verifies it. `blocks` are the encoded rows, if the caller has them."""
        if pc.count_distinct(rows.column("path")).as_py() != rows.num_rows:
            raise CheckpointError(f"a manifest of {rows.num_rows} files would contain a path twice")
        blocks = manifests.encode_blocks(rows, self.packing) if blocks is None else blocks
        data = manifests.assemble(blocks, self.packing)
        path = manifests.path_of(data)
        added_at = pc.min_max(rows.column("added_at_version").fill_null(0)).as_py()
        info = ManifestInfo(
            path=path,
            num_entries=rows.num_rows,
            min_added_at_version=added_at["min"] or 0,
            max_added_at_version=added_at["max"] or 0,
            partition_bounds=bounds_of(rows, self.kinds) or None,
            size_bytes=len(data),
        )
        store, target = self.log.store, f"{LOG_FOLDER}/{path}"
        if not store.create(target, data) and store.read(target) != data:
            store.replace(target, data)  # the existing file does not match the digest in its name
        digest = manifests.digest_of(store.read(target))
        if digest != manifests.digest_in(path):
            raise CheckpointError(f"manifest {path!r} differs from what was written when read back")
        verified_manifests(self.log).add(target)
        manifest_cache.put_paths(digest, rows.column("path"))
        self.infos.append(info)
        self.bytes_written += len(data)
        self.unpacked += len(data) + sum(int(lengths.sum()) - len(packed) for _, packed, lengths in blocks)


def write_state(log: TransactionLog, contents: Contents, options: CheckpointOptions, *, force: bool = False) -> WrittenCheckpoint:
    """Writes the state of a version, replacing a broken one; CheckpointError if it cannot be read back as written."""
    version = contents.version
    schema = from_spark_json(contents.metadata.schema_string)
    kinds = {name: schema.field(name).type for name in contents.metadata.partition_columns if name in schema.names}
    packing = Packing(CODECS[options.compression], options.compression_level)
    writer = _ManifestWriter(log, packing, kinds, options.entries_per_manifest)
    base = contents.files.base
    # Doc mappings by hash without prefix (C-41): those of the table, and those that only the base state has.
    registry = {**(base.mappings if base is not None else {}), **Registry.of(contents.metadata).texts}
    tombstones = _write_manifests(writer, contents, options, registry, force=force)
    state = _state(contents, writer.infos, tombstones, registry, log.clock.now_ms())
    entries = sum(info.num_entries for info in writer.infos)
    if entries - len(tombstones) != state.num_files:
        raise CheckpointError(f"state {version} would have {entries - len(tombstones)} files, but the table has {state.num_files}")
    size = _publish(log, state, options, replacing=force)
    return contents.written(
        Format.AVRO,
        size + sum(info.size_bytes or 0 for info in writer.infos),
        writer.bytes_written + size,
        manifests_written=len(writer.infos) - writer.reused,
        manifests_reused=writer.reused,
        state_dir=names.state_folder(version),
        unpacked_size=writer.unpacked + size,
    )


def written_state(log: TransactionLog, listing: LogListing, contents: Contents, options: CheckpointOptions) -> WrittenCheckpoint:
    """Describes the existing state of this version."""
    version = contents.version
    infos = read_state_manifest(log.store, version).manifests
    paths = [avro_state.state_path(version, options.manifest_format), *(manifest_path(info.path, version) for info in infos)]
    size = sum(stamp[0] for path in paths if (stamp := listing.stamp(path)) is not None)
    return contents.written(Format.AVRO, size, 0, manifests_reused=len(infos), state_dir=names.state_folder(version))


def _write_manifests(
    writer: _ManifestWriter, contents: Contents, options: CheckpointOptions, registry: dict[str, str], *, force: bool
) -> list[str]:
    """Writes the manifests and returns the tombstones. Manifests of the base are loaded only if some of their entries are dead."""
    files, base, loader = contents.files, contents.files.base, FileLoader(writer.log)
    newer = _with_refs(files.newer.table(), registry)
    if base is None:
        writer.write_all(newer)
        return []
    hidden = loader.hidden(files)
    removed = _existing_paths(loader.parts(files), hidden - base.tombstones) if hidden else set()
    dead = base.tombstones | removed
    figures = StateFigures(
        live=contents.num_files,
        tombstones=len(base.tombstones),
        removed=len(removed),
        manifests=len(base.manifests) + (newer.num_rows > 0),
        readded=bool(dead) and not dead.isdisjoint(newer.column("path").to_pylist()),
        force=force,
    )
    why = compaction_reason(figures, options)
    if why is not None:
        logger.info("compacting the state of version %s: %s", base.version, why)
        # If no entry is dead, only the small manifests are read.
        dead_rows = (
            [frozenset().union(*part.dead) for part in loader.parts(files)] if dead or force else [frozenset()] * len(base.manifests)
        )
        _compact(writer, base, dead_rows, newer)
        return []
    for manifest in base.manifests:
        writer.refer(manifest)
    writer.write_all(newer)
    return sorted(dead)


def _existing_paths(parts: Iterable[Part], gone: frozenset[str]) -> set[str]:
    """The paths that are in these manifests. A tombstone without an entry would make every count wrong (C-46)."""
    searched = pa.array(sorted(gone), pa.string())
    found: set[str] = set()
    for part in parts:
        paths = part.segment.rows.column("path")
        found.update(paths.filter(pc.is_in(paths, searched)).to_pylist())
    return found


def _compact(writer: _ManifestWriter, base: ManifestSet, dead: Sequence[frozenset[int]], newer: pa.Table) -> None:
    """Writes a compacted state. Only manifests that are small or have dead entries are loaded and rewritten."""
    merged, loader = [], FileLoader(writer.log)
    entries = [(manifest.num_entries, len(rows)) for manifest, rows in zip(base.manifests, dead, strict=True)]
    actions = manifest_actions(entries, writer.max_rows, newer.num_rows)
    for manifest, rows_gone, action in zip(base.manifests, dead, actions, strict=True):
        if action is ManifestAction.KEEP:
            writer.refer(manifest)
        elif action is not ManifestAction.DROP:
            (segment,) = loader.segments([manifest])
            part = Part(segment, (rows_gone,) if rows_gone else ())
            rows = part.table()
            if action is ManifestAction.MERGE:
                merged.append(rows)
                continue
            if rows.num_rows <= writer.max_rows:
                writer.write(rows, _blocks_without_dead(writer, manifest, part))
            else:
                writer.write_all(rows)
    writer.write_all(pa.concat_tables([*merged, newer]))


def _blocks_without_dead(writer: _ManifestWriter, manifest: Manifest, part: Part) -> list[Block] | None:
    """The manifest's blocks without dead entries; blocks that have none are copied. None if the codec differs from the configured one."""
    data = writer.log.store.read(manifest.path)
    if manifests.digest_of(data) != manifest.digest:
        return None
    container = avro.parse(data, manifest.path)
    copied = manifests.own_blocks(container, manifest.path)
    if copied is None or container.codec != writer.packing.codec:
        return None
    alive = np.zeros(part.segment.num_rows, bool)
    alive[part.live if part.live is not None else slice(None)] = True
    blocks: list[Block] = []
    start = 0
    for block in copied:
        kept = alive[start : start + block[0]]
        if kept.all():
            blocks.append(block)
        elif kept.any():
            blocks += manifests.encode_blocks(part.segment.rows.slice(start, block[0]).filter(pa.array(kept)), writer.packing)
        start += block[0]
    return blocks


def _with_refs(rows: pa.Table, registry: dict[str, str]) -> pa.Table:
    """The rows without doc mappings that are in the registry; mappings of referring rows are added to it."""
    refs, texts = rows.column("doc_mapping_ref"), rows.column("doc_mapping_json")
    if refs.null_count == len(refs) or texts.null_count == len(texts):
        return rows
    for ref in pc.unique(refs.drop_null()).to_pylist():
        refers = pc.equal(refs, pa.scalar(ref))
        mappings = texts.filter(refers).drop_null()
        if len(mappings):
            registry.setdefault(ref, mappings[0].as_py())
            known = pc.and_kleene(refers, pc.equal(texts, pa.scalar(registry[ref], pa.large_string())))
            texts = pc.if_else(known.fill_null(False), pa.scalar(None, pa.large_string()), texts)
    return rows.set_column(rows.schema.get_field_index("doc_mapping_json"), rows.schema.field("doc_mapping_json"), texts)


def _state(contents: Contents, infos: list[ManifestInfo], tombstones: list[str], registry: dict[str, str], now_ms: int) -> StateManifest:
    return StateManifest(
        format_version=avro_state.FORMAT_VERSION,
        state_version=contents.version,
        created_at=now_ms,
        num_files=contents.num_files,
        total_bytes=contents.totals.size,
        manifests=infos,
        tombstones=tombstones,
        schema_registry=registry,
        protocol_version=AVRO_STATE_PROTOCOL,
        metadata=msgspec.json.encode({"metaData": contents.metadata}).decode(),
        protocol=contents.protocol,
        txn=list(contents.txns) or None,
        mergeskip=list(contents.skips) or None,
        total_records=contents.totals.num_records,
        version=contents.version,
    )


_ENCODERS = {"avro": avro_state.encode_avro, "json": avro_state.encode_json}


def _publish(log: TransactionLog, state: StateManifest, options: CheckpointOptions, *, replacing: bool) -> int:
    """Writes the state manifest, verifies it, and returns its size.

    A broken existing one is replaced. With `replacing` a valid one is replaced too: it describes the same files, and the manifests that it
    references exist until a purge. The other form (Avro or JSON) is written as well if it exists or is configured: readers use either, so
    both must reference the same manifests.
    """
    version, form = state.state_version, options.manifest_format
    data = _ENCODERS[form](state)
    path = avro_state.state_path(version, form)
    is_written = log.store.create(path, data)
    if not is_written and (replacing or not is_intact(log, version)):
        log.store.replace(path, data)
        is_written = True
    listing = log.uncached_listing()
    for other in _ENCODERS.keys() - {form}:
        is_there = listing.stamp(avro_state.state_path(version, other)) is not None
        if is_written and (is_there or options.both_manifest_forms):
            log.store.replace(avro_state.state_path(version, other), _ENCODERS[other](state))
    missing = [info.path for info in state.manifests if listing.stamp(info.path) is None]
    if missing and not is_intact(log, version):  # it is intact if the deleting process has written the same version
        raise ConcurrentConflict(f"another process deleted manifest {missing[0]!r} while state {version} was written; try again")
    found = read_state_manifest(log.store, version)
    if found.num_files != state.num_files or found.digest is None:
        raise CheckpointError(f"state {version} differs from what was written when read back")
    return len(data)
