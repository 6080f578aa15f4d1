"""ALFWorld (and its text clones): household tasks in rooms full of receptacles.

exact state: task type; location; held object and what was done to it; objects moved so far and where they are now;
commands on offer here (where logged); last observation. exact action: the command in lower case, `put X in/on Y` and
`move X to Y` being one.

coarse state: task type; type of location; type of held object and what was done to it. coarse action: the command
without the numbers of things.

Rubric, in the order written: `seen` a target object was listed; `held` one is in hand; `clean`, `hot` or `cool`, as
the task wants: one was made so; `at` the goal receptacle type is here; `placed` one was put there (in the wanted
state) and not taken away again, `both` two were. For "look at X under the Y": `seen`, `held`, `lamp` a lamp was
listed, `on` it was turned on, `lit` the agent is where it is.

"Nothing happens." refuses a command: the command is invalid, and the state stays what it was. The location is that of
the last observation that names one, else of the last `go to` that was not refused. Objects moved are a set, not a
history, and an object that is back, unaltered, where it was first taken from was never moved (ours; GraphGPO keeps the
ordered list of moves).

Everything is a window expression but one: what was moved where is folded in a Python loop over the steps at which
something is picked up or put down (about one in fourteen), because an entry replaces an earlier one of the same
object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from mcgpo_data.rules.frame import RUN, after, before, carried, carried_within, ever, known, names, share, working
from mcgpo_data.rules.text import EDGE, lowered, said

THING: Final = r"([a-z]+ \d+)"
TASK: Final = r"your task is to:\s*([^\n.]+)"
REFUSED: Final = "nothing happens"
MAX_MOVED: Final = 64  # objects remembered as moved; a game has about 30

_A: Final = r"(?:(?:an?|some|the|two) )?"
_IN: Final = rf"(?:in/on|in|on|to) {_A}(\w+)"
GOALS: Final = {  # task type -> sentences with the target, then the goal receptacle or lamp
    "look": (rf"^(?:look at|examine) {_A}(\w+) (?:under|with) {_A}(\w+)",),
    "two": (rf"^(?:put|find) two (\w+) (?:and put them )?{_IN}",),
    "clean": (rf"^put {_A}clean (\w+) {_IN}", rf"^clean {_A}(\w+) and put (?:it|them) {_IN}"),
    "hot": (rf"^put {_A}hot (\w+) {_IN}", rf"^heat {_A}(\w+) and put (?:it|them) {_IN}"),
    "cool": (rf"^put {_A}cool (\w+) {_IN}", rf"^cool {_A}(\w+) and put (?:it|them) {_IN}"),
    "put": (rf"^put {_A}(\w+) {_IN}",),
}
LOOKS_LIKE: Final = (
    r"^(?:-= welcome to textworld, alfred|you are in the middle of a room|you arrive at|on the [a-z]+ \d+, you see"
    r"|the [a-z]+ \d+ is (?:open|closed)|you (?:open|pick up|put|move|clean|heat|cool|turn on) the [a-z]+ \d+"
    r"|nothing happens)"
)


class AlfworldRules:
    """Location, held object, moved objects and rubric, all read from the text of the game."""

    name = "alfworld"
    rules: tuple[str, ...] = ("exact", "coarse")

    def detect(self, steps: pl.DataFrame) -> bool:
        """At least half of the observations are sentences of the game."""
        return share(lowered(pl.col("observation")).str.contains(LOOKS_LIKE), steps) >= 0.5

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py` for both rules, `valid` and `observation_key`."""
        work = _task(_read(steps))
        work = _moves(_follow(work))
        at, held, status = pl.col("at"), pl.col("held"), pl.col("status")
        task = pl.col("task")
        exact = pl.format(
            "{} at {} with {}{}; moved {}; offered {}; sees {}",
            task, at, held, status, pl.col("moved"), pl.col("offered"), pl.col("last_seen"),
        )  # fmt: skip
        coarse = pl.format("{} at {} with {}{}", task, _type(at), _type(held), status)
        added = work.select(
            known("seen", exact).alias("state_0"),
            known("seen", coarse).alias("state_1"),
            pl.col("command").alias("action_0"),
            pl.col("command").str.replace_all(r" \d+\b", "").alias("action_1"),
            _rubric().alias("progress"),
            pl.when(after(pl.col("refused"))).then(False).alias("valid"),
            pl.col("seen").alias("observation_key"),
        )
        return steps.with_columns(added)


def _type(thing: pl.Expr) -> pl.Expr:
    return thing.str.replace(r" \d+$", "")


def _read(steps: pl.DataFrame) -> pl.DataFrame:
    """What each row says by itself."""
    command = (
        lowered(pl.col("action_text"))
        .str.strip_chars_end(".")
        .str.replace(rf"^put {THING} in/on {THING}$", "move ${1} to ${2}")
    )
    local = pl.col("admissible_actions").list.eval(
        pl.element().str.to_lowercase().filter(~pl.element().str.contains(r"(?i)^(?:go to |help$|look$|inventory$)"))
    )
    work = working(
        steps,
        lowered(pl.col("observation")).str.replace(r"^observation:\s*", "").alias("seen"),
        said(command).alias("command"),
        pl.col("instruction").str.to_lowercase().alias("instruction"),
        local.list.sort().list.join("|", ignore_nulls=True).fill_null("").alias("offered"),
    )
    seen = pl.col("seen")
    return work.with_columns(
        seen.str.contains(REFUSED, literal=True).fill_null(False).alias("refused"),
        pl.coalesce(
            seen.str.extract(rf"(?:on|in) the {THING}, you see"),
            seen.str.extract(rf"{EDGE}the {THING} is (?:open|closed)"),
            seen.str.extract(rf"^you arrive at {THING}"),
            seen.str.extract(rf"^you are facing the {THING}"),
        ).alias("names_place"),
        seen.str.extract(rf"^you pick up the {THING} from the {THING}", 1).alias("picked"),
        seen.str.extract(rf"^you pick up the {THING} from the {THING}", 2).alias("picked_from"),
        seen.str.extract(rf"^you (?:put|move) the {THING} (?:in/on|in|on|to) the {THING}", 1).alias("dropped"),
        seen.str.extract(rf"^you (?:put|move) the {THING} (?:in/on|in|on|to) the {THING}", 2).alias("dropped_at"),
        seen.str.extract(rf"^you (?:clean|heat|cool) the {THING} using the ", 1).alias("worked_on"),
        seen.str.extract(r"^you (clean|heat|cool) the ", 1).replace({"heat": "hot"}).alias("work"),
        seen.str.extract(rf"^you are carrying: an? {THING}", 1).alias("carrying"),
        seen.str.contains(r"^you are not carrying anything").alias("empty_handed"),
        seen.str.extract(r"^you turn (on|off) the ", 1).alias("turned"),
        seen.str.replace(r"your task is to:.*$", "").alias("listing"),
    )


def _task(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `task` (type), `target`, `goal`: equal on all rows of a rollout from the row on that states the task."""
    stated = pl.coalesce(
        pl.col("seen").str.extract(TASK), pl.col("instruction").str.extract(TASK), pl.col("instruction")
    )
    work = work.with_columns(carried(stated.str.strip_chars().str.strip_chars_end(" .")).alias("stated"))
    goals = work.select("stated").unique()
    found = [
        pl.when(pl.col("stated").str.contains(pattern)).then(
            pl.struct(
                pl.lit(task).alias("task"),
                pl.col("stated").str.extract(pattern, 1).alias("target"),
                pl.col("stated").str.extract(pattern, 2).alias("goal"),
            )
        )
        for task, patterns in GOALS.items()
        for pattern in patterns
    ]
    goals = (
        goals.with_columns(pl.coalesce(found).alias("parts"))
        .unnest("parts")
        .with_columns(pl.col("task").fill_null("other"))
    )
    return work.join(goals, on="stated", how="left", nulls_equal=True, maintain_order="left")


def _follow(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `at`, `held`, `status` (" (clean,hot)"), `last_seen`: state that runs over a rollout."""
    went = before(pl.col("command")).str.extract(rf"^go to {THING}$")
    work = work.with_columns(
        carried(
            pl.coalesce(
                "names_place",
                "picked_from",
                "dropped_at",
                pl.when(~pl.col("refused") & pl.col("seen").is_not_null()).then(went),
            )
        )
        .fill_null("start")
        .alias("at"),
        carried(
            pl.coalesce(
                "picked",
                "worked_on",
                "carrying",
                pl.when(pl.col("dropped").is_not_null() | pl.col("empty_handed")).then(pl.lit("nothing")),
            )
        )
        .fill_null("nothing")
        .alias("held"),
        carried(pl.when(~pl.col("refused")).then("seen")).fill_null("").alias("last_seen"),
    )
    return work.with_columns(
        names(
            {
                "clean": carried_within(pl.when(pl.col("work") == "clean").then(pl.lit(True)), "held"),
                "hot": carried_within(pl.when(pl.col("work") != "clean").then("work"), "held") == "hot",
                "cool": carried_within(pl.when(pl.col("work") != "clean").then("work"), "held") == "cool",
            }
        ).alias("done_to_it")
    ).with_columns(
        pl.when(pl.col("done_to_it") != "")
        .then(pl.format(" ({})", "done_to_it"))
        .otherwise(pl.lit(""))
        .alias("status")
    )


def _moves(work: pl.DataFrame) -> pl.DataFrame:
    """Adds `moved` ("apple 1 (hot) to fridge 1, ...") and `placed` (number of target objects at the goal)."""
    events = (
        work.with_columns(before(pl.col("status")).alias("status_before"))
        .with_row_index("row")
        .filter(pl.col("picked").is_not_null() | pl.col("dropped").is_not_null())
        .select(
            "row", RUN, "task", "target", "goal", "picked", "picked_from", "dropped", "dropped_at", "status_before"
        )
    )
    folded = pl.DataFrame(
        list(_fold(events)), schema={"row": pl.UInt32, "moved": pl.String, "placed": pl.Int64}, orient="row"
    )
    work = work.with_row_index("row").join(folded, on="row", how="left", maintain_order="left")
    return work.with_columns(carried(pl.col("moved")).fill_null("nothing"), carried(pl.col("placed")).fill_null(0))


def _fold(events: pl.DataFrame) -> Iterator[tuple[int, str, int]]:
    current = None
    origin: dict[str, str] = {}
    places: dict[str, tuple[str, str]] = {}
    for row, run, task, target, goal, picked, source, dropped, place, status in events.iter_rows():
        if run != current:
            current, origin, places = run, {}, {}
        if picked is not None:
            origin.setdefault(picked, source)
            places.pop(picked, None)
        else:
            places.pop(dropped, None)
            if status or origin.get(dropped) != place:
                places[dropped] = (place, status or "")
            if len(places) > MAX_MOVED:
                places.pop(next(iter(places)))
        placed = sum(
            thing.split(" ")[0] == target
            and where.split(" ")[0] == goal
            and (task not in ("clean", "hot", "cool") or task in state)
            for thing, (where, state) in places.items()
        )
        yield row, ", ".join(f"{t}{s} to {w}" for t, (w, s) in sorted(places.items())) or "nothing", placed


def _rubric() -> pl.Expr:
    task, target, goal = pl.col("task"), pl.col("target"), pl.col("goal")
    look = task == "look"
    holds = _type(pl.col("held")) == target
    listed = ever(pl.col("listing").str.contains(pl.format(" {} ", target), literal=True)) | ever(holds)
    lamp = ever(pl.col("listing").str.contains(pl.format(" {} ", goal), literal=True))
    made = ever((pl.col("work") == task) & (_type(pl.col("worked_on")) == target))
    switched = carried(pl.col("turned")) == "on"
    lit_at = carried(pl.when(pl.col("turned").is_not_null()).then("at"))
    placed = pl.col("placed")
    return names(
        {
            "seen": listed,
            "held": holds,
            "clean": made & (task == "clean"),
            "hot": made & (task == "hot"),
            "cool": made & (task == "cool"),
            "at": ~look & (_type(pl.col("at")) == goal),
            "placed": ~look & (placed >= 1),
            "both": (task == "two") & (placed >= 2),
            "lamp": look & lamp,
            "on": look & switched,
            "lit": look & switched & (lit_at == pl.col("at")),
        }
    )
