"""The builders agree on over 500 random worlds, two or three at a time, under random options."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from mcgpo_data.build.reference import reference_pairs
from mcgpo_data.config import BuildConfig

from .harness import Row, built_table, named
from .strategies import configs, is_binary, worlds

BEYOND_THE_METHOD = {"chosen_outcome", "rejected_outcome"}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(worlds(groups=(2, 3)), configs())
def test_arrays_equal_sql_to_the_byte_and_the_reference_to_1e_12(rows: list[Row], config: BuildConfig) -> None:
    assume(config.weight != "posterior" or is_binary(rows))
    table = built_table("arrays", rows, config)
    assert table.equals(built_table("sql", rows, config))
    found, expected = named(table, rows), reference_pairs(rows, config)
    outcomes = {row["rollout_id"]: row["outcome"] for row in rows}
    assert len(found) == len(expected)
    for ours, plain in zip(found, expected, strict=True):
        assert set(ours) == set(plain) | BEYOND_THE_METHOD
        for side in ("chosen", "rejected"):
            outcome = outcomes[ours[f"{side}_rollout_id"]]
            assert ours[f"{side}_outcome"] == (None if outcome is None else round(outcome * 1e9) / 1e9)
        for name, value in plain.items():
            if isinstance(value, float):
                assert abs(ours[name] - value) <= 1e-12, name
            else:
                assert ours[name] == value, name
