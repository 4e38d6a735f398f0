"""The wheel contains all modules except those that only a checkout needs, and runs when installed alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
CHECKOUT_ONLY = "indextables/airflow/local/"  # serves `make demo` and `make up`


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_module_except_those_of_the_checkout(wheel: Path) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "indextables").rglob("*.py")}
    shipped = {name for name in names(wheel) if name.startswith("indextables/")}
    assert {module for module in modules if module.startswith(CHECKOUT_ONLY)}
    assert shipped == {module for module in modules if not module.startswith(CHECKOUT_ONLY)}


def test_the_wheel_holds_nothing_besides_the_package_and_the_data_source(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"indextables", "pyspark_indextables.py"}


def test_no_shipped_module_imports_one_that_is_not_shipped(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        importers = [name for name in archive.namelist() if name.endswith(".py") and b"airflow.local" in archive.read(name)]
    assert not importers


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    """It is installed without its dependencies, which this environment has. The checkout is not on the path."""
    target = tmp_path / "site"
    install = [
        str(UV),
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        sys.executable,
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    where = [sys.executable, "-c", "import indextables, indextables.api; print(indextables.__file__)"]
    assert subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout.startswith(str(target))
    for program in ([sys.executable, str(target / "bin" / "indextables")], [sys.executable, "-m", "indextables"]):
        done = subprocess.run([*program, "--help"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        assert "usage: indextables" in done.stdout
