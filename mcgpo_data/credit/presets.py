"""Named options: what the published code ran, per environment. Without a preset, the textbook form of each estimator.

verl-agent counts rows, not rollouts, subtracts 0.1 from the row of an invalid action, and leaves a lone row its
score. Its `mean_std_norm` divides by sample deviations (HGPO: population), its `mean_norm` does not divide.
ALFWorld runs with the former, WebShop and Sokoban with the latter; GraphGPO always divides. HGPO and G2PO, which build
on it, have no published run of Sokoban. ECPO, GAGPO and CRBC have no public code and therefore no such preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ROWS: Final = {"episode_stats": "rows", "singleton": "raw", "invalid_penalty": 0.1, "penalty_place": "row"}
_UNDIVIDED: Final = {**_ROWS, "std": "none", "step_std": "none"}
_EPISODE: Final = {"grpo": _ROWS, "drgrpo": _ROWS, "rloo": _ROWS}

PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "verl-agent:alfworld": {
        **_EPISODE,
        "gigpo": _ROWS,
        "graphgpo": {**_ROWS, "omega": 0.1},
        "hgpo": _ROWS,
        "g2po": _ROWS,
    },
    "verl-agent:webshop": {
        **_EPISODE,
        "gigpo": _UNDIVIDED,
        "graphgpo": {**_ROWS, "omega": 0.2},
        "hgpo": _UNDIVIDED,
        "g2po": _UNDIVIDED,
    },
    "verl-agent:sokoban": {
        **_EPISODE,
        "gigpo": _UNDIVIDED,
        "graphgpo": {**_ROWS, "omega": 0.8},
    },
}
"""Preset -> estimator -> options that differ from the defaults."""
