"""Settings of the project's local Airflow: SQLite, everything in one folder, not reachable from other machines."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PORT = 8080
USER = "admin"
SPARK = {"conn_type": "spark", "host": "local[2]"}


def airflow_environment(home: Path, *, port: int | None = None, root: Path | None = None) -> dict[str, str]:
    """The variables that make Airflow use `home` for itself and the DAGs of the project `root` (default: this folder).

    They must be added to the environment before Airflow is imported. Keys and passwords are generated once and kept in `home`, which only
    its owner may read.
    """
    home, root = home.resolve(), (root or Path.cwd()).resolve()
    keys = _keys(home)
    address = f"http://{HOST}:{PORT if port is None else port}"
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",  # each task runs a JVM; the default of 32 also starts 32 processes at once
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet"],
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_passwords(home)),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__API__HOST": HOST,  # the default is every address of the machine
        "AIRFLOW__API__PORT": str(PORT if port is None else port),
        "AIRFLOW__API__BASE_URL": address,  # tasks call this address; the default is port 8080
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": keys["api"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt"],
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",  # seconds between scans for new files; the default is 300
        "AIRFLOW_CONN_SPARK_DEFAULT": os.environ.get("AIRFLOW_CONN_SPARK_DEFAULT") or json.dumps(SPARK),
        "PYTHONPATH": _prepend(str(root), os.environ.get("PYTHONPATH", ""), os.pathsep),
        "NO_PROXY": _prepend(f"{HOST},localhost", os.environ.get("NO_PROXY", ""), ","),
    }


def password(home: Path) -> str:
    """The password of `admin`, generated at the first call and kept in `home`."""
    return str(json.loads(_passwords(home.resolve()).read_text())[USER])


def private_folder(folder: Path) -> Path:
    """Creates the folder if it is missing; only its owner may read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def _keys(home: Path) -> Mapping[str, str]:
    def make() -> dict[str, str]:
        fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        return {"fernet": fernet, "api": secrets.token_hex(32), "jwt": secrets.token_hex(64)}

    keys: dict[str, str] = json.loads(_written_once(home / "keys.json", make).read_text())
    return keys


def _passwords(home: Path) -> Path:
    return _written_once(home / "passwords.json", lambda: {USER: secrets.token_hex(10)})


def _written_once(file: Path, make: Callable[[], dict[str, Any]]) -> Path:
    """Writes the file if it is missing, readable by its owner only; if two processes do so at the same time, one of them wins."""
    if file.exists():
        return file
    temporary = private_folder(file.parent) / f".{file.name}.{secrets.token_hex(8)}"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(make(), out)
    with contextlib.suppress(FileExistsError):
        os.link(temporary, file)
    temporary.unlink()
    return file


def _prepend(value: str, others: str, separator: str) -> str:
    return separator.join([value, others]) if others else value
