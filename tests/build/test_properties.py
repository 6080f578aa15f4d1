"""What must hold of the pairs of any log, for every builder."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcgpo_data.build.reference import assign_folds
from mcgpo_data.config import WEIGHTS, BuildConfig

from .harness import BUILDERS, Pair, Row, make_rows
from .strategies import configs, is_binary, worlds

EXAMPLES = {"reference": 200, "arrays": 25, "sql": 5}
PLAIN_WEIGHTS = st.sampled_from([w for w in WEIGHTS if w != "posterior"])
METHOD_ONLY = ("chosen_outcome", "rejected_outcome")  # beyond the method: what became of the two rollouts


@pytest.fixture(params=BUILDERS)
def builder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(builder: str, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Run the decorated function now: on many examples for builders that are fast on small worlds."""

    def run(function: Callable[..., None]) -> None:
        relaxed = settings(
            max_examples=EXAMPLES[builder],
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        )
        relaxed(given(*strategies)(function))()

    return run


def build(builder: str, rows: list[Row], config: BuildConfig) -> list[Pair]:
    pairs = BUILDERS[builder](rows, config)
    return [{name: value for name, value in pair.items() if name not in METHOD_ONLY} for pair in pairs]


def decisions(pair: Pair) -> tuple[tuple[str, int], tuple[str, int]]:
    return (
        (pair["chosen_rollout_id"], pair["chosen_step"]),
        (pair["rejected_rollout_id"], pair["rejected_step"]),
    )


def graded(
    rows: list[Row], place: tuple[str, int, str], folds: dict[tuple[str, str], int], judges: set[int]
) -> dict[str, set[str]]:
    """Per action of a (group, rule, context): graded rollouts of the folds `judges` that took it there."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        here = (row["group_id"], row["rule"], row["context"]) == place
        if (
            here
            and row["valid"]
            and row["outcome"] is not None
            and folds[row["group_id"], row["rollout_id"]] in judges
        ):
            found[row["action"]].add(row["rollout_id"])
    return found


def test_outcomes_of_a_fold_change_no_pair_within_this_fold(builder: str) -> None:
    @check(builder, worlds(), configs(folds=2, orientation="opposite-fold"), st.integers(0, 1), st.integers(0, 9))
    def _(rows: list[Row], config: BuildConfig, fold: int, seed: int) -> None:
        folds = assign_folds(rows, config.seed, 2)
        rng = random.Random(seed)
        scale = (0.0, 1.0, None) if config.weight == "posterior" else (0.0, 1.0, 0.25, None)
        assume(config.weight != "posterior" or is_binary(rows))
        altered = {rollout: rng.choice(scale) for rollout, f in folds.items() if f == fold}
        changed = [{**r, "outcome": altered.get((r["group_id"], r["rollout_id"]), r["outcome"])} for r in rows]
        before, after = build(builder, rows, config), build(builder, changed, config)
        assert [p for p in before if p["chosen_fold"] == fold] == [p for p in after if p["chosen_fold"] == fold]


def test_both_candidates_lie_in_one_fold_when_there_are_two(builder: str) -> None:
    @check(builder, worlds(), configs(folds=2, weight="support"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        folds = assign_folds(rows, config.seed, 2)
        for pair in build(builder, rows, config):
            sides = [folds[pair["group_id"], pair[f"{side}_rollout_id"]] for side in ("chosen", "rejected")]
            assert sides == [pair["chosen_fold"]] * 2 == [pair["rejected_fold"]] * 2


def test_the_order_of_rows_does_not_matter(builder: str) -> None:
    @check(builder, worlds(), configs(weight="support_margin"), st.randoms(use_true_random=False))
    def _(rows: list[Row], config: BuildConfig, rng: random.Random) -> None:
        shuffled = list(rows)
        rng.shuffle(shuffled)
        assert build(builder, shuffled, config) == build(builder, rows, config)


def test_groups_do_not_influence_each_other(builder: str) -> None:
    @check(builder, worlds(groups=(2, 3)), configs(weight="support_margin"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        apart = []
        for group in sorted({row["group_id"] for row in rows}):
            apart += build(builder, [row for row in rows if row["group_id"] == group], config)
        assert apart == build(builder, rows, config)


def test_renaming_actions_and_contexts_changes_nothing_but_names(builder: str) -> None:
    @check(builder, worlds(), configs(weight="support_margin"), st.randoms(use_true_random=False))
    def _(rows: list[Row], config: BuildConfig, rng: random.Random) -> None:
        names = {}
        for kind in ("context", "action"):
            old = sorted({row[kind] for row in rows})
            names[kind] = dict(zip(old, rng.sample([f"new {n}" for n in range(len(old))], len(old)), strict=True))
        renamed = [{**row, **{kind: names[kind][row[kind]] for kind in names}} for row in rows]
        expected = [
            {
                **pair,
                "context": names["context"][pair["context"]],
                "chosen_action": names["action"][pair["chosen_action"]],
                "rejected_action": names["action"][pair["rejected_action"]],
            }
            for pair in build(builder, rows, config)
        ]
        assert sorted(build(builder, renamed, config), key=repr) == sorted(expected, key=repr)


def test_equal_outcomes_give_no_pair(builder: str) -> None:
    @check(builder, worlds(outcomes=[1.0]), st.sampled_from([0.0, 0.3, 1.0]), configs(weight="support"))
    def _(rows: list[Row], outcome: float, config: BuildConfig) -> None:
        assert build(builder, [{**row, "outcome": outcome} for row in rows], config) == []


def test_unscored_rollouts_are_no_evidence(builder: str) -> None:
    @check(builder, worlds(outcomes=[None]), configs())
    def _(rows: list[Row], config: BuildConfig) -> None:
        assert build(builder, rows, config) == []


def test_groups_of_up_to_three_rollouts_give_no_pair_with_two_folds(builder: str) -> None:
    @check(builder, worlds(rollouts=(1, 3)), configs(folds=2, orientation="opposite-fold", weight="support"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        assert build(builder, rows, config) == []


def test_a_coarse_rule_pairs_no_decisions_that_a_finer_rule_compares(builder: str) -> None:
    @check(builder, worlds(rules=(2, 3)), configs(folds=2, orientation="opposite-fold", weight="support"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        folds = assign_folds(rows, config.seed, 2)
        keys = {(r["rollout_id"], r["step"], r["rule"]): (r["context"], r["action"]) for r in rows}
        for pair in build(builder, rows, config):
            one, other = decisions(pair)
            for finer in range(pair["rule"]):
                (context, chosen), (context_, rejected) = keys[*one, finer], keys[*other, finer]
                if context != context_ or chosen == rejected:
                    continue
                place = (pair["group_id"], finer, context)
                took = graded(rows, place, folds, {1 - pair["chosen_fold"]})
                support = [len(took[chosen] - took[rejected]), len(took[rejected] - took[chosen])]
                assert min(support) < config.min_support


def test_pairs_of_a_rule_do_not_depend_on_coarser_rules(builder: str) -> None:
    @check(builder, worlds(rules=(3, 3)), configs(weight="support_margin"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        pairs = build(builder, rows, config)
        for last in range(2):
            finer = build(builder, [row for row in rows if row["rule"] <= last], config)
            assert finer == [pair for pair in pairs if pair["rule"] <= last]


def test_a_pair_never_joins_two_decisions_of_one_rollout_nor_appears_twice(builder: str) -> None:
    @check(builder, worlds(), configs(weight="support"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        pairs = build(builder, rows, config)
        assert all(pair["chosen_rollout_id"] != pair["rejected_rollout_id"] for pair in pairs)
        places = [(pair["rule"], pair["context"], pair["group_id"], *decisions(pair)) for pair in pairs]
        assert len(set(places)) == len(places)


def test_pairs_of_a_class_share_its_weight_equally_and_keep_to_the_cap(builder: str) -> None:
    @check(builder, worlds(), configs(weight="support_margin"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        classes: dict[tuple[Any, ...], list[Pair]] = {}
        names = ("group_id", "rule", "context", "chosen_action", "rejected_action", "chosen_fold", "rejected_fold")
        for pair in build(builder, rows, config):
            classes.setdefault(tuple(pair[name] for name in names), []).append(pair)
        for pairs in classes.values():
            assert len(pairs) == pairs[0]["class_pairs"] <= config.max_pairs_per_class
            assert {pair["weight"] for pair in pairs} == {pairs[0]["class_weight"] / len(pairs)}


def test_an_invalid_decision_is_neither_candidate_nor_evidence(builder: str) -> None:
    @check(builder, worlds(invalid=0.5), configs(weight="support_margin"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        valid = {(row["rollout_id"], row["step"]) for row in rows if row["valid"]}
        pairs = build(builder, rows, config)
        assert all(set(decisions(pair)) <= valid for pair in pairs)
        elsewhere = [row if row["valid"] else {**row, "context": f"lost {n}"} for n, row in enumerate(rows)]
        assert build(builder, elsewhere, config) == pairs


def two_armed(seed: int, won_a: int, lost_a: int, won_b: int, lost_b: int) -> list[Row]:
    """One context in which each of two folds holds that much evidence for actions a and b."""
    arms = ["a"] * (won_a + lost_a) + ["b"] * (won_b + lost_b)
    outcomes = [1.0] * won_a + [0.0] * lost_a + [1.0] * won_b + [0.0] * lost_b
    names = sorted(
        (f"r{n}" for n in range(2 * len(arms))),
        key=lambda name: hashlib.sha256(f"{seed}{name}".encode()).hexdigest(),
    )  # folds alternate along this order, as every rollout goes its own way after the first step
    rollouts = {name: [[("start", arms[i // 2])], [(name, name)]] for i, name in enumerate(names)}
    return make_rows("g", rollouts, {name: outcomes[i // 2] for i, name in enumerate(names)})


def class_weight(builder: str, config: BuildConfig, *evidence: int) -> float:
    pairs = build(builder, two_armed(config.seed, *evidence), config)
    assert {(pair["chosen_action"], pair["rejected_action"]) for pair in pairs} == {("a", "b")}
    assert {pair["chosen_support"] for pair in pairs} == {evidence[0] + evidence[1]}
    (weight,) = {pair["class_weight"] for pair in pairs}
    return float(weight)


ARM = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda arm: sum(arm) > 0)


@pytest.mark.parametrize("weight", ["support", "support_margin", "posterior"])
def test_the_weight_grows_with_support_at_equal_delta(builder: str, weight: str) -> None:
    @check(builder, ARM, ARM, st.integers(0, 3), st.integers(2, 3))
    def _(a: tuple[int, int], b: tuple[int, int], seed: int, times: int) -> None:
        assume(a[0] / sum(a) > b[0] / sum(b))
        config = BuildConfig(kappa=0.0, weight=weight, seed=seed)
        more = class_weight(builder, config, *(times * n for n in (*a, *b)))
        assert more > class_weight(builder, config, *a, *b)


@pytest.mark.parametrize("weight", ["support_margin", "posterior"])
def test_the_weight_grows_with_delta_at_equal_support(builder: str, weight: str) -> None:
    @check(builder, ARM, ARM, st.integers(0, 3), st.sampled_from([0.0, 1.0]))
    def _(a: tuple[int, int], b: tuple[int, int], seed: int, kappa: float) -> None:
        assume(a[0] / sum(a) > b[0] / sum(b) and a[1] > 0)
        config = BuildConfig(kappa=kappa, weight=weight, seed=seed)
        larger = class_weight(builder, config, a[0] + 1, a[1] - 1, *b)
        assert larger > class_weight(builder, config, *a, *b)


def test_rows_given_twice_count_once(builder: str) -> None:
    @check(builder, worlds(), configs(weight="support_margin"), st.randoms(use_true_random=False))
    def _(rows: list[Row], config: BuildConfig, rng: random.Random) -> None:
        again = rows + [dict(row) for row in rng.sample(rows, len(rows) // 2)]
        assert build(builder, again, config) == build(builder, rows, config)


def test_more_folds_compare_within_and_across_folds_and_never_with_their_own_outcomes(builder: str) -> None:
    @check(builder, worlds(), configs(folds=3, orientation="opposite-fold", weight="support"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        folds = assign_folds(rows, config.seed, 3)
        for pair in build(builder, rows, config):
            judges = {0, 1, 2} - {pair["chosen_fold"], pair["rejected_fold"]}
            place = (pair["group_id"], pair["rule"], pair["context"])
            took = graded(rows, place, folds, judges)
            chosen, rejected = took[pair["chosen_action"]], took[pair["rejected_action"]]
            assert pair["chosen_support"] == len(chosen - rejected)
            assert pair["rejected_support"] == len(rejected - chosen)


def test_a_larger_margin_only_removes_pairs(builder: str) -> None:
    @check(builder, worlds(), configs(margin=0.0, weight="support_margin"))
    def _(rows: list[Row], config: BuildConfig) -> None:
        pairs = build(builder, rows, config)
        assert build(builder, rows, replace(config, margin=0.1)) == [p for p in pairs if p["delta"] > 0.1 + 1e-12]
