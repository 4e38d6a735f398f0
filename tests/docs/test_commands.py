"""Every command and every Python block in README and docs is run, or at least checked where a unit test cannot run it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from indextables.airflow.tables import load
from indextables.cli.arguments import parse
from indextables.cli.verbs import VERBS
from indextables.spark.jobs import JOBS
from indextables.spark.jobs import main as run_job
from tests.support.command_server import terminal
from tests.support.pages import PAGES, ROOT, Block, blocks_of, commands_of, says, without_blocks

FIGURE = ""
RUN_ELSEWHERE = {"python spark": "tests/spark/test_page.py"}
RUN_HERE = {"sh", "python", "sh not-run", "yaml"}
WITH_CODE = [page for page in PAGES if {block.language for block in blocks_of(page)} & {"sh", "python"}]
OTHER_BLOCK = re.compile(r"^(?:[ \t>]+```|[ \t>]*~~~|(?<=\n\n)(?: {4}|\t)\S|.*<(?:pre|code)\b)", re.MULTILINE)
LOOKS_LIKE_A_COMMAND = re.compile(r"^(\$ |\.venv/|indextables |make |python |spark-submit |pip |docker )", re.MULTILINE)


def run_shell(block: Block, folder: Path, page: Path, variables: dict[str, str]) -> str:
    """The output of the commands, which bash runs unchanged."""
    bash = ["bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(bash, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page.name}, line {block.line}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_python(block: Block, names: dict[str, Any], page: Path) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.text, page.name, "exec"), names)
    return printed.getvalue()


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": page.stem}
    blocks = [block for block in blocks_of(page) if block.language in ("sh", "python")]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    has_commands = any(block.language == "sh" for block in blocks)
    with terminal(tmp_path / "bin", variables) if has_commands else contextlib.nullcontext():
        for block in blocks:
            is_shell = block.language == "sh"
            printed = run_shell(block, folder, page, variables) if is_shell else run_python(block, names, page)
            if block.output is not None:
                assert says(block.output, printed), f"{page.name}, line {block.line} prints\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_has_a_known_language(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in {FIGURE} | RUN_ELSEWHERE.keys() | RUN_HERE, f"{page.name}, line {block.line}: {block.language!r}"
        if block.language == FIGURE:
            assert not LOOKS_LIKE_A_COMMAND.search(block.text), f"{page.name}, line {block.line}: commands belong in a `sh` block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_of_code_is_overlooked(page: Path) -> None:
    """`blocks_of` finds blocks between ``` at the start of a line, and no other form of Markdown."""
    assert not OTHER_BLOCK.search(without_blocks(page))


def test_other_forms_of_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in (
        "- one\n  ```sh\n  make demo\n  ```\n",
        "> ```\n> make\n> ```\n",
        "~~~sh\nmake\n~~~\n",
        "text\n\n    make\n",
        "<pre>make</pre>\n",
    ):
        page.write_text(text)
        assert OTHER_BLOCK.search(without_blocks(page)), text
    page.write_text("```sh\n    make\n```\n- one\n  two\n")
    assert not OTHER_BLOCK.search(without_blocks(page))


def test_a_yaml_block_is_a_valid_tables_file(tmp_path: Path) -> None:
    blocks = [block for page in PAGES for block in blocks_of(page) if block.language == "yaml"]
    assert blocks
    for block in blocks:
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / "tables.yaml").write_text(block.text)
        found = load(tmp_path / "dags", environ={})
        assert found.tables
        assert found.problems == ()


# ---- commands and options within sentences


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def help_of(show: Callable[[], object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        show()
    return printed.getvalue()


def test_commands_and_flags_in_sentences_exist() -> None:
    """Such as `indextables health TABLE --json`, `verify --deep` and `--older-than`."""
    of_verbs = {verb.name: flags_in(help_of(lambda verb=verb: parse([verb.name, "--help"]))) for verb in VERBS}
    of_jobs = [flags_in(help_of(lambda job=job: run_job(job, ["--help"]))) for job in JOBS]
    everywhere = set().union(*of_verbs.values(), *of_jobs)
    assert {"--older-than", "--json", "--report"} <= everywhere
    checked = 0
    for page in PAGES:
        for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", without_blocks(page)):
            words = span.removeprefix("indextables ").split()
            if span.startswith("indextables ") and words[0] not in ("VERB", "--help"):
                assert words[0] in of_verbs, f"{page.name}: `{span}`"
            if span.startswith(("--", "-o ")) or words[0] in of_verbs:
                checked += 1
                assert flags_in(span) <= of_verbs.get(words[0], everywhere), f"{page.name}: `{span}`"
    assert checked > 40


def test_blocks_that_run_elsewhere_have_a_test() -> None:
    for language, test in RUN_ELSEWHERE.items():
        assert f'"{language}"' in (ROOT / test).read_text("utf-8")


# ---- commands that a unit test cannot run


def make_target(words: list[str], folder: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = [word for word in words[1:] if "=" not in word]
    assert set(used) <= targets, used


def pip_install(words: list[str], folder: Path) -> None:
    assert words[1] == "install"
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
    for word in words[2:]:
        name, _, chosen = word.rstrip("]").partition("[")
        assert name in (".", "indextables")
        assert set(filter(None, chosen.split(","))) <= extras


def compose(words: list[str], folder: Path) -> None:
    assert words[:4] == ["docker", "compose", "-f", "docker/compose.yaml"]
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text("utf-8"))["services"]
    assert words[-1] in services


def git_clone(words: list[str], folder: Path) -> None:
    assert words[1] == "clone"


def exported(words: list[str], folder: Path) -> None:
    """`eval "$(python -m … export)"`: the command inside prints assignments."""
    inner = re.fullmatch(r"\$\((?:\.venv/bin/)?python (.+)\)", words[1])
    assert inner is not None
    done = subprocess.run([sys.executable, *shlex.split(inner[1])], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("export ")


def job(words: list[str], folder: Path) -> None:
    """The job accepts these arguments: it fails because there is no table or source, before it starts Spark."""
    place = next(number for number, word in enumerate(words) if word.startswith("jobs/"))
    settings = words[1:place]
    assert all(word in ("--master", "--py-files") for word in settings[::2])
    code = _exit_code([sys.executable, str(ROOT / words[place]), *words[place + 1 :], "--option", "storage.timeout=100ms"], folder)
    assert code in (1, 75, 78)  # 2 would be usage


def remote(words: list[str], folder: Path) -> None:
    """The terminal accepts these arguments: it fails because no store answers."""
    assert any(word.startswith(("s3://", "gs://", "abfss://")) for word in words)
    variables = {**os.environ, **dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))}
    bare = [word for word in words if not re.match("[A-Z_]+=", word)]
    arguments = [re.sub(r"^s3\.endpoint=.*", "s3.endpoint=http://127.0.0.1:1", word) for word in bare[1:]]
    code = _exit_code([sys.executable, "-m", "indextables", *arguments, "-o", "storage.timeout=100ms"], folder, variables)
    assert code in (75, 78)


def _exit_code(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> int:
    environment = {**(os.environ if variables is None else variables), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode


def activated(words: list[str], folder: Path) -> None:
    """The line names the environment that the Makefile creates."""
    assert words == ["source", re.search(r"^VENV := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1] + "/bin/activate"]  # type: ignore[index]


CHECKS: dict[str, Callable[[list[str], Path], None]] = {
    r"make\b": make_target,
    r"pip ": pip_install,
    r"docker compose ": compose,
    r"git ": git_clone,
    r"eval ": exported,
    r"source ": activated,
    r"spark-submit ": job,
    r"(?:[A-Z_]+=\S+ )*indextables \S+ (?:s3|gs|abfss)://": remote,
}
NOT_RUN = [
    (f"{page.relative_to(ROOT)}:{block.line}:{number}", command)
    for page in PAGES
    for block in blocks_of(page)
    if block.language == "sh not-run"
    for number, command in enumerate(commands_of(block))
]


@pytest.mark.parametrize("command", [command for _, command in NOT_RUN], ids=[place for place, _ in NOT_RUN])
def test_a_command_that_is_not_run_is_valid(command: str, tmp_path: Path) -> None:
    check = next((check for pattern, check in CHECKS.items() if re.match(pattern, command)), None)
    assert check is not None, f"nothing checks {command!r}; put it in a `sh` block, where it is run"
    check(shlex.split(command), tmp_path)


# ---- the reader of pages itself


def test_output_is_compared_line_by_line() -> None:
    assert says("a\nb … d\n…\ne\n", "\na  \nb c d\nx\ny\ne\n\n")
    assert says("…\ne", "e\n")
    assert not says("a\nb", "a\nc\n")
    assert not says("a\n", "a\nb\n")


def test_the_text_block_after_a_block_is_its_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho 1  # one\n```\n```text\n1\n```\n\nwords\n\n```text\nx\n```\n```sh not-run\nmake a \\\n  B=1\n# no\n```\n")
    first, second, third = blocks_of(page)
    assert (first.language, first.output, first.line) == ("sh", "1\n", 1)
    assert (second.language, second.output) == ("text", None)
    assert (commands_of(first), commands_of(third)) == (["echo 1"], ["make a B=1"])
