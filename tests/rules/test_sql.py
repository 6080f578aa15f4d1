"""Rules for SQL agents."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from mcgpo_data.rules.sql import SqlRules, canonical_sql, kind_and_tables

Frame = Callable[..., pl.DataFrame]


def canonical(text: str) -> str | None:
    return pl.select(canonical_sql(pl.lit(text))).item()


@pytest.mark.parametrize(
    "one,other",
    [
        ("SELECT  a FROM t;", "select a\nfrom T"),
        ("select a from t where b=1", "select a from t where b = 1"),
        ("select a,b from t", "select a , b from t"),
        ("select count( * ) from t", "select count(*) from t"),
        ('select a from t where b = "X y"', "select a from t where b = 'X y'"),
        ('select "it\'s"', "select 'it''s'"),
        ("select `A` from t", "select a from t"),
        ("```sql\nselect 1\n```", "select 1"),
    ],
)
def test_spellings_of_one_statement_are_one_action(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    "one,other",
    [
        ("select 'A'", "select 'a'"),
        ("select 'a  b'", "select 'a b'"),
        ("select a, b from t", "select b, a from t"),
        ("select a from t where b > = 1", "select a from t where b >= 1"),
        ("select a from t", "select a from u"),
        ("select 'x;'", "select 'x'"),
    ],
)
def test_different_statements_stay_different(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_unbalanced_quotes_are_kept_as_they_are() -> None:
    assert canonical("select 'abc") == "select 'abc"


@pytest.mark.parametrize(
    "statement,kind",
    [
        ("SHOW TABLES", "show tables"),
        ("SHOW COLUMNS FROM t", "show columns t"),
        ("desc T", "desc t"),
        ("SELECT a FROM u JOIN b ON u.x = b.x WHERE c IN (SELECT c FROM u)", "select b, u"),
        ("submit", "submit"),
    ],
)
def test_coarse_actions_are_the_kind_of_statement_and_its_tables(statement: str, kind: str) -> None:
    assert pl.select(kind_and_tables(canonical_sql(pl.lit(statement)))).item() == kind


def test_exact_states_hold_the_set_of_statements_so_far(frame: Frame) -> None:
    a, b = "show tables", "describe t"
    out = SqlRules().apply(
        frame(
            [("How many?", a), ("T", b), ("D", a), ("T", b), ("D", "select 1")],
            [("How many?", b), ("D", a), ("T", a), ("T", b), ("D", "select 1")],
        )
    )
    last = out.filter(pl.col("step_index") == 4)
    assert last["state_0"].n_unique() == 1
    assert "after 2 statements" in last["state_0"][0]
    assert out["state_0"][1] != out["state_0"][3]


def test_progress_names_what_was_learnt(frame: Frame) -> None:
    out = SqlRules().apply(
        frame(
            [
                ("How many?", "describe nothing"),
                ("Error executing query: no such table", "SHOW TABLES"),
                ("[('t',)]", "desc t"),
                ("[('a', 'int')]", "select a from t where a > 5"),
                ("[]", "select a from t"),
                ("[(1,)]", None),
            ]
        )
    )
    assert out["progress"].to_list() == ["", "", "tables", "tables,columns", "tables,columns", "tables,columns,rows"]


def test_an_error_of_the_database_is_no_refusal(frame: Frame) -> None:
    steps = frame([("How many?", "select x"), ("Error executing query", None)]).with_columns(
        action_valid=pl.lit(False)
    )
    assert SqlRules().apply(steps)["valid"].to_list() == [True, None]
