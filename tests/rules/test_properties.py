"""What holds for the rules of every family, on plausible, broken and hostile text."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcgpo_data.rules.registry import REGISTRY

Frame = Callable[..., pl.DataFrame]

HOSTILE = [
    "",
    " \n\t ",
    "'; DROP TABLE steps; --",
    "${1} \\1 {} {0} %s $(rm -rf /)",
    "(((((((((((a+)+)+)+$",
    "nul \x00 byte \x1f unit \ud7ff edge",
    "]] </action> [SEP] [SEP] ;; moved nothing; offered ; sees",
    "Ω≈ç√∫ 日本語 \u202e reversed",
    "{" * 200 + '"a":' + "[" * 200,
    "x" * 5000,
]
POOLS: dict[str, tuple[list[str], list[str]]] = {
    "alfworld": (
        [
            "You are in the middle of a room. You see a desk 1.\nYour task is to: put a hot egg in fridge.",
            "You arrive at desk 1. On the desk 1, you see a egg 1, and a pen 2.",
            "The fridge 1 is closed.",
            "You open the fridge 1. The fridge 1 is open. In it, you see a egg 2.",
            "You pick up the egg 1 from the desk 1.",
            "You pick up the egg 2 from the fridge 1.",
            "You heat the egg 1 using the microwave 1.",
            "You cool the egg 1 using the fridge 1.",
            "You move the egg 1 to the fridge 1.",
            "You put the egg 1 in/on the desk 1.",
            "You turn on the desklamp 1.",
            "Nothing happens.",
        ],
        [
            "go to desk 1",
            "go to fridge 1",
            "take egg 1 from desk 1",
            "move egg 1 to fridge 1",
            "PUT egg 1 in/on desk 1",
            "look",
        ],
    ),
    "webshop": (
        [
            "WebShop [SEP] Instruction: [SEP] i need a red hat, and price lower than 20.00 dollars [SEP] Search",
            "'Back to Search' [SEP] 'Page 1 (Total results: 50)' [SEP] 'B000000001' [SEP] 'Red Hat' [SEP] '$5'",
            "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s [SEP] Red Hat"
            " [SEP] Price: $5 [SEP] Rating: N.A. [SEP] Description [SEP] Buy Now",
            "'Back to Search' [SEP] '< Prev' [SEP] 'A fine hat.'",
            "'Search'",
        ],
        [
            "search[red hat]",
            "click[B000000001]",
            "click[red]",
            "Click[Blue]",
            "click[s]",
            "click[< prev]",
            "click[Buy Now]",
        ],
    ),
    "tools": (
        ["Hello, I am Mia.", '{"name": "Mia"}', "Error: no such user", "Error:", "255.0"],
        [
            '[{"arguments":{"user":"mia"},"name":"get_user"}]',
            '[{"arguments":{"a":1,"b":[2]},"name":"book"},{"arguments":"x","name":"cancel"}]',
            '[{"name":3}]',
            "[]",
            "Which user?",
        ],
    ),
    "sql": (
        ["How many?", "[('t',)]", "[]", "Error executing query: no", "[(1,)]"],
        ["SHOW TABLES", "DESCRIBE t", "select  a FROM t;", "SELECT 'A b' FROM `T`", 'select "x', "'", "submit"],
    ),
    "shell": (
        ["$ ", "a.txt b.txt", "1 passed in 0.1s", "1 failed", "", "pid 44"],
        [
            "ls -la",
            "cat a.txt | grep 'x  y'",
            "sed -i s/a/b/ a.txt",
            "pytest -q",
            'echo "',
            "cd /x && git status",
            "\\",
        ],
    ),
    "search": (
        [
            "Who wrote the red book?",
            "The red book was written by Mia.",
            "Could not find Mia.",
            "(Result 1 / 2) Mia wrote.",
        ],
        ["Search[red book]", "<search>red book</search>", "Lookup[Mia]", "finish[Mia]", "<answer> Mia </answer>"],
    ),
    "sokoban": (
        [
            "#####\n#O__#\n#_X_#\n#_P_#\n#####",
            "#####\n#.  #\n# $ #\n#  @#\n#####",
            "# # # #\n# P √ #\n# # # #",
            "###\n#P",
        ],
        ["Up", "left", "move down", "right", "push up", "no op"],
    ),
    "textworld": (
        [
            "-= Kitchen =-\nYou see a stove.",
            "You pick up the red apple from the table.",
            "You drop the red apple.",
            "You can't go that way.",
            "Your score has just gone up by one point.",
            "*** You lost! ***",
            "You eat the red apple.",
        ],
        ["go north", "take red apple", "take the red apple", "drop red apple", "eat apple"],
    ),
}
COMMON = (["You are now at step 3. A door.", "A door.", "A  room."], ["open door", "Open  door", "wait"])


def kind(action: str | None) -> str:
    """Text that begins like JSON is a tool call, other text a message or a command."""
    if action is None:
        return "invalid"
    return "tool_call" if action.startswith("[") else "message" if action.endswith("?") else "env_command"


def rollouts(name: str) -> st.SearchStrategy[list[list[tuple[str | None, str | None]]]]:
    seen, done = POOLS.get(name, COMMON)
    observation = st.one_of(
        st.sampled_from(seen), st.sampled_from(seen), st.sampled_from(HOSTILE), st.none(), st.text(max_size=30)
    )
    action = st.one_of(
        st.sampled_from(done), st.sampled_from(done), st.sampled_from(HOSTILE), st.none(), st.text(max_size=30)
    )
    one = st.lists(st.tuples(observation, action), min_size=1, max_size=8)
    return st.lists(one, min_size=1, max_size=4)


families = pytest.mark.parametrize("name", list(REGISTRY))
checked = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def columns(name: str) -> list[str]:
    return [f"{what}_{rule}" for what in ("state", "action") for rule in range(len(REGISTRY[name].rules))]


@families
@checked
@given(data=st.data())
def test_input_rows_and_columns_come_back_as_they_were(frame: Frame, name: str, data: st.DataObject) -> None:
    steps = frame(*data.draw(rollouts(name)), kind=kind)
    out = REGISTRY[name].apply(steps)
    assert out.select(steps.columns).equals(steps)
    for column in [*columns(name), "progress"]:
        assert out[column].dtype == pl.String
    assert out["progress"].null_count() == 0


@families
@checked
@given(data=st.data())
def test_nothing_after_a_decision_changes_its_keys(frame: Frame, name: str, data: st.DataObject) -> None:
    steps = frame(*data.draw(rollouts(name)), kind=kind)
    last = data.draw(st.integers(0, 7))
    kept = pl.col("step_index") <= last
    whole, cut = REGISTRY[name].apply(steps).filter(kept), REGISTRY[name].apply(steps.filter(kept))
    looks_ahead = {"valid"} & set(whole.columns)
    assert whole.drop(looks_ahead).equals(cut.drop(looks_ahead))


@families
@checked
@given(data=st.data())
def test_an_action_changes_nothing_before_it(frame: Frame, name: str, data: st.DataObject) -> None:
    given_rollouts = data.draw(rollouts(name))
    last = min(len(pairs) for pairs in given_rollouts) - 1
    changed = [[*pairs[:last], (pairs[last][0], "entirely different 9")] for pairs in given_rollouts]
    one = REGISTRY[name].apply(frame(*[pairs[: last + 1] for pairs in given_rollouts], kind=kind))
    other = REGISTRY[name].apply(frame(*changed, kind=kind))
    keys = [c for c in one.columns if c.startswith(("state", "progress", "observation_key"))]
    assert one.select(keys).equals(other.select(keys))


@families
@checked
@given(data=st.data())
def test_a_rollout_alone_gets_the_keys_it_gets_among_others(frame: Frame, name: str, data: st.DataObject) -> None:
    steps = frame(*data.draw(rollouts(name)), kind=kind)
    together = REGISTRY[name].apply(steps)
    alone = [REGISTRY[name].apply(part) for part in steps.partition_by("rollout_id", maintain_order=True)]
    assert together.equals(pl.concat(alone))


@families
@checked
@given(data=st.data())
def test_equal_finer_contexts_and_actions_are_equal_coarser_ones(frame: Frame, name: str, data: st.DataObject) -> None:
    out = REGISTRY[name].apply(frame(*data.draw(rollouts(name)), kind=kind))
    for rule in range(1, len(REGISTRY[name].rules)):
        finer, coarser = f"{rule - 1}", f"{rule}"
        progress = [f"progress_{r}" if f"progress_{r}" in out.columns else "progress" for r in (finer, coarser)]
        states = out.filter(pl.col(f"state_{finer}").is_not_null())
        context = [f"state_{finer}", progress[0]]
        for key, value in [
            (context, pl.concat_str(pl.col(f"state_{coarser}"), pl.lit("\0"), pl.col(progress[1]))),
            ([*context, f"action_{finer}"], pl.col(f"action_{coarser}")),
        ]:
            assert states.group_by(key).agg(value.n_unique().alias("n"))["n"].max() in (1, None)


@families
def test_an_empty_frame_is_no_error(frame: Frame, name: str) -> None:
    steps = frame([("a", "b")]).clear()
    assert REGISTRY[name].apply(steps).height == 0
    assert isinstance(REGISTRY[name].detect(steps), bool)


@families
def test_hostile_text_is_only_compared(frame: Frame, name: str) -> None:
    steps = frame(*[[(text, text), (text, text), (text, None)] for text in HOSTILE])
    out = REGISTRY[name].apply(steps)
    assert out.height == 3 * len(HOSTILE)
