"""ALFWorld rules: tracked state, rubric, canonical commands."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.rules.alfworld import AlfworldRules

RULES = AlfworldRules()
START = "You are in the middle of a room. Looking quickly around you, you see a desk 1, a fridge 1, and a shelf 1."
Frame = Callable[..., pl.DataFrame]


def start(task: str) -> str:
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{START}\n\nYour task is to: {task}."


def states(steps: pl.DataFrame, column: str = "state_0") -> list[str]:
    return RULES.apply(steps)[column].to_list()


def test_location_and_held_object_follow_the_text_of_the_game(frame: Frame) -> None:
    steps = frame(
        [
            (start("put a hot apple in fridge"), "go to desk 1"),
            ("You arrive at desk 1. On the desk 1, you see a apple 1, and a pen 2.", "take apple 1 from desk 1"),
            ("You pick up the apple 1 from the desk 1.", "go to fridge 1"),
            ("The fridge 1 is closed.", "heat apple 1 with microwave 1"),
            ("You heat the apple 1 using the microwave 1.", "put apple 1 in/on fridge 1"),
            ("You put the apple 1 in/on the fridge 1.", None),
        ]
    )
    out = RULES.apply(steps)
    assert [s.split("; offered")[0] for s in out["state_0"]] == [
        "hot at start with nothing; moved nothing",
        "hot at desk 1 with nothing; moved nothing",
        "hot at desk 1 with apple 1; moved nothing",
        "hot at fridge 1 with apple 1; moved nothing",
        "hot at fridge 1 with apple 1 (hot); moved nothing",
        "hot at fridge 1 with nothing; moved apple 1 (hot) to fridge 1",
    ]
    assert out["progress"].to_list() == [
        "",
        "seen",
        "seen,held",
        "seen,held,at",
        "seen,held,hot,at",
        "seen,hot,at,placed",
    ]
    assert out["state_1"].to_list()[4] == "hot at fridge with apple (hot)"
    assert out["action_1"].to_list()[1] == "take apple from desk"


def test_a_refused_command_is_invalid_and_leaves_the_state(frame: Frame) -> None:
    steps = frame(
        [
            (start("put some pen on shelf"), "go to desk 1"),
            ("On the desk 1, you see a pen 2.", "open desk 1"),
            ("Nothing happens.", "go to shelf 1"),
            ("Nothing happens.", "take pen 2 from desk 1"),
            ("You pick up the pen 2 from the desk 1.", None),
        ]
    )
    out = RULES.apply(steps)
    assert out["valid"].to_list() == [None, False, False, None, None]
    assert out["state_0"][1] == out["state_0"][2] == out["state_0"][3]
    assert out["state_0"][4].startswith("put at desk 1 with pen 2")


def test_an_object_put_back_where_it_was_leaves_no_trace(frame: Frame) -> None:
    look = "On the desk 1, you see a pen 2."
    there_and_back = [
        (look, "take pen 2 from desk 1"),
        ("You pick up the pen 2 from the desk 1.", "move pen 2 to desk 1"),
        ("You move the pen 2 to the desk 1.", "examine desk 1"),
        (look, "go to shelf 1"),
    ]
    out = states(frame(there_and_back))
    assert out[3] == out[0]


def test_moved_objects_are_a_set_in_which_the_last_place_counts(frame: Frame) -> None:
    def carry(thing: str, source: str, place: str) -> list[tuple[str, str]]:
        return [
            (f"You pick up the {thing} from the {source}.", f"move {thing} to {place}"),
            (f"You move the {thing} to the {place}.", "look"),
        ]

    pens = carry("pen 1", "desk 1", "shelf 1")
    mugs = carry("mug 1", "desk 1", "shelf 1")
    end = [("On the shelf 1, you see a mug 1, and a pen 1.", "look")]
    detour = [*carry("pen 1", "desk 1", "bed 1"), *mugs, *carry("pen 1", "bed 1", "shelf 1")]
    out = RULES.apply(frame([*pens, *mugs, *end], [*mugs, *pens, *end], [*detour, *end]))
    last = out.group_by("rollout_id", maintain_order=True).last()["state_0"].to_list()
    assert last[0] == last[1] == last[2]
    assert "moved mug 1 to shelf 1, pen 1 to shelf 1;" in last[0]


def test_an_object_stays_hot_when_it_is_put_down_and_taken_again(frame: Frame) -> None:
    steps = frame(
        [
            ("You pick up the egg 1 from the desk 1.", "heat egg 1 with microwave 1"),
            ("You heat the egg 1 using the microwave 1.", "move egg 1 to desk 1"),
            ("You move the egg 1 to the desk 1.", "take egg 2 from desk 1"),
            ("You pick up the egg 2 from the desk 1.", "move egg 2 to desk 1"),
            ("You move the egg 2 to the desk 1.", "take egg 1 from desk 1"),
            ("You pick up the egg 1 from the desk 1.", "cool egg 1 with fridge 1"),
            ("You cool the egg 1 using the fridge 1.", "look"),
        ]
    )
    held = [s.split(" with ")[1].split(";")[0] for s in states(steps)]
    assert held == ["egg 1", "egg 1 (hot)", "nothing", "egg 2", "nothing", "egg 1 (hot)", "egg 1 (cool)"]


def test_two_objects_are_counted_and_uncounted(frame: Frame) -> None:
    steps = frame(
        [
            (start("find two box and put them in armchair"), "look"),
            ("You pick up the box 1 from the desk 1.", "move box 1 to armchair 1"),
            ("You move the box 1 to the armchair 1.", "look"),
            ("You pick up the box 2 from the desk 1.", "move box 2 to armchair 2"),
            ("You move the box 2 to the armchair 2.", "take box 1 from armchair 1"),
            ("You pick up the box 1 from the armchair 1.", None),
        ]
    )
    assert states(steps, "progress") == [
        "",
        "seen,held",
        "seen,at,placed",
        "seen,held,placed",
        "seen,at,placed,both",
        "seen,held,at,placed",
    ]


def test_lamp_tasks_report_lamp_and_place(frame: Frame) -> None:
    steps = frame(
        [
            (start("look at book under the desklamp"), "go to desk 1"),
            ("On the desk 1, you see a book 1, and a desklamp 1.", "use desklamp 1"),
            ("You turn on the desklamp 1.", "take book 1 from desk 1"),
            ("You pick up the book 1 from the desk 1.", "go to shelf 1"),
            ("On the shelf 1, you see nothing.", None),
        ]
    )
    assert states(steps, "progress") == [
        "",
        "seen,lamp",
        "seen,lamp,on,lit",
        "seen,held,lamp,on,lit",
        "seen,held,lamp,on",
    ]


@pytest.mark.parametrize(
    "task,kind",
    [
        ("put a dishsponge in garbagecan", "put"),
        ("put some pen on dresser", "put"),
        ("look at vase under the floorlamp", "look"),
        ("examine the box with the floorlamp", "look"),
        ("put a clean cup in microwave", "clean"),
        ("clean some cloth and put it in drawer", "clean"),
        ("put a hot egg in diningtable", "hot"),
        ("heat some mug and put it in fridge", "hot"),
        ("put a cool pan in cabinet", "cool"),
        ("cool some egg and put it in microwave", "cool"),
        ("put two book in cabinet", "two"),
        ("find two pencil and put them in garbagecan", "two"),
        ("Prepare a nice breakfast", "other"),
    ],
)
def test_every_task_sentence_has_its_type(frame: Frame, task: str, kind: str) -> None:
    in_observation = states(frame([(start(task), "look")]))
    in_instruction = states(frame([(START, "look")], instruction=task))
    assert in_observation[0].startswith(f"{kind} at ")
    assert in_instruction[0].startswith(f"{kind} at ")


def test_the_words_of_the_task_are_not_taken_for_things_seen(frame: Frame) -> None:
    assert states(frame([(start("put a cup in desk"), "look")]), "progress") == [""]


@pytest.mark.parametrize(
    "one,other",
    [
        ("put apple 1 in/on fridge 1", "move apple 1 to fridge 1"),
        ("Examine desk 1", "examine  desk 1"),
        ("go to desk 1.", "go to desk 1"),
    ],
)
def test_spellings_of_one_command_are_one_action(frame: Frame, one: str, other: str) -> None:
    assert states(frame([(START, one)]), "action_0") == states(frame([(START, other)]), "action_0")


def test_different_things_stay_different_commands(frame: Frame) -> None:
    out = RULES.apply(frame([(START, "take mug 1 from desk 1")], [(START, "take mug 2 from desk 1")]))
    assert out["action_0"].n_unique() == 2
    assert out["action_1"].n_unique() == 1


def test_only_local_commands_on_offer_count(frame: Frame) -> None:
    offers = ["look", "help", "inventory", "go to desk 1", "Open fridge 1", "examine fridge 1"]
    out = states(frame([("The fridge 1 is closed.", "look")], offers=[offers]))
    assert "offered examine fridge 1|open fridge 1;" in out[0]


def test_state_agrees_with_the_engine_on_real_rollouts(shared: Path) -> None:
    with gzip.open(shared / "data/env_alfworld/rollouts.jsonl.gz") as lines:
        records = [json.loads(line) for _, line in zip(range(8000), lines, strict=False)]
    steps = pl.DataFrame(
        [
            {
                "task_id": r["task_id"],
                "rollout_id": r["rollout_id"],
                "step_index": r["step"],
                "is_final": False,
                "instruction": r["task"],
                "observation": r["observation"],
                "action_text": r["action"],
                "action_kind": "env_command",
                "action_valid": None,
                "admissible_actions": r["admissible"],
                "location": r["location"],
                "held": r["held"],
                "rubric": json.dumps(r["progress_before"]),
                "truth": r["goal_state_id"],
            }
            for r in records
        ],
        schema_overrides={"action_valid": pl.Boolean},
    ).sort("rollout_id", "step_index")
    out = RULES.apply(steps)
    tracked = out.select(
        pl.col("state_0").str.extract_groups(r" at (?<at>.*?) with (?<held>.*?)(?: \(.*?\))?;")
    ).unnest("state_0")
    assert tracked["at"].to_list() == out["location"].fill_null("start").to_list()
    assert tracked["held"].to_list() == out["held"].fill_null("nothing").to_list()
    wanted = {"hold_target": "held", "placed": "placed", "placed_one": "placed", "placed_two": "both", "lamp_on": "on"}
    for progress, rubric in out.select("progress", "rubric").iter_rows():
        words = set(progress.split(","))
        for key, truth in json.loads(rubric).items():
            if key in wanted:
                assert (wanted[key] in words) == truth
    groups = (
        out.group_by("task_id", "state_0", "progress")
        .agg(
            pl.len(),
            pl.col("rollout_id").n_unique().alias("rollouts"),
            pl.col("truth").value_counts().struct.field("count").max().alias("agree"),
        )
        .filter(pl.col("rollouts") >= 2)
    )
    assert groups["len"].sum() / out.height > 0.5  # steps whose context is seen in more than one rollout
    assert groups["agree"].sum() / groups["len"].sum() > 0.98  # of these, steps in the true state of their context
