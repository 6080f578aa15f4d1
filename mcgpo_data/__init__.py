"""Turn logged rollouts of LLM agents into trustworthy, weighted action preferences.

    from mcgpo_data import BuildConfig, build_preferences, explain_pair, load_pairs, open_store

    build_preferences(["logs"], "out", BuildConfig())
    pairs = load_pairs("out")
    explanation = explain_pair(open_store("out"), pairs["pair_id"][0])

What is exported here is loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcgpo_data.build.run import BuildOptions, build_preferences
    from mcgpo_data.config import BuildConfig
    from mcgpo_data.inspect.explain import Explanation, explain_pair
    from mcgpo_data.inspect.load import funnel, load_pairs
    from mcgpo_data.store import Store, open_store

__version__ = "0.1.0"

__all__ = [
    "BuildConfig",
    "BuildOptions",
    "Explanation",
    "Store",
    "build_preferences",
    "explain_pair",
    "funnel",
    "load_pairs",
    "open_store",
]

_HOME = {
    "BuildConfig": "config",
    "BuildOptions": "build.run",
    "Explanation": "inspect.explain",
    "Store": "store",
    "build_preferences": "build.run",
    "explain_pair": "inspect.explain",
    "funnel": "inspect.load",
    "load_pairs": "inspect.load",
    "open_store": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # the next use finds it at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
