"""Sokoban boards drawn with characters: what stands where, what the player can reach, how far the boxes are from home.

Two alphabets are understood, and either with blanks between the characters:

    # wall   _ . floor   O target   X box   √ box on target   P player   S player on target
    # wall   blank _ - floor   . target   $ box   * box on target   @ player   + player on target
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Final

Cell = tuple[int, int]  # row, column

MOVES: Final[dict[str, Cell]] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
FAR: Final = 999  # push distance of a box that cannot reach the target
MAX_CELLS, MAX_BOXES, MAX_ASSIGNED = 1600, 24, 6
_LINE: Final = re.compile(r"^[#_.OX√PS$*@+ -]*#[#_.OX√PS$*@+ -]*$")
_LETTERS: Final = {"O": "O", "X": "X", "√": "√", "P": "P", "S": "S", "_": "_", ".": "_", " ": "_", "-": "_"}
_SIGNS: Final = {".": "O", "$": "X", "*": "√", "@": "P", "+": "S", "_": "_", " ": "_", "-": "_"}


@dataclass(frozen=True)
class Board:
    """A position. Cells are (row, column) from the top left."""

    floor: frozenset[Cell]  # every cell that is no wall
    targets: frozenset[Cell]
    boxes: frozenset[Cell]
    player: Cell
    size: Cell

    def text(self, player: Cell | None = None) -> str:
        """Rows joined by "/", in the first alphabet; with the player elsewhere if asked."""
        player = self.player if player is None else player
        rows = []
        for r in range(self.size[0]):
            row = ""
            for cell in ((r, c) for c in range(self.size[1])):
                home = cell in self.targets
                if cell not in self.floor:
                    row += "#"
                elif cell in self.boxes:
                    row += "√" if home else "X"
                elif cell == player:
                    row += "S" if home else "P"
                else:
                    row += "O" if home else "_"
            rows.append(row)
        return "/".join(rows)


def parse_board(text: str) -> Board | None:
    """The last board in a text; None where there is none with exactly one player, or it is beyond the size limits."""
    block: list[str] = []
    found: list[str] = []
    for line in [*text.split("\n"), ""]:
        line = line.rstrip()
        if _LINE.match(line):
            block.append(line)
        else:
            if len(block) >= 3:
                found = block
            block = []
    if not found or len(found) * max(map(len, found)) > 4 * MAX_CELLS:
        return None
    if all(re.match(r"^\s*\S( \S)*$", line) for line in found):
        found = [line.strip()[::2] for line in found]
    found = [line[min(len(x) - len(x.lstrip()) for x in found) :] for line in found]
    names = _LETTERS if re.search("[OXPS√]", "".join(found)) else _SIGNS
    cells = {(r, c): names.get(ch, "#") for r, line in enumerate(found) for c, ch in enumerate(line)}
    players = [cell for cell, kind in cells.items() if kind in "PS"]
    boxes = frozenset(cell for cell, kind in cells.items() if kind in "X√")
    targets = frozenset(cell for cell, kind in cells.items() if kind in "O√S")
    if len(players) != 1 or len(cells) > MAX_CELLS or max(len(boxes), len(targets)) > MAX_BOXES:
        return None
    return Board(
        floor=frozenset(cell for cell, kind in cells.items() if kind != "#"),
        targets=targets,
        boxes=boxes,
        player=players[0],
        size=(len(found), max(map(len, found))),
    )


def reach(board: Board) -> Cell:
    """The top-left cell that the player can walk to without pushing: one name for the whole region."""
    seen, todo = {board.player}, deque([board.player])
    while todo:
        r, c = todo.popleft()
        for dr, dc in MOVES.values():
            cell = (r + dr, c + dc)
            if cell in board.floor and cell not in board.boxes and cell not in seen:
                seen.add(cell)
                todo.append(cell)
    return min(seen)


def effect(board: Board, move: str) -> str:
    """What a move does: "walk", "push (row, column) direction", or "bump" where a wall or a blocked box stops it."""
    dr, dc = MOVES[move]
    r, c = board.player
    ahead, beyond = (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)
    if ahead not in board.floor:
        return "bump"
    if ahead not in board.boxes:
        return "walk"
    blocked = beyond not in board.floor or beyond in board.boxes
    return "bump" if blocked else f"push ({ahead[0]},{ahead[1]}) {move}"


def dead_boxes(board: Board) -> int:
    """Boxes in a corner of walls that is no target: they can never move again."""

    def wall(r: int, c: int) -> bool:
        return (r, c) not in board.floor

    return sum(
        (wall(r - 1, c) or wall(r + 1, c)) and (wall(r, c - 1) or wall(r, c + 1))
        for r, c in board.boxes - board.targets
    )


def push_distance(board: Board) -> int:
    """Least number of pushes that bring each box to a target of its own, if boxes were never in each other's way.

    Exact up to 6 boxes; with more, each box counts to its nearest target (a lower bound). `FAR` or more: impossible.
    """
    homes = [_pulls(board.floor, target) for target in sorted(board.targets)]
    costs = [[home.get(box, FAR) for home in homes] for box in sorted(board.boxes)]
    if not costs or not homes:
        return 0
    if len(costs) > MAX_ASSIGNED or len(homes) > MAX_ASSIGNED or len(homes) < len(costs):
        return sum(min(row) for row in costs)
    orders = permutations(range(len(homes)), len(costs))
    return min(sum(row[i] for row, i in zip(costs, order, strict=True)) for order in orders)


@lru_cache(maxsize=4096)
def _pulls(floor: frozenset[Cell], target: Cell) -> dict[Cell, int]:
    """Pushes from each cell to `target`, found backwards: a box can be pushed only where the pusher has room."""
    distance, todo = {target: 0}, deque([target])
    while todo:
        r, c = todo.popleft()
        for dr, dc in MOVES.values():
            source, pusher = (r - dr, c - dc), (r - 2 * dr, c - 2 * dc)
            if source in floor and pusher in floor and source not in distance:
                distance[source] = distance[r, c] + 1
                todo.append(source)
    return distance
