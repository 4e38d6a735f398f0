"""Reads the code blocks of a Markdown page.

- `sh` holds commands, which bash runs in the order of the page in a scratch folder.
- `python` runs in one namespace for the whole page, in the same folder.
- `text` right after one of these is what it prints; `…` stands for anything.
- `sh not-run` holds commands that a unit test cannot run; each must be one that `tests/docs/test_commands.py` knows how to check.
- `yaml` is a tables file for Airflow, which is checked.
- A block without a language is a figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    language: str  # with what follows it, such as `sh not-run`
    text: str
    line: int
    output: str | None = None  # the expected output on the page


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found: list[Block] = []
    end = 0
    for hit in _FENCE.finditer(text):
        line = text.count("\n", 0, hit.start()) + 1
        is_output = hit[1] == "text" and found and not text[end : hit.start()].strip()
        if is_output:
            before = found.pop()
            found.append(Block(before.language, before.text, before.line, hit[2]))
        else:
            found.append(Block(hit[1].strip(), hit[2], line))
        end = hit.end()
    return found


def without_blocks(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def commands_of(block: Block) -> list[str]:
    """The commands of a shell block without comments. A backslash at the end continues a line."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [line for line in (re.sub(r"\s+# .*", "", line).strip() for line in joined.splitlines()) if line and not line.startswith("#")]


def says(shown: str, printed: str) -> bool:
    """Whether output matches a page, ignoring trailing spaces. `…` stands for any text, alone in a line for any number of lines."""
    pattern = ""
    for line in _lines(shown):
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("…"))) + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    """The lines without empty lines at both ends."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()
