"""The argument list of a job: every value stays one argument, and none can become a flag.

Values are always joined to their name (`--where=…`), so that one with a leading dash, spaces, quotes or `;` reaches the job unchanged; no
shell is involved. Airflow logs the whole command, so credentials (`config.is_secret`) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from indextables.config import is_secret
from indextables.errors import ConfigError, InvalidArgument
from indextables.operations.request import FLAG, Interface
from indextables.operations.verbs import REQUESTS
from indextables.paths import check_no_user

Value = str | int | float | bool | Sequence[str] | None

FLAGS = frozenset(  # arguments without a value
    one.flag(Interface.JOB).removeprefix("--") for verb in REQUESTS for one in verb.options(Interface.JOB) if one.type is FLAG
)
_RESERVED = frozenset({"table", "report", "option"})  # set by `job_arguments` itself
_JOB = re.compile(r"[a-z][a-z0-9_]*")
_ARGUMENT = re.compile(r"[a-z][a-z0-9-]*")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_AIRFLOW = re.compile(r"_*AIRFLOW_")
_LOGGED = "the command is logged"
_SETTING = re.compile(r"(?:^|[?&;#])\s*([^=?&;#/]+)=")  # of an address or a connection string
_NAMED_VALUE = re.compile(r"(?:^|[\s;])(?:-D)?([^\s=;]+)=")  # in a Spark setting, such as Java options or a connection string


def job_name(job: str) -> str:
    """`job` if it is a plain name, since it becomes part of a path."""
    if not isinstance(job, str) or not _JOB.fullmatch(job):
        raise InvalidArgument(f"job {job!r} is not a name such as merge_splits")
    return job


def plain_text(name: str, value: str) -> str:
    """`value` if it may appear in a logged command line: no control characters, no credentials in an address."""
    if _CONTROL.search(value):
        raise InvalidArgument(f"{name} {value!r} contains a control character")
    for address in _ADDRESS.finditer(value):
        try:
            check_no_user(value[address.start() :])
        except ConfigError:
            message = f"{name} contains a user or password in its address; pass credentials in the environment, {_LOGGED}"
            raise ConfigError(message) from None
    decoded = unquote(value)
    if ("://" in decoded or ";" in decoded) and any(map(is_secret, _SETTING.findall(decoded))):
        raise ConfigError(f"{name} contains a credential in its address; pass credentials in the environment, {_LOGGED}")
    return value


def checked_option_key(key: str) -> str:
    """`key` if it is a well-formed option key that does not name a credential."""
    if not isinstance(key, str) or not _OPTION.fullmatch(key):
        raise ConfigError(f"option {key!r} is not a key such as merge.targetSize")
    if is_secret(key):
        raise ConfigError(f"option {key!r} looks like a credential; pass it in the environment, {_LOGGED}")
    return key


def refuse_secret_settings(conf: Mapping[str, object]) -> None:
    """ConfigError for a Spark setting that names or contains a credential, since Airflow logs the command line with its `--conf`."""
    for key, value in conf.items():
        if is_secret(key):
            raise ConfigError(f"Spark setting {key!r} looks like a credential; set it in spark-defaults.conf or the environment, {_LOGGED}")
        plain_text(f"Spark setting {key!r}", str(value))
        if any(map(is_secret, _NAMED_VALUE.findall(str(value)))):
            raise ConfigError(f"Spark setting {key!r} contains a credential; set it in spark-defaults.conf or the environment, {_LOGGED}")


def job_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables that configure Airflow, which hold its keys, database address, connections and variables.

    AIRFLOW_CTX_*, which only name the task, are kept.
    """
    return {name: value for name, value in environ.items() if name.startswith("AIRFLOW_CTX_") or not _AIRFLOW.match(name)}


def scalar(value: str | int | float | bool) -> str:
    """The text that Spark and the jobs expect: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def job_arguments(
    table: str, arguments: Mapping[str, Value], options: Mapping[str, str | int | float | bool], report: str | Path
) -> list[str]:
    """`--table=…`, then the arguments that have a value, the options, and `--report=…`.

    An argument that is None, an empty text or an empty list is left out. A flag is passed if true and left out if false, as a boolean or,
    since templates render to text, as text.
    """
    if not isinstance(table, str) or table in {"", "--"}:
        raise InvalidArgument(f"table {table!r} is not a path")
    argv = [f"--table={plain_text('table', table)}"]
    for name, value in arguments.items():
        argv += _argument(name, value)
    for key, option in options.items():
        argv.append(f"--option={checked_option_key(key)}={plain_text(key, scalar(option))}")
    return [*argv, f"--report={report}"]


def _argument(name: str, value: Value) -> list[str]:
    if not isinstance(name, str) or not _ARGUMENT.fullmatch(name) or name in _RESERVED:
        raise InvalidArgument(f"argument {name!r} is not an argument of a job")
    if name in FLAGS:
        return [f"--{name}"] if _flag(name, value) else []
    if value is None or value == "":
        return []
    if not isinstance(value, (str, int, float)):
        parts = [plain_text(name, part) for part in value]
        if any("," in part or not part for part in parts):
            raise InvalidArgument(f"{name} {parts!r} contains an empty name or a comma")
        return [f"--{name}={','.join(parts)}"] if parts else []
    if value == "--":
        raise InvalidArgument(f"{name} '--' is not a valid value")  # argparse would drop it
    return [f"--{name}={plain_text(name, scalar(value))}"]


def _flag(name: str, value: Value) -> bool:
    word = "" if value is None else str(value).strip().lower()
    if word not in {"true", "false", ""}:
        raise InvalidArgument(f"{name} {value!r} is neither true nor false")
    return word == "true"
