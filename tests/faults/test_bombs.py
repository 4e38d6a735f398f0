"""R14: decompression bombs and false sizes in the log raise a typed error within bounded memory and CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.bombs import plant_all

MOST_MIB = 512  # of the whole process; Python with pyarrow alone takes about 90
MOST_SECONDS = 20  # CPU seconds for one bomb


def test_every_bomb_is_refused_within_bounds(tmp_path: Path) -> None:
    planted = plant_all(tmp_path)
    assert len(planted) >= 25
    repository = Path(__file__).resolve().parents[2]
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.bombs", str(tmp_path)],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    results = [json.loads(line) for line in child.stdout.splitlines()]
    assert (child.returncode, [r["name"] for r in results]) == (0, planted), child.stderr[-2000:]
    for result in results:
        assert result["outcome"].startswith(("LogCorrupted: ", "ProtocolUnsupported: ", "UnsafePath: ")), result
        assert (result["peak"] < MOST_MIB, result["cpu"] < MOST_SECONDS) == (True, True), result
