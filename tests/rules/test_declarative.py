"""Rules from YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.errors import UsageError
from mcgpo_data.rules.declarative import DeclarativeRules, load_declarative

Frame = Callable[..., pl.DataFrame]
LAB = """\
name: lab
detect: {observation: '^You '}
captures:
  room: {from: observation, match: 'You are in the (\\w+)', carry: true, lower: true}
  key: {from: observation, match: 'You take the key', ever: true}
  before: {from: action, match: '^\\w+'}
  goal: {from: instruction, match: 'find (.*)'}
actions:
  verb: {match: '^(\\w+)', lower: true}
  types: {remove: ' \\d+'}
invalid: 'You cannot'
rules:
  - {name: exact, state: [observation, room, before, goal], action: text, progress: [key]}
  - {name: middle, state: [room, before], action: types, progress: [key]}
  - {name: coarse, state: [room], action: types}
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], DeclarativeRules]:
    def write(text: str) -> DeclarativeRules:
        path = tmp_path / "lab.yaml"
        path.write_text(text, encoding="utf-8")
        return load_declarative(path)

    return write


STEPS = [
    ("You are in the Hall. (Turn 1/9)", "Take key 1"),
    ("You take the key.\nGood.", "open  door 2"),
    ("You cannot do that", "go"),
    (None, None),
]


def test_captures_make_states_and_flags(frame: Frame, load: Callable[[str], DeclarativeRules]) -> None:
    rules = load(LAB)
    out = rules.apply(frame(STEPS, instruction="find gold; room=attic"))
    assert rules.detect(out)
    assert out["state_0"].to_list() == [
        "room=hall; before=; goal=gold, room=attic; sees You are in the Hall. (~)",
        "room=hall; before=Take; goal=gold, room=attic; sees You take the key. Good.",
        "room=hall; before=open; goal=gold, room=attic; sees You cannot do that",
        None,
    ]
    assert out["state_2"].to_list()[:2] == ["room=hall", "room=hall"]
    assert out["progress_1"].to_list() == ["", "key", "key", "key"]
    assert out["progress"].to_list() == out["progress_0"].to_list()
    assert out["progress_2"].to_list() == [""] * 4
    assert out["action_0"].to_list() == ["Take key 1", "open door 2", "go", None]
    assert out["action_1"].to_list() == ["Take key", "open door", "go", None]
    assert out["valid"].to_list() == [None, False, None, None]


def test_an_action_without_the_part_that_is_asked_for_is_none(
    frame: Frame, load: Callable[[str], DeclarativeRules]
) -> None:
    text = "name: x\nactions: {tagged: {match: 'do (.*)'}}\nrules: [{name: a, state: [observation], action: tagged}]\n"
    assert load(text).apply(frame([("s", "do it"), ("s", "say it")]))["action_0"].to_list() == ["it", None]


def test_captured_values_stay_inside_their_rollout(frame: Frame, load: Callable[[str], DeclarativeRules]) -> None:
    out = load(LAB).apply(frame(STEPS[:2], [("You stand.", "go"), ("You stand.", "go")]))
    assert out["state_2"].to_list() == ["room=hall", "room=hall", "room=", "room="]
    assert out["progress"].to_list() == ["", "key", "", ""]


def test_without_signs_the_rules_detect_nothing(frame: Frame, load: Callable[[str], DeclarativeRules]) -> None:
    text = "name: x\nrules: [{name: a, state: [observation], action: text}]\n"
    assert not load(text).detect(frame([("s", "a")]))


@pytest.mark.parametrize(
    "old,new,words",
    [
        ("name: lab\n", "", "lab.yaml:1: lacks `name`"),
        ("captures:", "capture:", r"lab\.yaml:4: .*unknown key 'capture'; did you mean 'captures'"),
        ("carry: true", "carry: 1", r"lab\.yaml:4: captures\.room\.carry: must be true or false"),
        ("'You take the key'", "'('", r"lab\.yaml:5: captures\.key\.match: is no regular expression .*unclosed group"),
        ("ever: true", "ever: true, carry: true", r"lab\.yaml:5: captures\.key: `ever` makes a flag"),
        ("from: action", "from: reward", r"lab\.yaml:6: captures\.before\.from: is 'reward'; choose one of"),
        ("match: 'find (.*)'", "lower: true", r"lab\.yaml:7: captures\.goal: lacks `match`"),
        ("action: text", "action: tex", r"lab\.yaml:13: rules\.0\.action: is 'tex'; choose one of text, verb, types"),
        ("state: [room]", "state: [rooms]", r"lab\.yaml:15: rules\.2\.state\.0: is 'rooms'; choose one of"),
        ("state: [room]", "state: [room, goal]", r"lab\.yaml:15: rules\.2: names 'goal'"),
        ("state: [room]", "state: room", r"lab\.yaml:15: rules\.2\.state: must be a list"),
        ("[room], action: types", "[room], action: verb", r"lab\.yaml:15: rules\.2: has action 'verb'"),
        ("name: coarse", "name: exact", r"lab\.yaml:15: rules\.2\.name: there is a rule 'exact' already"),
        ("key: {from", "observation: {from", r"lab\.yaml:4: captures: `observation` has a meaning of its own"),
        ("types: {remove", "text: {remove", r"lab\.yaml:9: actions: `text` has a meaning of its own"),
        ("actions:", "actions: [", r"lab\.yaml:\d+: no valid YAML"),
        ("name: lab", "name: !!python/object/apply:os.system [id]", r"lab\.yaml:1: name: must be text"),
    ],
)
def test_mistakes_are_told_with_file_line_and_key(
    load: Callable[[str], DeclarativeRules], old: str, new: str, words: str
) -> None:
    assert old in LAB
    with pytest.raises(UsageError, match=words):
        load(LAB.replace(old, new, 1))


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load_declarative(tmp_path / "x.yaml")
