"""Pairs of a build as Polars frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mcgpo_data.build.funnel import Funnel
from mcgpo_data.build.text import with_text
from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import IntegrityError, UsageError
from mcgpo_data.schema import PREFERENCES_THIN
from mcgpo_data.store import Store, open_store, read_parquet


def load_pairs(
    store: Store | str | os.PathLike[str], columns: Sequence[str] | None = None, *, text: bool = False
) -> pl.DataFrame:
    """All preference pairs of a build.

    Args:
        store: a build, or the folder of one.
        columns: columns to load; default: all but the long text.
        text: also load prompts and responses (joined from `steps` where the preferences do not hold them).

    Returns:
        One row per pair, in the order of the build.
    """
    opened = store if isinstance(store, Store) else open_store(store)
    wanted = list(columns) if columns is not None else PREFERENCES_THIN.names
    if not text:
        return pl.DataFrame(opened.read("preferences", wanted))
    if opened.manifest["config"]["form"] == "full":
        return pl.DataFrame(opened.read("preferences", None if columns is None else wanted))
    steps = opened.read("steps", ["rollout_id", "step_index", "prompt_from", "messages"])
    if steps.num_rows == 0 or steps["messages"].null_count == steps.num_rows:
        raise UsageError(f"{opened.path}: is a thin build; its text is in the logs. Rebuild with --form full.")
    return pl.DataFrame(pa.concat_tables(with_text(opened.read("preferences"), steps)))


def funnel(store: Store | str | os.PathLike[str]) -> Funnel:
    """Counts from records to pairs of a build."""
    opened = store if isinstance(store, Store) else open_store(store)
    return Funnel(**opened.manifest["funnel"])


def find_pair(store: Store, pair_id: str) -> tuple[dict[str, Any], str]:
    """One pair by id or unique beginning of it, and the name of the part that holds its rollouts.

    Raises:
        UsageError: none, or several.
    """
    found: list[tuple[Path, int, str]] = []
    for path in store.files("preferences"):
        ids = read_parquet(path, ["pair_id"])["pair_id"]
        hits = pc.indices_nonzero(pc.starts_with(ids, pair_id)).to_pylist() if pair_id else []
        found += [(path, i, ids[i].as_py()) for i in hits]
    if len(found) != 1:
        near = (
            f" Several begin so: {', '.join(i for _, _, i in found[:4])} …" if found else " `mcgpo show` lists them."
        )
        raise UsageError(f"{store.path}: {'no' if not found else 'more than one'} pair {pair_id!r}.{near}")
    path, index, _ = found[0]
    return read_pair(path, index), part_of(path)


def part_of(path: Path) -> str:
    """Name of the part that holds the rollouts of the pairs of a file."""
    return path.stem.removeprefix("part-")[:5]


def read_pair(path: Path, index: int) -> dict[str, Any]:
    """One row of a file of preferences; only its row group is read.

    Raises:
        IntegrityError: missing or damaged.
    """
    try:
        with pq.ParquetFile(path) as file:
            group = 0
            while index >= (rows := file.metadata.row_group(group).num_rows):
                index, group = index - rows, group + 1
            row: dict[str, Any] = file.read_row_group(group).slice(index, 1).to_pylist()[0]
            return row
    except (OSError, pa.ArrowException) as error:
        raise IntegrityError(f"{path}: cannot be read ({error}).") from error


def build_config_of(store: Store) -> BuildConfig:
    """The options that a build was made with."""
    known = {f.name for f in fields(BuildConfig)}
    values = {k: v for k, v in store.manifest["config"].items() if k in known}
    if values.get("outcome_range") is not None:
        values["outcome_range"] = tuple(values["outcome_range"])
    return BuildConfig(**values)
