"""Builds that the tests of this folder look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcgpo_data import BuildConfig, BuildOptions, Store, build_preferences, open_store

LOG = Path(__file__).resolve().parents[2] / "pipelines" / "demo" / "demo_rollouts.jsonl.gz"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The demo log, built with default options."""
    out = tmp_path_factory.mktemp("demo") / "out"
    build_preferences([LOG], out, BuildConfig(), BuildOptions(workers=1))
    return open_store(out)
