"""Plays a small text world and writes `demo_rollouts.jsonl.gz` and `demo_truth.json.gz` beside this file.

A courier fetches a parcel and hands it to the clerk behind a locked door: nine rooms, sixteen steps.
The world is deterministic, the policy is noisy, and both are small enough for exact dynamic programming: the truth
file holds the success probability of every action at every visited (state, step). So it can be checked whether the
preferences that are built from the log point the right way.

What makes the log worth matching: a door that can be forced (it opens in some tasks and jams for good in others), a
second clerk who did not order anything, a one-way chute, two corridors that look alike, noises in the background,
and now and then a response without an action or with an impossible one.

    python pipelines/demo/make_demo_log.py            # the same bytes every time
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

SEED = 1
TASKS = 24
ROLLOUTS = 16
STEP_LIMIT = 16
INVALID = 0.03  # share of responses without an action, or with an impossible one
NOISE = 0.08  # share of observations with a background noise

ROOMS = ("archive", "post room", "kitchen", "library", "workshop", "lobby", "cellar", "corridor", "corridor")
LOOKS = {
    "archive": "Shelves reach to the ceiling.",
    "post room": "Scales and stamps lie on a counter.",
    "kitchen": "A kettle hums on the stove.",
    "library": "Dust lies on the reading desks.",
    "workshop": "A lathe stands under a sheet.",
    "lobby": "A clock ticks above the entrance.",
    "cellar": "Pipes run along the walls.",
    "corridor": "Grey walls, a worn carpet.",
}
NOISES = ("Somewhere a phone rings.", "Footsteps pass overhead.", "A lift door closes.")
THOUGHTS = (
    "The next thing to do is to {}.",
    "I have not tried this yet, so I {}.",
    "If I {}, I may get closer to the clerk.",
    "Nothing better comes to mind than to {}.",
    "The task says to bring the parcel. I {}.",
)
SYSTEM = (
    "You are a courier in a building. Think inside <think></think>, then give exactly one of the listed actions "
    "inside <action></action>."
)
DIRECTIONS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


class State(NamedTuple):
    """All there is to know: room 0-8, what is carried, and the door: 0 locked, 1 open, 2 jammed."""

    room: int
    key: int
    parcel: int
    door: int

    @property
    def id(self) -> str:
        """Short name, as in the truth file."""
        return f"r{self.room}k{self.key}p{self.parcel}d{self.door}"


WON = State(-1, 1, 1, 1)
LOST = State(-2, 1, 1, 1)


@dataclass(frozen=True)
class World:
    """One task. `exits[room]` maps a direction to a room of the 3 x 3 grid; room 0 lies behind the locked door."""

    task: int
    exits: dict[int, dict[str, int]]
    key_room: int
    parcel_room: int
    start: State
    decoy_room: int  # has a clerk who takes any parcel, and then it is lost
    chute: tuple[int, int]  # from, to
    weak_door: bool  # forcing opens it; otherwise forcing jams it for good
    rashness: float  # how much the policy likes to force doors
    skill: float  # how much it dislikes a detour of one step

    def actions(self, state: State) -> list[str]:
        """Admissible actions, in the order of the prompt."""
        found = [f"go {way}" for way, room in self.exits[state.room].items() if not self._shut(state, room)]
        if any(self._shut(state, room) for room in self.exits[state.room].values()) and state.door == 0:
            found += ["unlock the door"] if state.key else []
            found += ["force the door"]
        if state.room == self.chute[0]:
            found.append("slide down the chute")
        if state.room == self.key_room and not state.key:
            found.append("take the key")
        if state.room == self.parcel_room and not state.parcel:
            found.append("take the parcel")
        if state.room in (0, self.decoy_room) and state.parcel:
            found.append("hand over the parcel")
        return [*found, "wait"]

    def _shut(self, state: State, room: int) -> bool:
        return state.door != 1 and room == 0

    def apply(self, state: State, action: str) -> State:
        """The state after an admissible action."""
        verb, _, rest = action.partition(" ")
        if verb == "go":
            return state._replace(room=self.exits[state.room][rest])
        if verb == "slide":
            return state._replace(room=self.chute[1])
        if verb == "take":
            return state._replace(key=1) if rest == "the key" else state._replace(parcel=1)
        if verb == "unlock":
            return state._replace(door=1)
        if verb == "force":
            return state._replace(door=1 if self.weak_door else 2)
        if verb == "hand":
            return WON if state.room == 0 else LOST
        return state

    def describe(self, state: State) -> str:
        """What the courier sees: its room, the exits, the things in it and in its hands."""
        name = ROOMS[state.room]
        parts = [f"You are in the {name}. {LOOKS[name]}"]
        ways = [
            way + ((" (locked)", "", " (jammed)")[state.door] if room == 0 else "")
            for way, room in self.exits[state.room].items()
        ]
        parts.append(f"Exits: {', '.join(ways)}.")
        if state.room == self.chute[0]:
            parts.append("A chute leads down.")
        things = ["a key"] * (state.room == self.key_room and not state.key)
        things += ["a parcel"] * (state.room == self.parcel_room and not state.parcel)
        if things:
            parts.append(f"You see {' and '.join(things)}.")
        if state.room in (0, self.decoy_room):
            parts.append("A clerk sits at a desk.")
        held = ["a key"] * state.key + ["a parcel"] * state.parcel
        parts.append(f"You carry {' and '.join(held) or 'nothing'}.")
        return " ".join(parts)


def pick(rng: random.Random, count: int) -> int:
    """A number below `count`. Only `Random.random` promises the same numbers in every version of Python."""
    return int(rng.random() * count)


def draw(rng: random.Random, task: int) -> World:
    """A random building: a spanning tree of the grid plus one more passage; room 0 is a leaf."""
    places = [(x, y) for y in range(3) for x in range(3)]
    for i in range(8, 0, -1):
        j = pick(rng, i + 1)
        places[i], places[j] = places[j], places[i]
    at = {place: room for room, place in enumerate(places)}
    edges = [
        (room, at[x + dx, y + dy])
        for room, (x, y) in enumerate(places)
        for dx, dy in ((1, 0), (0, 1))
        if (x + dx, y + dy) in at
    ]
    edges.sort(key=lambda edge: (edge[0] * edge[1] == 0, rng.random()))  # passages to room 0 come last: it is a leaf
    part = list(range(9))
    joined: set[tuple[int, int]] = set()
    spare: list[tuple[int, int]] = []
    for a, b in edges:
        if part[a] == part[b]:
            spare += [(a, b)] if a and b else []
            continue
        joined.add((a, b))
        part = [part[a] if p == part[b] else p for p in part]
    joined |= set(spare[:1])
    joined |= {(b, a) for a, b in joined}
    exits = {
        room: {
            way: at[x + dx, y + dy]
            for way, (dx, dy) in DIRECTIONS.items()
            if (room, at.get((x + dx, y + dy), -1)) in joined
        }
        for room, (x, y) in enumerate(places)
    }
    return World(  # the arguments are drawn in this order
        task,
        exits,
        key_room=1 + pick(rng, 8),
        parcel_room=1 + pick(rng, 8),
        start=State(1 + pick(rng, 8), 0, 0, 0),
        decoy_room=1 + pick(rng, 6),
        chute=(1 + pick(rng, 8), 1 + pick(rng, 8)),
        weak_door=rng.random() < 0.3,
        rashness=-0.5 + 2.0 * rng.random(),
        skill=0.5 + 0.9 * rng.random(),
    )


def steps_to_go(world: World) -> dict[State, float]:
    """Least number of steps from every state to the hand-over; inf where it cannot be reached any more."""
    states = [State(r, k, p, d) for r in range(9) for k in (0, 1) for p in (0, 1) for d in (0, 1, 2)]
    after = {s: [world.apply(s, a) for a in world.actions(s)] for s in states}
    distance = dict.fromkeys(states, math.inf) | {WON: 0.0, LOST: math.inf}
    changed = True
    while changed:
        changed = False
        for s in states:
            best = 1 + min(distance[n] for n in after[s])
            if best < distance[s]:
                distance[s], changed = best, True
    return distance


def policy(world: World, distance: dict[State, float], state: State) -> dict[str, float]:
    """Probability of every admissible action: it falls with the detour that the action costs (hopeless: 4 steps)."""
    actions = world.actions(state)
    costs = [min(distance[world.apply(state, a)], 40.0) for a in actions]
    habits = {"force the door": world.rashness, "wait": -0.7}
    scores = [
        math.exp(-world.skill * min(c - min(costs), 4.0) + habits.get(a, 0.0))
        for a, c in zip(actions, costs, strict=True)
    ]
    return {a: score / sum(scores) for a, score in zip(actions, scores, strict=True)}


class Values:
    """Success probability under the behaviour policy, by backward recursion over the steps that are left.

    V(s, n) = sum over a of pi(a|s) Q(s, a, n), less the share INVALID of responses that only cost a step;
    Q(s, a, n) = V(s', n - 1), where V of the hand-over is 1 and V of anything with no steps left is 0.
    """

    def __init__(self, world: World, distance: dict[State, float]) -> None:
        self.world, self.distance = world, distance
        self._known: dict[tuple[State, int], float] = {}

    def value(self, state: State, left: int) -> float:
        """V(state, left)."""
        if state == WON:
            return 1.0
        if left == 0 or self.distance[state] > left:
            return 0.0
        if (state, left) not in self._known:
            chances = policy(self.world, self.distance, state)
            acted = sum(p * self.action_value(state, a, left) for a, p in chances.items())
            self._known[state, left] = (1 - INVALID) * acted + INVALID * self.value(state, left - 1)
        return self._known[state, left]

    def action_value(self, state: State, action: str, left: int) -> float:
        """Q(state, action, left)."""
        return self.value(self.world.apply(state, action), left - 1)


def prompt(instruction: str, observation: str, actions: list[str], past: list[str]) -> list[dict[str, str]]:
    """The messages exactly as the policy sees them: the last two actions are all it remembers."""
    recent = f"Your last actions: {'; '.join(past[-2:])}.\n" if past else ""
    listed = "\n".join(f"- {action}" for action in actions)
    user = f"Task: {instruction}\n{recent}Now: {observation}\nActions:\n{listed}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]


def play(world: World, distance: dict[State, float], number: int) -> Iterator[dict[str, Any]]:
    """One rollout, a record per step."""
    rng = random.Random(f"{SEED}:{world.task}:{number}")
    task_id = f"courier-{world.task:02}"
    instruction = (
        f"Take the parcel to the clerk in the {ROOMS[0]}. Its door is locked; there is a key in the building."
    )
    state = world.start
    past: list[str] = []
    observation = world.describe(state)
    for step in range(STEP_LIMIT):
        actions = world.actions(state)
        chances = policy(world, distance, state)
        chance, action = rng.random(), actions[-1]
        for candidate, p in chances.items():
            chance -= p
            if chance < 0:
                action = candidate
                break
        thought = THOUGHTS[pick(rng, len(THOUGHTS))]
        said: str | None = action
        response = f"<think>{thought.format(action)}</think><action>{action}</action>"
        valid = rng.random() >= INVALID
        if not valid:
            said = "open the window" if rng.random() < 0.5 else None
            response = f"<think>{thought.format('rest')}</think>" + (
                f"<action>{said}</action>" if said else " Let me rest."
            )
        following = world.apply(state, action) if valid else state
        ended = following in (WON, LOST)
        last = ended or step == STEP_LIMIT - 1
        record: dict[str, Any] = {
            "task_id": task_id,
            "rollout_id": f"{task_id}-{number:02}",
            "step": step,
            "instruction": instruction,
            "observation": observation,
            "admissible_actions": actions,
            "prompt": prompt(instruction, observation, actions, past),
            "response": response,
            "action": said,
            "action_valid": valid,
            "reward": 1.0 if following == WON else 0.0,
            "done": ended,
            "truncated": last and not ended,
            "success": following == WON if last else None,
            "policy": "noisy-courier",
            "policy_version": "1",
            "metadata": {"state_id": state.id},
        }
        if following == WON:
            observation = "The clerk thanks you and signs for the parcel."
        elif following == LOST:
            observation = "This clerk keeps a parcel that was meant for another."
        else:
            noise = f" {NOISES[pick(rng, len(NOISES))]}" if rng.random() < NOISE else ""
            answer = "" if valid else "Nothing happens. "
            observation = f"{answer}{world.describe(following)}{noise}"
        if last:
            yield record | {"final_observation": observation}
            return
        yield record
        past.append(said or "nothing")
        state = following


def worlds() -> Iterator[tuple[World, dict[State, float]]]:
    """The tasks: buildings with a shortest solution of 6 to 10 steps that the policy finds now and then."""
    rng = random.Random(f"{SEED}:worlds")
    task = 0
    while task < TASKS:
        world = draw(rng, task)
        distance = steps_to_go(world)
        solved = Values(world, distance).value(world.start, STEP_LIMIT)
        if 6 <= distance[world.start] <= 10 and 0.1 < solved < 0.75:
            yield world, distance
            task += 1


def make() -> tuple[bytes, bytes]:
    """The log (JSON lines) and the truth (one JSON object)."""
    lines: list[str] = []
    truth: dict[str, Any] = {"step_limit": STEP_LIMIT, "tasks": {}}
    for world, distance in worlds():
        values = Values(world, distance)
        states: dict[str, Any] = {}
        for number in range(ROLLOUTS):
            for record in play(world, distance, number):
                lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
                state = State(*(int(digit) for digit in record["metadata"]["state_id"][1::2]))
                entry = states.setdefault(
                    state.id,
                    {"steps_to_go": int(distance[state]) if distance[state] < math.inf else None, "values": {}},
                )
                left = STEP_LIMIT - record["step"]
                entry["values"][str(record["step"])] = {
                    a: round(values.action_value(state, a, left), 4) for a in record["admissible_actions"]
                }
        truth["tasks"][f"courier-{world.task:02}"] = {
            "success_probability": round(values.value(world.start, STEP_LIMIT), 4),
            "states": {name: states[name] for name in sorted(states)},
        }
    return ("\n".join(lines) + "\n").encode(), json.dumps(truth, separators=(",", ":")).encode()


def main() -> None:
    """Writes both files."""
    here = Path(__file__).parent
    for name, data in zip(("demo_rollouts.jsonl.gz", "demo_truth.json.gz"), make(), strict=True):
        (here / name).write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{name}: {len(data):,} bytes, {(here / name).stat().st_size:,} packed")


if __name__ == "__main__":
    main()
