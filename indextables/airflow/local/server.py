"""`python -m indextables.airflow.local.server up | down | status`: this project's Airflow with its UI, on this machine only.

Airflow's four parts run as separate processes rather than under `airflow standalone`, which leaves its children behind when it is
terminated, reports success although its port is in use, and opens log servers on every address of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from indextables.airflow.local.settings import HOST, PORT, USER, airflow_environment, password, private_folder
from indextables.errors import ConfigError, IndexTablesError, InvalidArgument

__all__ = ["airflow_environment", "down", "main", "status", "up"]

PARTS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
MARK = "INDEXTABLES_SERVER"  # variable in the environment of all processes that were started, including Spark jobs
START_SECONDS = 300
STOP_SECONDS = 30
CHILDREN_STOP_SECONDS = 3
_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerError(IndexTablesError):
    """Airflow did not start or stop as asked."""


@dataclass(frozen=True, slots=True)
class State:
    """What is needed to find a running server again."""

    token: str
    port: int
    parts: dict[str, int]  # process ids, each the leader of its own session
    at: float  # time when all parts had been started

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def up(home: Path, root: Path, port: int) -> None:
    """Starts Airflow and returns when it is healthy; does nothing if it is already up."""
    with _locked(home):
        state = _state(home)
        if state and _alive(state):
            print(f"Airflow is already up: {state.url} (user {USER}, password in {home / 'passwords.json'}); `make down` stops it")
            return
        if state:
            _stop(home, state)  # a part has died: stop the others
        _check_port(port)
        environment = {**os.environ, **airflow_environment(home, port=port, root=root), MARK: secrets.token_hex(8)}
        logs = private_folder(home / "logs")
        print("Starting Airflow, this takes about a minute …", flush=True)
        _migrate(root, environment, logs)
        parts = {name: _start(words, root, environment, logs / f"{name}.log") for name, words in PARTS.items()}
        state = State(environment[MARK], port, {name: process.pid for name, process in parts.items()}, time.time())
        (home / "server.json").write_text(json.dumps(asdict(state)))
        try:
            dags = _wait(state, parts, password(home), logs)
        except BaseException:
            _stop(home, state)
            for process in parts.values():
                process.wait()  # reaps it
            raise
    print(f"Airflow is up: {state.url}")
    print(f"  login  {USER} / {password(home)}")
    print(f"  DAGs   {', '.join(dags) or 'none yet'}")
    print(f"  logs   {logs}")
    print("  stop   make down")


def down(home: Path) -> None:
    """Stops Airflow and every process it started; does nothing if it is not up."""
    with _locked(home) if home.is_dir() else contextlib.nullcontext():
        state = _state(home)
        if state is None:
            print("Airflow is not up")
            return
        print("Stopping Airflow …", flush=True)
        killed = _stop(home, state)
    print(f"Airflow is down{f' ({killed} processes were still running and had to be killed)' if killed else ''}")


def status(home: Path) -> bool:
    """Prints whether Airflow runs, and where."""
    state = _state(home)
    running = state is not None and _alive(state)
    print(f"Airflow is up: {state.url}, logs in {home / 'logs'}" if state and running else "Airflow is not up")
    return running


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    with (private_folder(home) / "server.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerError(f"another `up` or `down` of {str(home)!r} is still running") from None
        yield


def _state(home: Path) -> State | None:
    try:
        return State(**json.loads((home / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ServerError(
                f"port {port} of {HOST} cannot be used ({error.strerror}); choose another one with INDEXTABLES_PORT"
            ) from None


def _migrate(root: Path, environment: dict[str, str], logs: Path) -> None:
    process = _start(["db", "migrate"], root, environment, logs / "migrate.log")
    if process.wait() != 0:
        raise ServerError(f"Airflow's database could not be created: {_last_line(logs / 'migrate.log')}")


def _start(words: Sequence[str], root: Path, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        command = [sys.executable, "-m", "airflow", *words]
        return subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def _wait(state: State, parts: dict[str, subprocess.Popen[bytes]], secret: str, logs: Path) -> list[str]:
    """Waits until every part is healthy, our password works (so that it is our server) and the DAGs are loaded; returns their ids."""
    deadline = time.monotonic() + START_SECONDS
    dag_deadline = None  # how long to wait for DAGs once all is healthy
    while time.monotonic() < deadline:
        for name, process in parts.items():
            if process.poll() is not None:
                raise ServerError(f"the {name} exited at once: {_last_line(logs / f'{name}.log')} (more in {logs / f'{name}.log'})")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            health = _call(f"{state.url}/api/v2/monitor/health")
            if all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor", "triggerer")):
                token = _call(f"{state.url}/auth/token", {"username": USER, "password": secret})["access_token"]
                found = _call(f"{state.url}/api/v2/dags?limit=100", token=token)["dags"]
                dag_deadline = dag_deadline or time.monotonic() + 30
                if found or time.monotonic() > dag_deadline:
                    return [dag["dag_id"] for dag in found]
        time.sleep(1)
    raise ServerError(f"Airflow is not healthy after {START_SECONDS} s; see {logs}")


def _call(url: str, body: dict[str, Any] | None = None, token: str | None = None) -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with _WITHOUT_PROXY.open(request, timeout=20) as response:
        return json.load(response)


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "no output"


def _processes(state: State) -> list[psutil.Process]:
    """All processes of the server: by session, by parent, and by the mark in their environment (which some parts overwrite)."""
    sessions = {pid for pid in state.parts.values() if not _is_reused(pid, state)}
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) in sessions:
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
            elif process.environ().get(MARK) == state.token:
                found[process.pid] = process
    found.pop(os.getpid(), None)
    return [process for process in found.values() if _runs(process)]


def _is_reused(pid: int, state: State) -> bool:
    """Whether the process id now belongs to a process that started after ours, for example after a reboot."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).create_time() > state.at + 5  # tolerates small corrections of the clock
    return False


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _alive(state: State) -> bool:
    running = {process.pid for process in _processes(state)}
    return running.issuperset(state.parts.values())


def _stop(home: Path, state: State) -> int:
    """Terminates the parts, waits for them, and kills remaining processes such as Spark jobs; returns how many it killed."""
    processes = _processes(state)
    parts = [process for process in processes if process.pid in state.parts.values()]
    for process in parts:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _wait_for(parts, STOP_SECONDS)
    _wait_for(processes, CHILDREN_STOP_SECONDS)
    remaining = {process.pid: process for process in (*processes, *_processes(state)) if _runs(process)}
    for process in remaining.values():
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(list(remaining.values()), timeout=10)
    (home / "server.json").unlink(missing_ok=True)
    return len(remaining)


def _wait_for(processes: Sequence[psutil.Process], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(_runs(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.2)


def _port(text: str | None) -> int:
    if text is None:
        return PORT
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65535:
        raise InvalidArgument(f"INDEXTABLES_PORT {text!r} is not a port from 1024 to 65535")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m indextables.airflow.local.server", description="Run this project's Airflow on this machine.", allow_abbrev=False
    )
    parser.add_argument("verb", choices=["up", "down", "status"])
    chosen = parser.parse_args(arguments)
    root = Path.cwd()
    home = root / ".airflow"
    try:
        if chosen.verb == "up":
            if not (root / "dags").is_dir():
                raise ConfigError(f"there is no folder 'dags' in {str(root)!r}; run this from the project's folder")
            up(home, root, _port(os.environ.get("INDEXTABLES_PORT")))
        elif chosen.verb == "down":
            down(home)
        else:
            return 0 if status(home) else 1
    except IndexTablesError as refused:
        print(f"error: {refused}", file=sys.stderr)
        return refused.exit_code
    except KeyboardInterrupt:
        print("error: interrupted; everything that was started was stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
