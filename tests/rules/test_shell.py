"""Rules for agents at a command line."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from mcgpo_data.rules.shell import ShellRules, canonical_command, programs

Frame = Callable[..., pl.DataFrame]


def canonical(text: str) -> str | None:
    return pl.select(canonical_command(pl.lit(text))).item()


@pytest.mark.parametrize(
    "one,other",
    [("ls   -la", "ls -la"), ("$ ls", "ls"), ("```bash\nls\n```", "ls"), ("ls ;", "ls"), ("cd x\n\n ls", "cd x\nls")],
)
def test_spellings_of_one_command_are_one_action(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    "one,other",
    [
        ("echo 'a  b'", "echo 'a b'"),
        ('echo "a  b"', 'echo "a b"'),
        ("LS", "ls"),
        ("cd x\nls", "cd x ls"),
        ("ls -l", "ls"),
    ],
)
def test_different_commands_stay_different(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    "command,names",
    [
        ('cat a.txt | grep -n "x | y"', "cat | grep"),
        ("cd /x && git status", "cd | git status"),
        ("FOO=1 sudo apt-get install x; ls > out", "apt-get install | ls"),
        ("sudo FOO=1 make", "make"),
        ("pip3 install x || true", "pip3 install | true"),
    ],
)
def test_coarse_actions_are_the_programs_that_run(command: str, names: str) -> None:
    assert pl.select(programs(pl.lit(command))).item() == names


def test_exact_states_hold_the_commands_so_far(frame: Frame) -> None:
    out = ShellRules().apply(frame([("", "cd /a"), ("", "ls")], [("", "cd /b"), ("", "ls")]))
    assert out["state_0"][0] == out["state_0"][2]
    assert out["state_0"][1] != out["state_0"][3]
    assert out["state_1"].n_unique() == 1


def test_progress_tells_edits_and_test_runs(frame: Frame) -> None:
    out = ShellRules().apply(
        frame(
            [
                ("$", "pytest -q"),
                ("2 failed, 1 passed in 0.1s", "sed -i s/a/b/ x.py"),
                ("", "pytest -q"),
                ("3 passed in 0.1s", "cat x.py"),
                ("b", None),
            ]
        )
    )
    assert out["progress"].to_list() == ["", "tested", "edited,tested", "edited,tested,passed", "edited,tested,passed"]


def test_a_redirection_to_a_descriptor_is_no_edit(frame: Frame) -> None:
    out = ShellRules().apply(frame([("$", "ls 2>&1"), ("x", "ls > y"), ("", None)]))
    assert out["progress"].to_list() == ["", "", "edited"]
