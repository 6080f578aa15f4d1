"""A build never removes what it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import OutputError

DEMO = Path(__file__).resolve().parents[2] / "pipelines" / "demo" / "demo_rollouts.jsonl.gz"


def test_an_output_that_holds_its_own_input_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = BuildOptions(workers=1, overwrite=True)
    build_preferences([DEMO], out, BuildConfig(form="thin"), options)
    (out / "logs").mkdir()
    log = Path(shutil.copy(DEMO, out / "logs"))
    with pytest.raises(OutputError, match="holds the input"):
        build_preferences([log], out, BuildConfig(form="thin"), options)
    assert log.read_bytes() == DEMO.read_bytes()
