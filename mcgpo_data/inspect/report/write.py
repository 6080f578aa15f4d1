"""The page, and the file it is written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcgpo_data.config import BuildConfig
from mcgpo_data.errors import OutputError
from mcgpo_data.inspect.page import render
from mcgpo_data.inspect.report.cautions import cautions
from mcgpo_data.inspect.report.content import make_content
from mcgpo_data.inspect.report.losses import rule_stages
from mcgpo_data.inspect.report.samples import sampled_pairs
from mcgpo_data.store import Store

MARK = "<!doctype html><!-- mcgpo report -->"
TASKS = 40  # rows of the table of tasks
INPUTS = 50


def report_html(store: Store) -> str:
    """The whole page: the same build gives the same text.

    Raises:
        UsageError: matplotlib or Jinja2 is not installed.
    """
    from markupsafe import Markup

    from mcgpo_data.inspect.report.figures import draw

    found = make_content(store)
    figures = {name: Markup(text) for name, text in draw(found).items()}  # noqa: S704  # our own drawings
    page = render(
        "report.html",
        manifest=store.manifest,
        found=found,
        figures=figures,
        cautions=cautions(found),
        funnels={name: rule_stages(counts) for name, counts in store.manifest["funnel"]["rules"].items()},
        changed=_changed(found.config.to_dict()),
        tasks=[] if found.tasks is None else found.tasks.head(TASKS).to_dicts(),
        samples=sampled_pairs(store, found.pairs["weight"]) if len(found.pairs) else [],
        inputs=store.manifest["inputs"][:INPUTS],
    )
    return MARK + "\n" + page


def _changed(options: dict[str, Any]) -> dict[str, Any]:
    """Options that differ from the defaults."""
    defaults = BuildConfig().to_dict()
    return {name: value for name, value in options.items() if value != defaults[name]}


def write_report(store: Store, target: Path | None = None) -> Path:
    """Write the page; an older report there is replaced, any other file is not.

    Args:
        store: a build.
        target: file to write; default: `report.html` in the folder of the build.

    Raises:
        OutputError: something else is there, or it cannot be written.
    """
    target = target or store.path / "report.html"
    try:
        ours = not target.exists() or (target.is_file() and target.read_bytes()[: len(MARK)] == MARK.encode())
    except OSError as error:
        raise OutputError(f"{target}: cannot be read ({error.strerror or error}).") from error
    if not ours:
        raise OutputError(f"{target}: exists and is not a report of ours; choose another file with -o.")
    page = report_html(store)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"{target}: cannot be written ({error.strerror or error}).") from error
    return target
