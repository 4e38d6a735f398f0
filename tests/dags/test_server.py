"""The local Airflow: its settings and commands, and that no process is left after it stops."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from indextables.airflow.local import server
from indextables.airflow.local.settings import airflow_environment, password
from tests.support.airflow_project import SOURCE, STUB_PATH, StubSpark, make_project
from tests.support.processes import has_ended


def test_everything_is_kept_in_one_folder_that_only_the_owner_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    home = tmp_path / "home"
    first = airflow_environment(home, port=1234, root=tmp_path)
    assert first == airflow_environment(home, port=1234, root=tmp_path)
    assert first["AIRFLOW_HOME"] == str(home)
    assert first["AIRFLOW__CORE__DAGS_FOLDER"] == str(tmp_path / "dags")
    assert first["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert first["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:1234"
    assert json.loads(first["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"
    assert len(first["AIRFLOW__API_AUTH__JWT_SECRET"]) == 128
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.iterdir()} == {0o600}
    assert password(home) not in json.dumps(first)
    assert airflow_environment(tmp_path / "other")["AIRFLOW__API__SECRET_KEY"] != first["AIRFLOW__API__SECRET_KEY"]


def test_settings_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "mine")
    monkeypatch.setenv("NO_PROXY", "example")
    monkeypatch.setenv("PYTHONPATH", "/lib")
    given = airflow_environment(tmp_path / "home", root=tmp_path)
    assert given["AIRFLOW_CONN_SPARK_DEFAULT"] == "mine"
    assert given["NO_PROXY"] == "127.0.0.1,localhost,example"
    assert given["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/lib"


def test_down_and_status_while_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert server.main(["down"]) == 0
    assert server.main(["status"]) == 1
    (tmp_path / ".airflow").mkdir()
    assert server.main(["down"]) == 0
    assert server.main(["status"]) == 1
    (tmp_path / ".airflow" / "server.json").write_text("{")
    assert server.main(["down"]) == 0
    assert set(capsys.readouterr().out.splitlines()) == {"Airflow is not up"}


@pytest.mark.parametrize("port", ["", "abc", "80", "70000", "٨٠٨٠", "-1"])
def test_a_bad_port_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], port: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dags").mkdir()
    monkeypatch.setenv("INDEXTABLES_PORT", port)
    assert server.main(["up"]) == 2
    assert capsys.readouterr().err == f"error: INDEXTABLES_PORT {port!r} is not a port from 1024 to 65535\n"


def test_a_folder_without_dags_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert server.main(["up"]) == 78
    assert "there is no folder 'dags'" in capsys.readouterr().err
    assert not (tmp_path / ".airflow").exists()


def test_a_port_in_use_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dags").mkdir()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("INDEXTABLES_PORT", str(port))
        assert server.main(["up"]) == 1
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err
    assert not (tmp_path / ".airflow" / "server.json").exists()


def test_a_part_that_does_not_start_is_reported_and_no_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"db": "0", "scheduler": "sys.exit('no database')"}  # what `python -m airflow PART` runs here
    code = f"import sys, time\neval({parts}.get(sys.argv[1], 'time.sleep(60)'))\n"
    (tmp_path / "airflow.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INDEXTABLES_PORT", "18745")
    (tmp_path / "dags").mkdir()
    assert server.main(["up"]) == 1
    assert "error: the scheduler exited at once: no database" in capsys.readouterr().err
    assert not (tmp_path / ".airflow" / "server.json").exists()


def test_two_commands_at_a_time_are_refused(tmp_path: Path) -> None:
    with server._locked(tmp_path), pytest.raises(server.ServerError, match="is still running"), server._locked(tmp_path):
        pass


# A part that ignores SIGTERM and has two children, one of them in a separate session.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(120)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
print(*[child.pid for child in children], flush=True)
time.sleep(120)
"""


def test_stopping_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(server, "CHILDREN_STOP_SECONDS", 0)
    monkeypatch.chdir(tmp_path)
    home = tmp_path / ".airflow"
    home.mkdir()
    environment = os.environ | {server.MARK: "this one"}
    command = [sys.executable, "-c", STUBBORN]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as part:
        assert part.stdout is not None
        children = [int(pid) for pid in part.stdout.readline().split()]
        state = {"token": "this one", "port": 1, "parts": {"part": part.pid}, "at": time.time()}
        (home / "server.json").write_text(json.dumps(state))
        assert server.main(["status"]) == 0
        assert server.main(["down"]) == 0
    assert "3 processes were still running and had to be killed" in capsys.readouterr().out
    assert all(has_ended(pid) for pid in (part.pid, *children))
    assert server.main(["status"]) == 1


def test_a_reused_process_id_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as other:
        state = server.State("gone", 1, {"part": other.pid}, time.time() - 1000)
        assert server._processes(state) == []
        server._stop(tmp_path, state)
        assert other.poll() is None
        other.kill()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.airflow
def test_up_serves_the_dags_and_down_ends_it(tmp_path: Path) -> None:
    make_project(tmp_path, "tables: [{name: t, path: p, write: {source: s}}]")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    path = os.pathsep.join([str(STUB_PATH), clean["PATH"]])
    environment = clean | {"INDEXTABLES_PORT": str(port), "PYTHONPATH": str(SOURCE), "PATH": path, "STUB_SPARK": str(tmp_path)}

    def call(verb: str) -> str:
        command = [sys.executable, "-m", "indextables.airflow.local.server", verb]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        printed = call("up")
        assert f"http://127.0.0.1:{port}" in printed
        assert "indextables_t_maintain, indextables_t_write" in printed
        secret = password(tmp_path / ".airflow")
        assert f"admin / {secret}" in printed
        assert "is already up" in call("up")
        url = f"http://127.0.0.1:{port}"
        token = server._call(f"{url}/auth/token", {"username": "admin", "password": secret})["access_token"]
        server._call(f"{url}/api/v2/dags/indextables_t_write/dagRuns", {"logical_date": None}, token)
        deadline = time.monotonic() + 120
        # The write updates the asset, which triggers the maintenance.
        while StubSpark(tmp_path).jobs != ["write", "merge_splits", "checkpoint", "purge"]:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        state = server._state(tmp_path / ".airflow")
        assert state is not None
        pids = [process.pid for process in server._processes(state)]
        assert len(pids) >= 4
    finally:
        assert "Airflow is down" in call("down")
    assert all(has_ended(pid) for pid in pids)
