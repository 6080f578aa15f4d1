"""What `import mcgpo_data` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

import mcgpo_data
from mcgpo_data import Store, funnel, load_pairs


def test_importing_the_package_loads_neither_polars_nor_duckdb() -> None:
    code = "import sys, mcgpo_data; sys.exit(str({'polars', 'duckdb', 'pyarrow', 'numpy'} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("name", mcgpo_data.__all__)
def test_every_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(mcgpo_data, name).__name__ == name
    assert name in dir(mcgpo_data)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bulid_preferences'"):
        mcgpo_data.bulid_preferences  # noqa: B018


def test_pairs_and_funnel_agree_and_take_a_folder_or_an_open_build(demo: Store) -> None:
    pairs = load_pairs(demo.path)
    assert len(pairs) == funnel(demo).pairs == funnel(str(demo.path)).pairs
    assert isinstance(pairs, pl.DataFrame)
