"""A fast `indextables` command for tests of documents: a server imports everything once and forks for each command.

Importing Arrow and the other libraries takes a second of CPU for every process otherwise. The forked child uses the streams, the folder
and the arguments of the caller, and calls the same function as the installed command.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# A Python without site-packages starts in 10 ms. It passes its streams to the server and exits with the code of the command.
_CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [json.dumps([os.getcwd(), sys.argv[1:]]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(4) or b"1"))
"""


@contextmanager
def terminal(folder: Path, variables: dict[str, str]) -> Iterator[Path]:
    """A folder for the front of PATH with the commands `indextables` and `python`."""
    folder.mkdir()
    address = str(folder / "server")
    (folder / "client.py").write_text(_CLIENT.format(address=address))
    python = shlex.quote(sys.executable)
    for name, command in (("indextables", f"{python} -S -E {shlex.quote(str(folder / 'client.py'))}"), ("python", python)):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    command = [sys.executable, "-m", "tests.support.command_server", address]
    server = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _serve(address: str) -> None:
    module, _, name = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]["indextables"].partition(":")
    main: Any = getattr(import_module(module), name)
    for path in sorted((ROOT / "indextables").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if not {"spark", "airflow", "__main__", "__init__"} & set(parts):
            import_module(".".join(parts))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for; they send their exit code themselves
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            caller, _ = server.accept()
            if os.fork() == 0:
                _run(main, caller)
            caller.close()


def _run(main: Any, caller: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    folder, arguments = json.loads(data)
    os.chdir(folder)
    sys.argv = ["indextables", *arguments]
    code = 1
    try:
        code = main() or 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 0 if stopped.code is None else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        caller.sendall(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
