"""Rules for any task: the last observation is the state. One rule, no rubric.

exact state: the observation, whitespace folded and moving text removed (`text.steady`). exact action: the action text,
whitespace folded; case stays.
"""

from __future__ import annotations

import polars as pl

from mcgpo_data.rules.text import folded, said, steady


class GenericRules:
    """The fallback of detection: compares texts, knows nothing of the task."""

    name = "generic"
    rules: tuple[str, ...] = ("exact",)

    def detect(self, steps: pl.DataFrame) -> bool:
        """True: any steps will do."""
        return True

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds `state_0`, `action_0`, `progress`, `observation_key`."""
        seen = steps.select(steady(pl.col("observation")).alias("seen"))["seen"]
        return steps.with_columns(
            seen.alias("state_0"),
            seen.alias("observation_key"),
            said(folded(pl.col("action_text"))).alias("action_0"),
            pl.lit("").alias("progress"),
        )
