"""Steps stored as parallel arrays, as a list of objects, or as one record per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcgpo_data.readers.base import Report, Step
from mcgpo_data.readers.chat import action_of_text
from mcgpo_data.readers.fields import flag
from mcgpo_data.readers.logfile import finite
from mcgpo_data.readers.mapping_spec import StepSpec
from mcgpo_data.readers.mapping_values import as_text, get
from mcgpo_data.readers.messages import parsed
from mcgpo_data.readers.role_text import message

Fields = dict[str, Any]  # response, action, observation ..: as logged


@dataclass(slots=True)
class StoredSteps:
    """Steps and what the environment answered to each."""

    steps: list[Step]
    answers: list[str | None]


def from_columns(record: object, spec: StepSpec, row: int, report: Report) -> list[Fields] | None:
    """One dict per step from parallel arrays. Unequal lengths: to the shortest, or None (counted), as `spec` says."""
    columns = {name: parsed(get(record, path)) for name, path in spec.fields.items()}
    arrays = {name: column for name, column in columns.items() if isinstance(column, list)}
    if not arrays.keys() & {"action", "response"}:
        report.skip("no array of actions where the mapping says", row)
        return None
    lengths = {len(column) for column in arrays.values()}
    if len(lengths) > 1:
        if not spec.shortest:
            report.skip("arrays of unequal length", row)
            return None
        report.warn("arrays of unequal length: read to the shortest", row)
    return [{name: column[i] for name, column in arrays.items()} for i in range(min(lengths))]


def from_list(items: list[Any], spec: StepSpec, row: int, report: Report) -> list[Fields] | None:
    """One dict per step from objects, in the order of the list or of the field `order`."""
    usable = [item for item in items if isinstance(item, dict)]
    if len(usable) < len(items):
        report.warn("step that is no object left out", row, count=len(items) - len(usable))
    if spec.order is not None:
        numbers = [finite(get(item, spec.order)) for item in usable]
        if None in numbers:
            report.skip("step without the number to order by", row)
            return None
        if len(set(numbers)) < len(numbers):
            report.skip("two steps with one number to order by", row)
            return None
        usable = [usable[i] for i in sorted(range(len(usable)), key=lambda i: numbers[i] or 0.0)]
    return [{name: get(item, path) for name, path in spec.fields.items()} for item in usable]


def build(logged: list[Fields], spec: StepSpec, initial: str | None, instruction: str | None) -> StoredSteps:
    """Steps with the observation before each action, whichever phase was logged."""
    seen = [as_text(item.get("observation")) for item in logged]
    if "observation" not in spec.fields or not logged:
        shown, answers = [initial, *seen[1:]][: len(seen)], seen  # no observations: all null
    elif spec.after:
        shown, answers = [initial, *seen[:-1]], seen
    else:
        shown, answers = seen, [*seen[1:], None]
    source = "shifted_post" if spec.after else "logged_pre"
    steps = [_step(item, text, source, spec) for item, text in zip(logged, shown, strict=True)]
    if steps and instruction and instruction not in (shown[0] or ""):
        steps[0].messages.insert(0, message("user", instruction))
    return StoredSteps(steps, answers)


def _step(item: Fields, shown: str | None, source: str, spec: StepSpec) -> Step:
    response = as_text(item.get("response"))
    action, kind = _action(item.get("action"), response, spec)
    said = response if response is not None else action
    offered = item.get("admissible")
    return Step(
        messages=[*([message("user", shown)] if shown is not None else []), message("assistant", said)],
        observation=shown,
        observation_source=source if shown is not None else "missing",
        prompt_from=0,
        thought=as_text(item.get("thought")),
        action_text=action,
        action_kind=kind,
        action_valid=flag(item.get("valid")),
        reward=finite(item.get("reward")) if not isinstance(item.get("reward"), list | dict) else None,
        done=flag(item.get("done")),
        admissible_actions=[as_text(a) or "" for a in offered] if isinstance(offered, list) else None,
    )


def _action(logged: Any, response: str | None, spec: StepSpec) -> tuple[str | None, str]:
    """The action as logged, or what `spec.action` finds last in the response, or what the usual marks say."""
    if "action" in spec.fields:
        if logged is None:
            return None, "invalid" if response else "lost"
        if isinstance(logged, dict | list):
            return as_text(logged), "tool_call"
        text = (as_text(logged) or "").strip()
        return (text, spec.kind) if text else (None, "invalid")
    if response is None:
        return None, "lost"
    if spec.action is not None:
        found = spec.action.findall(response)
        last = found[-1] if found else ""
        text = (last[0] if isinstance(last, tuple) else last).strip()
        return (text, spec.kind) if text else (None, "invalid")
    return action_of_text(response)
