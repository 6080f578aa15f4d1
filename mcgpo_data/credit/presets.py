"""Named options: what the published code ran, per environment. Without a preset, the textbook form of each estimator.

verl-agent counts rows, not rollouts, subtracts 0.1 from the row of an invalid action, and leaves a lone row its
score. Its `mean_std_norm` divides by sample deviations (HGPO: population), its `mean_norm` does not divide.
ALFWorld runs GiGPO, HGPO and G2PO with the former, WebShop and Sokoban with the latter; GraphGPO always divides.
ECPO, GAGPO and CRBC have no public code and therefore no such preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ROWS: Final = {"episode_stats": "rows", "singleton": "raw", "invalid_penalty": 0.1, "penalty_place": "row"}
_MEAN: Final = {"std": "none", "step_std": "none"}


def _verl_agent(omega: float, divide: bool) -> dict[str, Mapping[str, Any]]:
    unscaled = {} if divide else _MEAN
    return {
        "grpo": _ROWS,
        "drgrpo": _ROWS,
        "rloo": _ROWS,
        "gigpo": {**_ROWS, **unscaled},
        "graphgpo": {**_ROWS, "omega": omega},
        "hgpo": {**_ROWS, **unscaled},
        "g2po": {**_ROWS, **unscaled},
    }


PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "verl-agent:alfworld": _verl_agent(omega=0.1, divide=True),
    "verl-agent:webshop": _verl_agent(omega=0.2, divide=False),
    "verl-agent:sokoban": _verl_agent(omega=0.8, divide=False),
}
"""Preset -> estimator -> options that differ from the defaults."""
