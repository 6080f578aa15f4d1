"""Random worlds and options for the tests of the pair builder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from mcgpo_data.config import ORIENTATIONS, SCOPES, WEIGHTS, BuildConfig

from .harness import Row

# (context, action) of state s and action a under each rule; the coarser ones are not all nested in the finer ones
RULES = (
    lambda s, a: (f"s{s}", f"a{a}"),
    lambda s, a: (f"c{s // 2}", f"A{a // 2}"),
    lambda s, a: ("all", f"B{a % 2}"),
)
ID_STYLES = ("r{}", "g{1}-é{0}", "{0}:{1}", "\U0001f600 {0:03d}")  # `r1` and `r10`, letters outside ASCII, colons
OUTCOMES: tuple[Sequence[float | None], ...] = (
    [0.0, 1.0],
    [0.0, 1.0, 0.0, 1.0, None],
    [0.0, 1.0, 0.5, 0.123456789, 1 / 3, None],
)


@st.composite
def worlds(
    draw: st.DrawFn,
    groups: tuple[int, int] = (1, 2),
    rollouts: tuple[int, int] = (0, 20),
    rules: tuple[int, int] = (1, 3),
    outcomes: Sequence[float | None] | None = None,
    invalid: float = 0.1,
) -> list[Row]:
    """Rows of some groups: few states and actions, so that contexts are shared, loops happen, sequences repeat.

    Shapes are drawn by hypothesis (and shrink), contents by a seeded generator: one by one they would be mostly zeros.
    """
    num_rules, style = draw(st.integers(*rules)), draw(st.sampled_from(ID_STYLES))
    states, actions, longest = (
        draw(st.integers(1, 5)),
        draw(st.integers(2, 5)),
        draw(st.sampled_from([4, 5, 3, 6, 2, 1])),
    )
    scale = draw(st.sampled_from(OUTCOMES)) if outcomes is None else outcomes
    usual = max(rollouts[0], rollouts[1] // 2)
    sizes = [draw(st.integers(*rollouts) | st.integers(usual, rollouts[1])) for _ in range(draw(st.integers(*groups)))]
    rng = random.Random(draw(st.integers(0, 2**32)))
    rows: list[Row] = []
    for group, size in enumerate(sizes):
        for number in range(size):
            outcome, version = rng.choice(scale), f"v{rng.randrange(3)}"
            for t in range(rng.randint(min(2, longest), longest)):
                s, a, valid = rng.randrange(states), rng.randrange(actions), rng.random() >= invalid
                for rule in range(num_rules):
                    context, action = RULES[rule](s, a)
                    rows.append(
                        {
                            "group_id": f"g{group}",
                            "rollout_id": f"{style.format(number, group)}/{group}",
                            "step": t,
                            "rule": rule,
                            "context": context,
                            "action": action,
                            "valid": valid,
                            "outcome": outcome,
                            "version": version,
                        }
                    )
    return rows


@st.composite
def configs(draw: st.DrawFn, **fixed: Any) -> BuildConfig:
    """Any options of the pair builder; `fixed` ones as given."""
    options = {
        "seed": st.integers(0, 3),
        "folds": st.sampled_from([2, 2, 3, 4]),
        "kappa": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        "support_prior": st.sampled_from([0.0, 2.0, 5.0]),
        "margin": st.sampled_from([0.0, 0.0, 0.1]),
        "min_support": st.sampled_from([1, 1, 1, 2]),
        "discount": st.sampled_from([0.5, 1.0, 0.3]),
        "max_pairs_per_class": st.sampled_from([1, 4, 10]),
        "max_decisions_per_side": st.sampled_from([1, 2, 32]),
        "weight": st.sampled_from(WEIGHTS),
        "orientation": st.sampled_from([*ORIENTATIONS, ORIENTATIONS[0]]),
        "scope": st.sampled_from(SCOPES),
    }
    return BuildConfig(**{name: fixed[name] if name in fixed else draw(option) for name, option in options.items()})


def is_binary(rows: list[Row]) -> bool:
    """Whether weight = posterior is defined."""
    return all(row["outcome"] in (0.0, 1.0, None) for row in rows)
