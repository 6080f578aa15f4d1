"""What a build would give, from a thin build in a temporary folder that is thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcgpo_data.build.run import BuildOptions, build_preferences
from mcgpo_data.config import BuildConfig

WORKER_BYTES = 300 * 2**20


def plan_build(paths: Sequence[str], config: BuildConfig, options: BuildOptions) -> dict[str, Any]:
    """Counts, funnel, and rough sizes.

    Returns:
        inputs, config, funnel as in a manifest; bytes_thin (measured), bytes_full (thin plus a third of the logs'
        text, twice for the pairs), memory_bytes, workers.
    """
    with tempfile.TemporaryDirectory(prefix="mcgpo-plan-") as folder:
        manifest = build_preferences(paths, Path(folder) / "plan", replace(config, form="thin"), options)
    thin = sum(f["bytes"] for table in manifest["tables"].values() for f in table["files"])
    logs = sum(entry["bytes"] for entry in manifest["inputs"])
    workers = min(options.workers, max(manifest["layout"]["buckets"], len(manifest["inputs"])))
    return {
        "inputs": manifest["inputs"],
        "config": {**manifest["config"], "form": config.form},
        "funnel": manifest["funnel"],
        "bytes_thin": thin,
        "bytes_full": thin + logs,
        "memory_bytes": (workers + 1) * WORKER_BYTES,
        "workers": workers,
    }
