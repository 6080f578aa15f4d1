"""WebShop rules: pages in every style, chosen options, rubric, actions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mcgpo_data.rules.webshop import WebshopRules
from mcgpo_data.rules.webshop_page import page_parts, page_text, parse_page, stated_instruction

Frame = Callable[..., pl.DataFrame]
RULES = WebshopRules()
TASK = "i need a red wool hat, size s, and price lower than 20.00 dollars"
SEARCH = ["WebShop", "Instruction:", TASK, "Search"]
RESULTS = [
    "Back to Search",
    "Page 1 (Total results: 50)",
    "Next >",
    "B000000001",
    "Red Wool Hat",
    "$5",
    "B000000002",
    "Cap",
    "$9",
]
ITEM = ["Back to Search", "< Prev", "color", "red", "blue", "size", "s", "m", "Red Wool Hat", "Price: $5.00 to $7.50"]
ITEM += ["Rating: N.A.", "Description", "Features", "Reviews", "Buy Now"]
DEAR = [part.replace("$5.00 to $7.50", "$25") for part in ITEM]
SUB = ["Back to Search", "< Prev", "A fine hat."]


def plain(parts: list[str]) -> str:
    return " [SEP] ".join(parts if parts[0] == "WebShop" else ["Instruction:", TASK, *parts])


def quoted(parts: list[str]) -> str:
    return " [SEP] ".join(f"'{part}'" for part in parts if part not in ("WebShop", "Instruction:", TASK))


def lines(parts: list[str]) -> str:
    buttons = {"Back to Search", "Next >", "< Prev", "Buy Now", "Description", "Features", "Reviews", "Search"}
    shown = parts if parts[0] == "WebShop" else ["WebShop", "Instruction:", TASK, *parts]
    return "\n".join(f"[{part}]" if part in buttons or part.startswith("B0") else part for part in shown)


@pytest.mark.parametrize("style", [plain, quoted, lines])
@pytest.mark.parametrize("parts", [RESULTS, ITEM, SUB], ids=["results", "item", "sub"])
def test_every_style_of_page_gives_the_same_text(style: Callable[[list[str]], str], parts: list[str]) -> None:
    assert pl.select(page_text(page_parts(pl.lit(style(parts))))).item() == " [sep] ".join(parts).lower()


@pytest.mark.parametrize(
    "parts,kind",
    [
        (SEARCH, "search"),
        (RESULTS, "results"),
        (ITEM, "item"),
        (SUB, "sub"),
        (["Thank you for shopping with us!"], "done"),
    ],
)
def test_kinds_of_pages(parts: list[str], kind: str) -> None:
    for style in (plain, quoted, lines):
        text = pl.select(page_text(page_parts(pl.lit(style(parts))))).item()
        assert parse_page(text).kind == kind


def test_the_instruction_is_read_off_the_page() -> None:
    for style, parts in ((plain, SEARCH), (plain, ITEM), (lines, ITEM)):
        assert pl.select(stated_instruction(page_parts(pl.lit(style(parts))))).item() == TASK
    assert pl.select(stated_instruction(page_parts(pl.lit(quoted(ITEM))))).item() is None


def test_an_item_page_names_options_prices_and_title() -> None:
    page = parse_page(" [sep] ".join(ITEM).lower())
    assert (page.title, page.low, page.high) == ("red wool hat", 5.0, 7.5)
    assert page.clicks["red"] == ("option", "color", 0)
    assert page.clicks["m"] == ("option", "size", 1)
    assert "red wool hat" not in page.clicks


def test_chosen_options_are_followed_and_forgotten_on_leaving_the_item(frame: Frame) -> None:
    steps = [
        (plain(SEARCH), "search[red hat]"),
        (plain(RESULTS), "click[B000000001]"),
        (plain(ITEM), "click[Blue]"),
        (plain(ITEM), "click[red]"),
        (plain(ITEM), "click[description]"),
        (plain(SUB), "click[< Prev]"),
        (plain(ITEM), "click[s]"),
        (plain(ITEM), "click[< prev]"),
        (plain(RESULTS), "click[B000000001]"),
        (plain(ITEM), "click[Buy Now]"),
    ]
    out = RULES.apply(frame(steps))
    chosen = [state.split("; chosen ")[1].split("; query")[0] for state in out["state_0"]]
    red = "color=red (asked)"
    assert chosen == ["", "", "", "color=blue", red, red, red, f"{red}, size=s (asked)", "", ""]
    assert out["state_0"][2] == out["state_0"][9]
    assert out["state_1"].to_list() == ["search", "results", *["item"] * 3, "sub", "item", "item", "results", "item"]


def test_progress_is_read_off_instruction_and_pages(frame: Frame) -> None:
    out = RULES.apply(
        frame(
            [
                (plain(SEARCH), "search[red hat wool s]"),
                (plain(RESULTS), "click[B000000001]"),
                (plain(ITEM), "click[red]"),
                (plain(ITEM), "click[features]"),
                (plain(SUB), "click[back to search]"),
                (plain(SEARCH), "search[cap]"),
                (plain(RESULTS), "click[B000000002]"),
                (plain(DEAR), "click[buy now]"),
            ]
        )
    )
    assert out["progress"].to_list() == [
        "query=none",
        "query=half",
        "query=half,title=half,price=ok,options=0/2",
        "query=half,title=half,price=ok,options=1/2",
        "query=half,title=half,price=ok,options=1/2",
        "query=half",
        "query=none",
        "query=none,title=half,price=over,options=0/2",
    ]


def test_actions_ignore_case_and_coarse_ones_name_what_is_clicked(frame: Frame) -> None:
    clicks = [
        "click[Red]",
        "click[blue]",
        "click[BUY NOW]",
        "click[< Prev]",
        "click[Reviews]",
        "click[Back to Search]",
    ]
    out = RULES.apply(
        frame(
            [(plain(SEARCH), "Search[Red  Hat]")],
            *[[(plain(ITEM), click)] for click in clicks],
            [
                (plain(RESULTS), "click[b000000001]"),
                (plain(RESULTS), "click[b000000002]"),
                (plain(RESULTS), "click[next >]"),
            ],
        )
    )
    assert out["action_0"].to_list()[:2] == ["search[red hat]", "click[red]"]
    assert out["action_1"].to_list() == [
        "search half",
        "click asked option color",
        "click other option color",
        "click buy now",
        "click prev",
        "click tab",
        "click back to search",
        "click item first",
        "click item near top",
        "click next",
    ]


def test_what_changes_nothing_is_invalid(frame: Frame) -> None:
    out = RULES.apply(
        frame(
            [(plain(SEARCH), "search[hat]"), (plain(RESULTS), "click[green]"), (plain(RESULTS), "search[hat]")],
            [(plain(ITEM), "buy it"), (plain(ITEM), "click[m]"), (plain(ITEM), None), ("A strange page", "click[x]")],
        )
    )
    assert out["valid"].to_list() == [None, False, False, False, None, None, None]


def test_other_limits_are_other_tasks(frame: Frame) -> None:
    one = RULES.apply(frame([(quoted(ITEM), "click[red]")], instruction=TASK))
    other = RULES.apply(frame([(quoted(ITEM), "click[red]")], instruction=TASK.replace("20.00", "30.00")))
    assert one["state_0"][0] != other["state_0"][0]


def test_state_agrees_with_the_shop_on_real_rollouts(shared: Path) -> None:
    with gzip.open(shared / "data/env_webshop/rollouts.jsonl.gz") as file:
        records = [json.loads(line) for _, line in zip(range(8000), file, strict=False)]
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
                "action_valid": r["valid"],
                "admissible_actions": r["admissible"],
                "truth": r["state_id"],
                "after": json.dumps(r["progress"]),
            }
            for r in records
        ]
    ).sort("rollout_id", "step_index")
    assert RULES.detect(steps)
    out = RULES.apply(steps).with_columns(pl.col("after").shift(1).over("rollout_id").alias("before"))
    assert out["valid"].null_count() == out.height  # the shop accepted every click
    checked = wrong = 0
    for kind, progress, before in out.select("state_1", "progress", "before").drop_nulls().iter_rows():
        truth = json.loads(before)
        assert kind == {"index": "search"}.get(truth["page"], truth["page"])
        if kind == "item":
            fields = dict(part.split("=") for part in progress.split(","))
            assert (fields["price"] == "ok") == truth["price_ok"]
            checked += 1
            wrong += int(fields["options"].split("/")[0]) != truth["opt_matched"]
    assert wrong / checked < 0.15  # the shop matches options fuzzily, and may ask for some that the item lacks
    groups = (
        out.group_by("task_id", "state_0")
        .agg(
            pl.len(),
            pl.col("rollout_id").n_unique().alias("rollouts"),
            pl.col("truth").value_counts().struct.field("count").max().alias("agree"),
        )
        .filter(pl.col("rollouts") >= 2)
    )
    assert groups["len"].sum() / out.height > 0.7
    assert groups["agree"].sum() / groups["len"].sum() > 0.9
