"""What a mapping file says, checked: the vocabulary of `docs/mapping.md` as dataclasses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcgpo_data.readers.mapping_yaml import Node
from mcgpo_data.schema import ACTION_KINDS, TERMINAL_STATUSES

TOP_KEYS = (
    "name", "aliases", "detect", "records", "split", "task", "group", "rollout", "policy", "policy_version",
    "instruction", "outcome", "success", "status", "steps",
)  # fmt: skip
SOURCE_KEYS = ("field", "file", "value", "any", "match", "values", "default")
ORIGINS = {"field", "file", "value", "any"}
OUTCOME_KEYS = ("min", "max", "clip", "threshold", "from_rewards", "table")
TABLE_KEYS = ("path", "on", "value")
STEP_KEYS = (
    "form", "at", "fields", "phase", "initial", "order", "unequal", "kind", "action", "thought", "observation", "cut",
    "keep_cut", "invalid",
)  # fmt: skip
FIELD_KEYS = ("response", "action", "observation", "thought", "reward", "valid", "done", "admissible")
FORMS = ("text", "columns", "list", "rows")
REWARD_SUMS = {"sum": "sum_of_steps", "max": "max_of_steps", "mean": "mean", "last": "terminal"}
REFERENCES = ("@task", "@policy", "@policy_version")
MEANT_FOR = {  # forms of the step keys that not all forms have
    "at": ("text", "list"),
    "fields": ("columns", "list", "rows"),
    "phase": ("columns", "list", "rows"),
    "initial": ("columns", "list", "rows"),
    "order": ("list", "rows"),
    "unequal": ("columns",),
    **dict.fromkeys(("thought", "observation", "cut", "keep_cut"), ("text",)),
}


@dataclass(frozen=True, slots=True)
class Part:
    """Where one value comes from: a field of the record, the name of the file, a constant, the first of several
    sources that has one, or a value found before.
    """

    field: str | None = None
    file: re.Pattern[str] | None = None
    value: Any = None
    any: tuple[Source, ...] = ()
    reference: str | None = None
    match: re.Pattern[str] | None = None
    values: dict[str, Any] | None = None
    default: Any = None


Source: TypeAlias = tuple[Part, ...]
"""Several parts make one text, joined by `|`; where one part is missing, so is the whole."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A file of outcomes, joined to the rollouts."""

    path: str
    on: dict[str, Source]  # column of the table (or @key, the key of a JSON object): what it must equal
    value: str
    place: Node


@dataclass(frozen=True, slots=True)
class OutcomeSpec:
    """Graded result and its scale."""

    source: Source | None = None
    table: TableSpec | None = None
    from_rewards: str | None = None
    low: float | None = None
    high: float | None = None
    clip: bool = False
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class StepSpec:
    """How the steps of a rollout are stored."""

    form: str
    at: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    after: bool = False  # the logged observation is the answer to the action
    initial: Source | None = None
    order: str | None = None
    shortest: bool = False
    kind: str = "env_command"
    action: re.Pattern[str] | None = None
    thought: re.Pattern[str] | None = None
    observation: re.Pattern[str] | None = None
    cut: re.Pattern[str] | None = None
    keep_cut: bool = True
    invalid: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """One home-made layout."""

    name: str
    steps: StepSpec
    aliases: tuple[str, ...] = ()
    detect_keys: tuple[str, ...] = ()
    detect_match: dict[str, re.Pattern[str]] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    split: re.Pattern[str] | None = None
    task: Source | None = None
    group: Source | None = None
    rollout: Source | None = None
    policy: Source | None = None
    policy_version: Source | None = None
    instruction: Source | None = None
    outcome: OutcomeSpec | None = None
    success: Source | None = None
    status: Source | None = None


def read_spec(top: Node) -> Mapping:
    """A mapping file as `Mapping`.

    Raises:
        UsageError: anything that is not in the vocabulary, with its place.
    """
    keys = top.fields(TOP_KEYS)
    if "steps" not in keys or "name" not in keys:
        top.fail(f"needs the keys name and steps; it has {', '.join(keys) or 'none'}.")
    sources = ("task", "group", "rollout", "policy", "policy_version", "instruction", "success")
    detect_keys, detect_match = _detect(keys["detect"]) if "detect" in keys else ((), {})
    spec = Mapping(
        name=keys["name"].text(),
        steps=_steps(keys["steps"]),
        aliases=keys["aliases"].texts() if "aliases" in keys else (),
        detect_keys=detect_keys,
        detect_match=detect_match,
        records=keys["records"].texts() if "records" in keys else (),
        split=keys["split"].pattern() if "split" in keys else None,
        outcome=_outcome(keys["outcome"]) if "outcome" in keys else None,
        status=_status(keys["status"]) if "status" in keys else None,
        **{name: _source(keys[name]) for name in sources if name in keys},
    )
    if spec.split is not None and spec.records:
        keys["split"].fail("is for text files, records for JSON; use one of them.")
    if spec.steps.form == "rows" and spec.rollout is None:
        keys["steps"].fail("form rows needs the top-level key rollout: which rows belong together.")
    return spec


def _source(node: Node) -> Source:
    """A field path, a list of sources, or a mapping with one of field, file, value and any."""
    if isinstance(node.value, list):
        if not node.value:
            node.fail("is an empty list.")
        return tuple(part for item in node.value for part in _source(item))
    if not isinstance(node.value, dict):
        path = node.text()
        if path.startswith("@"):
            return (Part(reference=node.choice(REFERENCES)),)
        return (Part(field=path),)
    keys = node.fields(SOURCE_KEYS)
    if "any" in keys and not isinstance(keys["any"].value, list):
        keys["any"].fail("must be a list of sources; the first that has a value counts.")
    if len(keys.keys() & ORIGINS) != 1:
        node.fail("needs exactly one of field, file, value and any.")
    values = None
    if "values" in keys:
        if not isinstance(keys["values"].value, dict):
            keys["values"].fail("must map logged values to the values meant, e.g. {won: 1, lost: 0}.")
        values = {key.strip().lower(): _scalar(item) for key, item in keys["values"].value.items()}
    part = Part(
        field=keys["field"].text() if "field" in keys else None,
        file=keys["file"].pattern() if "file" in keys else None,
        value=_scalar(keys["value"]) if "value" in keys else None,
        any=tuple(_source(item) for item in keys["any"].value) if "any" in keys else (),
        match=keys["match"].pattern() if "match" in keys else None,
        values=values,
        default=_scalar(keys["default"]) if "default" in keys else None,
    )
    return (part,)


def _scalar(node: Node) -> Any:
    if isinstance(node.value, dict | list):
        node.fail("must be a single value.")
    return node.value


def _detect(node: Node) -> tuple[tuple[str, ...], dict[str, re.Pattern[str]]]:
    if not isinstance(node.value, dict):
        return node.texts(), {}
    keys = node.fields(("keys", "match"))
    if "keys" not in keys:
        node.fail("needs keys: the fields that every record of this layout has.")
    match = keys["match"].value if "match" in keys else {}
    if not isinstance(match, dict):
        keys["match"].fail("must map field paths to regular expressions.")
    return keys["keys"].texts(), {path: item.pattern() for path, item in match.items()}


def _status(node: Node) -> Source:
    source = _source(node)
    for status in _mapped(source):
        if status is not None and status not in TERMINAL_STATUSES:
            node.fail(f"{status!r} is no terminal status; choose of {', '.join(TERMINAL_STATUSES)}.")
    return source


def _mapped(source: Source) -> Iterator[Any]:
    """All values that a source can be mapped to."""
    for part in source:
        yield from (part.values or {}).values()
        yield part.default
        for inner in part.any:
            yield from _mapped(inner)


def _outcome(node: Node) -> OutcomeSpec:
    if not isinstance(node.value, dict):
        return OutcomeSpec(source=_source(node))
    keys = node.fields((*SOURCE_KEYS, *OUTCOME_KEYS))
    sourced = keys.keys() & ORIGINS
    if len(sourced) + ("table" in keys) + ("from_rewards" in keys) != 1:
        node.fail("needs exactly one of field, file, value, any, table and from_rewards.")
    plain = {key: item for key, item in keys.items() if key in SOURCE_KEYS}
    spec = OutcomeSpec(
        source=_source(Node(plain, node.file, node.line, node.path)) if sourced else None,
        table=_table(keys["table"]) if "table" in keys else None,
        from_rewards=keys["from_rewards"].choice(tuple(REWARD_SUMS)) if "from_rewards" in keys else None,
        low=keys["min"].number() if "min" in keys else None,
        high=keys["max"].number() if "max" in keys else None,
        clip=keys["clip"].boolean() if "clip" in keys else False,
        threshold=keys["threshold"].number() if "threshold" in keys else None,
    )
    if (spec.low is None) != (spec.high is None):
        node.fail("min and max belong together.")
    if spec.low is not None and spec.high is not None and spec.low >= spec.high:
        node.fail(f"min {spec.low:g} is not below max {spec.high:g}.")
    if spec.clip and spec.low is None:
        node.fail("clip needs min and max.")
    return spec


def _table(node: Node) -> TableSpec:
    keys = node.fields(TABLE_KEYS)
    if len(keys) < len(TABLE_KEYS):
        node.fail("needs path, on and value.")
    on = keys["on"].value
    if not isinstance(on, dict) or not on:
        keys["on"].fail("must map columns of the table to fields of the record, e.g. {instance_id: id}.")
    return TableSpec(keys["path"].text(), {c: _source(s) for c, s in on.items()}, keys["value"].text(), node)


def _steps(node: Node) -> StepSpec:
    keys = node.fields(STEP_KEYS)
    if "form" not in keys:
        node.fail(f"needs form: one of {', '.join(FORMS)}.")
    form = keys["form"].choice(FORMS)
    fields = keys["fields"].fields(FIELD_KEYS) if "fields" in keys else {}
    for key, item in keys.items():
        if form not in MEANT_FOR.get(key, FORMS):
            item.fail(f"has no meaning with form {form}.")
    for needed, forms in (("at", ("text", "list")), ("fields", ("columns", "list", "rows")), ("action", ("text",))):
        if form in forms and needed not in keys:
            node.fail(f"form {form} needs the key {needed}.")
    if form != "text" and not fields.keys() & {"action", "response"}:
        keys["fields"].fail("needs action or response.")
    if "observation" in fields and "phase" not in keys:
        node.fail("needs phase: is the logged observation the one before or the one after the action?")
    kinds = tuple(kind for kind in ACTION_KINDS if kind not in ("invalid", "lost"))
    return StepSpec(
        form=form,
        at=keys["at"].text() if "at" in keys else None,
        fields={name: path.text() for name, path in fields.items()},
        after=keys["phase"].choice(("before", "after")) == "after" if "phase" in keys else False,
        initial=_source(keys["initial"]) if "initial" in keys else None,
        order=keys["order"].text() if "order" in keys else None,
        shortest=keys["unequal"].choice(("skip", "shortest")) == "shortest" if "unequal" in keys else False,
        kind=keys["kind"].choice(kinds) if "kind" in keys else "env_command",
        action=keys["action"].pattern(group=True) if "action" in keys else None,
        thought=keys["thought"].pattern() if "thought" in keys else None,
        observation=keys["observation"].pattern() if "observation" in keys else None,
        cut=keys["cut"].pattern() if "cut" in keys else None,
        keep_cut=keys["keep_cut"].boolean() if "keep_cut" in keys else True,
        invalid=keys["invalid"].pattern() if "invalid" in keys else None,
    )
