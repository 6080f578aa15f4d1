"""Finding rules: by look, by name, from files; every failure is located and has no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.errors import UsageError
from mcgpo_data.rules.registry import REGISTRY, detect_rules, load_rules

Frame = Callable[..., pl.DataFrame]
GOOD = """
import polars as pl

class Mine:
    name = "mine"
    rules = ("exact",)

    def detect(self, steps):
        return True

    def apply(self, steps):
        seen = pl.col("observation")
        return steps.with_columns(state_0=seen, action_0=pl.col("action_text"), progress=pl.lit(""))

ready = Mine()
"""


@pytest.fixture
def rules_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_steps_that_nobody_knows_get_the_generic_rules(frame: Frame) -> None:
    assert detect_rules(frame([("A door.", "open"), (None, None)])).name == "generic"
    assert detect_rules(frame([("A door.", "open")]).clear()).name == "generic"


@pytest.mark.parametrize(
    "observation,action,kind,name",
    [
        ("You arrive at desk 1. On the desk 1, you see a pen 1.", "take pen 1 from desk 1", "env_command", "alfworld"),
        ("'Back to Search' [SEP] '< Prev' [SEP] 'Buy Now'", "click[buy now]", "env_command", "webshop"),
        ("######\n#P_XO#\n######", "right", "env_command", "sokoban"),
        ("{}", '[{"name":"a","arguments":{}}]', "tool_call", "tools"),
        ("Who?", "<search>who</search>", "env_command", "search"),
        ("How many?", "SELECT 1", "code", "sql"),
        ("$ ", "ls -la", "env_command", "shell"),
        ("-= Kitchen =-\nA table.", "take knife", "env_command", "textworld"),
    ],
)
def test_families_are_known_by_their_look(frame: Frame, observation: str, action: str, kind: str, name: str) -> None:
    assert detect_rules(frame([(observation, action)] * 3, kind=kind)).name == name


def test_rules_are_loaded_by_name() -> None:
    for name, rules in REGISTRY.items():
        assert load_rules(name) is rules


@pytest.mark.parametrize("name", ["Mine", "ready"])
def test_a_class_or_an_object_of_a_file_is_used(frame: Frame, rules_file: Callable[[str], Path], name: str) -> None:
    rules = load_rules(f"{rules_file(GOOD)}:{name}")
    assert (rules.name, rules.rules) == ("mine", ("exact",))
    out = rules.apply(frame([("a", "b")]))
    assert out["state_0"].to_list() == ["a"]
    assert rules.detect(out)


@pytest.mark.parametrize(
    "spec,words",
    [
        ("alfwrold", "Did you mean alfworld?"),
        ("nothing-like-it", "Known: alfworld"),
        ("mine.py", "mine.py:MyRules"),
        ("absent.py:Mine", "no file absent.py"),
        ("absent.yaml", "absent.yaml: cannot be read"),
    ],
)
def test_unknown_names_are_told_what_there_is(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_rules(spec)


@pytest.mark.parametrize(
    "change,words",
    [
        (("class Mine:", "class Mine"), r"mine\.py:4: expected ':'"),
        (("import polars as pl", "import polars as pl\n1 / 0"), r"mine\.py:3: ZeroDivisionError"),
        (("import polars as pl", "raise SystemExit(3)"), r"mine\.py:2: SystemExit"),
        (('    name = "mine"\n', ""), "`name` must be a string"),
        (('("exact",)', '("a", "a")'), "`rules` must be a tuple of different names"),
        (("def detect", "def detects"), r"`detect\(steps\)` is missing"),
        (("class Mine:", "class Other:"), "has no 'Mine'. It has: Other"),
        (('    name = "mine"', '    name = "mine"\n    def __init__(self, x): ...'), r"Mine\(\) failed"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(
    rules_file: Callable[[str], Path], change: tuple[str, str], words: str
) -> None:
    text = GOOD.replace("\nready = Mine()\n", "").replace(*change)
    with pytest.raises(UsageError, match=words):
        load_rules(f"{rules_file(text)}:Mine")


@pytest.mark.parametrize(
    "change,words",
    [
        (('pl.col("action_text")', 'pl.col("action")'), r"mine\.py:13: ColumnNotFoundError"),
        (("return steps.with_columns", "return steps.reverse().with_columns"), "the rows it was given"),
        (("return steps.with_columns", "return steps.head(1).with_columns"), "given 2 and returned 1"),
        (
            ("return steps.with_columns(", "return steps.with_columns(valid=pl.lit(1), "),
            "`valid` as Boolean; it is Int32",
        ),
        (("state_0=seen, ", ""), r"the column\(s\) state_0"),
        (("state_0=seen", "state_0=seen.str.len_bytes()"), "`state_0` as String; it is UInt32"),
        (("return steps.with_columns", "return len"), "a Polars frame"),
    ],
)
def test_a_wrong_result_is_an_error_that_says_what_is_wrong(
    frame: Frame, rules_file: Callable[[str], Path], change: tuple[str, str], words: str
) -> None:
    text = (
        GOOD.replace(*change)
        if change[1] != "return len"
        else GOOD.replace("return steps.with_columns", "return dict")
    )
    rules = load_rules(f"{rules_file(text)}:Mine")
    with pytest.raises(UsageError, match=words):
        rules.apply(frame([("a", "b"), ("c", "d")]))


def test_an_error_of_detect_is_told_with_its_place(frame: Frame, rules_file: Callable[[str], Path]) -> None:
    rules = load_rules(f"{rules_file(GOOD.replace('return True', 'return steps.nothing'))}:Mine")
    with pytest.raises(UsageError, match=r"detect failed: .*mine\.py:9: AttributeError"):
        rules.detect(frame([("a", "b")]))
