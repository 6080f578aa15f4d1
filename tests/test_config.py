"""Options: where a wrong one came from is part of the message."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mcgpo_data.config import BuildConfig, OptionError, build_config
from mcgpo_data.errors import UsageError


@pytest.mark.parametrize(
    "line, message",
    [
        ("folds: three", "folds is 'three'; it must be an integer."),
        ("folds: 1", "folds is 1; it must be an integer from 2 to 64."),
        ("min-support: 0", "min-support is 0; it must be an integer >= 1."),
        ("min_support: no", "min_support is False; it must be an integer."),
        ("weight: heavy", "weight is 'heavy'; choose one of support_margin"),
        ("outcome-range: [1, 0]", "outcome-range is 1.0,0.0; it must be two finite numbers"),
        ("outcome_range: 5", "outcome_range is 5; it must be two numbers LOW,HIGH."),
    ],
)
def test_a_wrong_value_in_a_file_is_told_with_the_file_and_the_key_as_written(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(f"seed: 3\n{line}\n")
    with pytest.raises(UsageError) as caught:
        build_config({"kappa": 2}, path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_wrong_value_of_the_command_line_is_told_as_an_option(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text("folds: 4\nmin-support: 2\n")
    for overrides, message in (({"min_support": "x"}, "--min-support is 'x'"), ({"folds": 1}, "--folds is 1;")):
        with pytest.raises(UsageError, match=message):
            build_config(overrides, path)
    path.write_text("folds: three\n")
    assert build_config({"folds": 5}, path).folds == 5


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("nope.yaml", None, "nope.yaml: no such file."),
        ("", None, "cannot be read (Is a directory)."),
        ("b.yaml", b"\xff\xfe\x00", "b.yaml: cannot be read as YAML"),
        ("b.yaml", b"folds: [1", "b.yaml: cannot be read as YAML"),
        ("b.yaml", b"- folds", "b.yaml: must hold options"),
        ("b.yaml", b"foldss: 3", "b.yaml: unknown option 'foldss'. Did you mean folds?"),
    ],
)
def test_a_file_that_is_no_configuration_is_told_why(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        build_config(None, tmp_path / name)
    assert message in str(caught.value)


def test_the_error_outlives_the_way_between_processes() -> None:
    with pytest.raises(OptionError) as caught:
        BuildConfig(folds=1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
