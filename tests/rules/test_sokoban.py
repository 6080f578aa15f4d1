"""Sokoban rules: boards in every alphabet, what moves do, and how far boxes are from home."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from itertools import permutations

import polars as pl
import pytest

from mcgpo_data.rules.sokoban import SokobanRules
from mcgpo_data.rules.sokoban_board import FAR, MOVES, Board, effect, parse_board, push_distance, reach

Frame = Callable[..., pl.DataFrame]
BOARD = "#####\n#O__#\n#_X_#\n#_P_#\n#####"


def moved(board: Board, move: str) -> Board:
    """The rule of the game, written independently of the module under test."""
    dr, dc = MOVES[move]
    ahead = (board.player[0] + dr, board.player[1] + dc)
    beyond = (ahead[0] + dr, ahead[1] + dc)
    if ahead not in board.floor:
        return board
    boxes = set(board.boxes)
    if ahead in boxes:
        if beyond not in board.floor or beyond in boxes:
            return board
        boxes.remove(ahead)
        boxes.add(beyond)
    return Board(board.floor, board.targets, frozenset(boxes), ahead, board.size)


def random_board(rng: random.Random, boxes: int) -> Board:
    inner = [(r, c) for r in range(1, 5) for c in range(1, 5)]
    walls = set(rng.sample(inner, 2))
    free = [cell for cell in inner if cell not in walls]
    rng.shuffle(free)
    return Board(frozenset(free), frozenset(free[:boxes]), frozenset(free[boxes : 2 * boxes]), free[2 * boxes], (6, 6))


@pytest.mark.parametrize(
    "text",
    [
        BOARD,
        f"Sokoban board:\n{BOARD}\n\nLegend: #=wall, _=floor, O=target, X=box, P=player.",
        "#####\n#.  #\n# $ #\n# @ #\n#####",
        "#####\n#O..#\n#.X.#\n#.P.#\n#####",
        "# # # # #\n# O _ _ #\n# _ X _ #\n# _ P _ #\n# # # # #",
        "   #####\n   #O__#\n   #_X_#\n   #_P_#\n   #####  ",
    ],
)
def test_every_alphabet_gives_the_same_board(text: str) -> None:
    board = parse_board(text)
    assert board is not None
    assert board.text() == BOARD.replace("\n", "/")


def test_pieces_on_targets_are_understood_in_both_alphabets() -> None:
    letters, signs = parse_board("#####\n#S√X#\n#####"), parse_board("#####\n#+*$#\n#####")
    assert letters == signs
    assert letters is not None
    assert letters.targets == {(1, 1), (1, 2)}
    assert letters.boxes == {(1, 2), (1, 3)}


@pytest.mark.parametrize("text", ["", "no board", "###\n#P", "#####\n#___#\n#####", "####\n#PP#\n####", "#" * 100_000])
def test_text_without_one_playable_board_is_none(text: str) -> None:
    assert parse_board(text) is None


def test_what_a_move_does_agrees_with_playing_it() -> None:
    rng = random.Random(3)
    for _ in range(200):
        board = random_board(rng, 2)
        for _ in range(20):
            move = rng.choice(list(MOVES))
            after = moved(board, move)
            said = effect(board, move)
            if after == board:
                assert said == "bump"
            elif after.boxes == board.boxes:
                assert said == "walk"
            else:
                (box,) = board.boxes - after.boxes
                assert said == f"push ({box[0]},{box[1]}) {move}"
            board = after
            assert parse_board(board.text().replace("/", "\n")) == board


def test_walking_keeps_the_coarse_state_and_pushing_changes_it() -> None:
    rng = random.Random(4)
    for _ in range(100):
        board = random_board(rng, 1)
        for move in MOVES:
            after = moved(board, move)
            same = board.text(player=reach(board)) == after.text(player=reach(after))
            assert same == (after.boxes == board.boxes)


def solution_pushes(board: Board) -> int:
    """Fewest pushes of a full search: what `push_distance` must not exceed."""
    best = {(board.boxes, board.player): 0}
    todo = deque([board])
    while todo:
        now = todo.popleft()
        cost = best[now.boxes, now.player]
        if now.boxes <= now.targets:
            return cost
        for move in MOVES:
            after = moved(now, move)
            price = cost + (after.boxes != now.boxes)
            if price < best.get((after.boxes, after.player), FAR):
                best[after.boxes, after.player] = price
                (todo.append if after.boxes != now.boxes else todo.appendleft)(after)
    return FAR


def test_the_push_distance_never_exceeds_the_pushes_of_a_solution() -> None:
    rng = random.Random(5)
    exact = 0
    for number in range(120):
        board = random_board(rng, 1 + number % 2)
        bound, truth = push_distance(board), solution_pushes(board)
        assert bound <= truth or truth == FAR
        exact += bound == truth < FAR
    assert exact > 5


def test_boxes_are_assigned_to_targets_of_their_own() -> None:
    row = parse_board("########\n#P_____#\n#_XXOO_#\n#______#\n########")
    assert row is not None
    spans = [[4 - 2, 5 - 2], [4 - 3, 5 - 3]]
    assert push_distance(row) == min(spans[0][i] + spans[1][j] for i, j in permutations(range(2)))


def test_columns_of_the_rules(frame: Frame) -> None:
    corner = "#####\n#X_O#\n#_P_#\n#####"
    out = SokobanRules().apply(frame([(BOARD, "Move Up"), (corner, "left"), ("lost", "look")]))
    assert out["state_0"].to_list() == [BOARD.replace("\n", "/"), corner.replace("\n", "/"), "lost"]
    assert out["state_1"][0] == "#####/#S__#/#_X_#/#___#/#####"
    assert out["action_0"].to_list() == ["up", "left", "look"]
    assert out["action_1"].to_list() == ["push (2,2) up", "walk", "look"]
    assert out["progress"].to_list() == ["home=0/1,dead=0,pushes=1-2", "home=0/1,dead=1,pushes=never", ""]


def test_a_board_beyond_the_size_limits_is_compared_as_text(frame: Frame) -> None:
    wide = "\n".join(["#" * 40, "#PX" + "O" * 36 + "#", "#" * 40])
    assert parse_board(wide) is None
    assert SokobanRules().apply(frame([(wide, "right")]))["state_1"].to_list() == [wide.replace("\n", " ")]
