"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real logs and worked numbers beside the checkout; skipped where absent, required under CI."""
    path = ROOT.parent / "shared"
    if not (path / "data").is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is missing: CI runs need the real logs and the worked numbers")
        pytest.skip(f"needs the real logs in {path}")
    return path
