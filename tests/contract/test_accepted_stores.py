"""Which stores are accepted: those with an atomic create, others for a single writer only, none without its package."""

from __future__ import annotations

import sys
from dataclasses import replace

import fsspec  # noqa: F401
import pytest

from indextables.cli.main import main
from indextables.errors import ConfigError
from indextables.storage import open_store
from indextables.storage.generic import FsspecBackend
from indextables.storage.remote import Backend, RemoteStore
from indextables.storage.s3 import S3Backend
from tests.contract.conftest import spec_of
from tests.support import non_atomic_store


@pytest.mark.parametrize("place", ["plain://tmp/x", "hdfs://host/t", "ftp://host/t", "http://host/t", "webhdfs://host/t"])
def test_stores_without_atomic_create_need_a_single_writer(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    non_atomic_store.register()
    with pytest.raises(ConfigError, match=r"cannot create files atomically.*storage\.singleWriter=true"):
        open_store(spec_of(place))
    assert main(["describe", place]) == 78
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert open_store(spec_of(place, **{"storage.singleWriter": "true"})).root.scheme == place.split(":", maxsplit=1)[0]


@pytest.mark.parametrize("kind", [S3Backend, FsspecBackend])
def test_only_servers_that_may_ignore_the_condition_are_probed(kind: type[Backend]) -> None:
    """By writers and by doctor alike: S3 servers, not Google and Azure. A single writer needs no proof."""
    backend = kind.__new__(kind)  # neither package nor server is needed
    backend.creates_atomically = True
    for single_writer in (False, True):
        spec = replace(spec_of("s3://bucket/t"), single_writer=single_writer)
        assert RemoteStore(spec, backend).capabilities.needs_atomicity_probe == (kind is S3Backend and not single_writer)


@pytest.mark.parametrize(
    ("place", "module", "words"),
    [
        ("gs://bucket/table", "gcsfs", "gs:// needs a package that is not installed: install gcsfs (pip install 'indextables[gs]')"),
        ("gcs://bucket/table", "gcsfs", "gs:// needs a package that is not installed: install gcsfs (pip install 'indextables[gs]')"),
        ("abfss://c@a.dfs.core.windows.net/t", "adlfs", "install adlfs (pip install 'indextables[azure]')"),
        ("wasbs://c@a.blob.core.windows.net/t", "adlfs", "install adlfs (pip install 'indextables[azure]')"),
        ("smb://host/t", "smbprotocol", "smb:// needs a package that is not installed: install the package of fsspec for smb"),
    ],
)
def test_a_missing_package_is_named_in_one_line(
    place: str, module: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (module, f"{module}.core"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "abfs", raising=False)  # what was found once is kept
    for verb in (["describe", place], ["count", place], ["checkpoint", place]):
        assert main(verb) == 78
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_an_unknown_scheme_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="nosuch:// is not a store that fsspec supports"):
        open_store(spec_of("nosuch://x/t"))
    assert main(["describe", "nosuch://x/t"]) == 78
    assert len(capsys.readouterr().err.splitlines()) == 1
