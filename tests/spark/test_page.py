"""The Python examples of docs/spark.md, run in a real Spark."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import ROOT, blocks_of, says

pytestmark = pytest.mark.spark


def test_the_page_does_what_it_shows(spark: Any, tmp_path: Path) -> None:
    names = {"spark": spark}
    blocks = [block for block in blocks_of(ROOT / "docs" / "spark.md") if block.language == "python spark"]
    assert blocks
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Spark's processes resolve relative paths in another folder.
            exec(re.sub("""(["'])logs\\1""", rf"\1{tmp_path}/logs\1", block.text), names)
        if block.output is not None:
            assert says(block.output, printed.getvalue()), f"line {block.line} prints\n{printed.getvalue()}"
