r"""Rules of one's own from a YAML file: regular expressions that pick state, progress and action out of text.

    name: lab
    captures:
      room: {from: observation, match: 'You are in the (\w+)', carry: true}
      key: {from: observation, match: 'You take the key', ever: true}
    actions:
      verb: {match: '^(\w+)', lower: true}
    invalid: 'You cannot do that'
    rules:
      - {name: exact, state: [room, observation], action: text, progress: [key]}
      - {name: coarse, state: [room], action: verb, progress: [key]}

captures    what is read on each row. `from`: observation, instruction, or action (that of the row before: a state
            knows nothing of the action to come). `match`: a regular expression (Rust syntax); its first group is the
            value, the whole match where it has none. `carry: true` keeps the last value; `ever: true` makes a flag,
            true from the first match on; `lower: true` folds case.
actions     forms of the action, whitespace folded: `match` picks a part (an action without it is null), `remove`
            deletes all matches, `lower` folds case. The form `text` is the whole action.
invalid     an action answered by an observation that matches this was refused.
detect      expressions for `observation` and `action` that half of the rows match; optional.
rules       finest first. `state` and `progress` name captures; `observation` is the whole observation without moving
            text. A coarser rule only leaves out: what it names, the rule before it names too.

Matching is linear in the text, whatever the expression. Errors name file, line and key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from mcgpo_data.errors import UsageError
from mcgpo_data.readers.mapping_yaml import Node, load_yaml
from mcgpo_data.rules.frame import after, before, carried, ever, share, working
from mcgpo_data.rules.text import folded, said, steady

TOP: Final = ("name", "captures", "actions", "invalid", "detect", "rules")
WHOLE: Final = "observation"
TEXT: Final = "text"


@dataclass(frozen=True)
class Capture:
    """One value read off each row."""

    source: str
    match: str
    carry: bool
    ever: bool
    lower: bool


@dataclass(frozen=True)
class ActionForm:
    """One way to write an action."""

    match: str | None
    remove: str | None
    lower: bool


@dataclass(frozen=True)
class RuleSpec:
    """One rule: what its state, progress and action are made of."""

    name: str
    state: tuple[str, ...]
    progress: tuple[str, ...]
    action: str


@dataclass
class DeclarativeRules:
    """Rules read from a file; see the head of this module."""

    name: str
    rules: tuple[str, ...]
    specs: tuple[RuleSpec, ...]
    captures: dict[str, Capture]
    actions: dict[str, ActionForm]
    invalid: str | None
    signs: dict[str, str]

    def detect(self, steps: pl.DataFrame) -> bool:
        """Half of the rows match each expression of `detect`."""
        columns = {"observation": "observation", "action": "action_text"}
        return bool(self.signs) and all(
            share(pl.col(columns[field]).str.contains(sign), steps) >= 0.5 for field, sign in self.signs.items()
        )

    def apply(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Adds the columns of `rules/base.py`; `valid` only where the file has `invalid`."""
        work = working(steps, pl.col("observation"), pl.col("instruction"), pl.col("action_text"))
        work = work.with_columns(steady(pl.col("observation")).alias("seen"))
        values = {name: _value(capture) for name, capture in self.captures.items()}
        work = work.with_columns(value.alias(f"value {name}") for name, value in values.items())
        known = pl.col("observation").is_not_null()
        added = [pl.col("seen").alias("observation_key")]
        for r, spec in enumerate(self.specs):
            added += [
                pl.when(known).then(self._listing(spec.state)).alias(f"state_{r}"),
                said(self._action(spec.action)).alias(f"action_{r}"),
                self._listing(spec.progress).alias(f"progress_{r}"),
            ]
        added.append(self._listing(self.specs[0].progress).alias("progress"))
        if self.invalid is not None:
            added.append(pl.when(after(pl.col("observation").str.contains(self.invalid))).then(False).alias("valid"))
        return steps.with_columns(work.select(added))

    def _listing(self, names: tuple[str, ...]) -> pl.Expr:
        """`room=kitchen; key; sees ..`: values with their names, flags by name, the observation last.

        The separator is taken out of values, so that equal lists have equal parts.
        """
        parts = []
        for name in sorted(names, key=WHOLE.__eq__):
            value = pl.col(f"value {name}") if name != WHOLE else pl.col("seen")
            if name == WHOLE:
                parts.append(pl.format("sees {}", value))
            elif self.captures[name].ever:
                parts.append(pl.when(value).then(pl.lit(name)))
            else:
                plain = value.str.replace_all("; ", ", ", literal=True).fill_null("")
                parts.append(pl.format("{}={}", pl.lit(name), plain))
        return pl.concat_str(parts, separator="; ", ignore_nulls=True) if parts else pl.lit("")

    def _action(self, name: str) -> pl.Expr:
        text = folded(pl.col("action_text"))
        if name == TEXT:
            return text
        form = self.actions[name]
        if form.match is not None:
            text = _extract(text, form.match)
        if form.remove is not None:
            text = folded(text.str.replace_all(form.remove, ""))
        return text.str.to_lowercase() if form.lower else text


def _extract(text: pl.Expr, pattern: str) -> pl.Expr:
    groups = pl.Series([""]).str.extract_groups(pattern).struct.fields
    return text.str.extract(pattern, 1 if groups else 0)


def _value(capture: Capture) -> pl.Expr:
    text = before(pl.col("action_text")) if capture.source == "action" else pl.col(capture.source)
    if capture.ever:
        return ever(text.str.contains(capture.match))
    value = folded(_extract(text, capture.match))
    value = value.str.to_lowercase() if capture.lower else value
    return carried(value) if capture.carry else value


def load_declarative(path: Path) -> DeclarativeRules:
    """Rules from a YAML file.

    Raises:
        UsageError: unreadable, not as described above, or a coarser rule that is no function of the finer one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--rules {path}: cannot be read: {error}") from error
    top = load_yaml(text, str(path))
    fields = top.fields(TOP)
    for key in ("name", "rules"):
        if key not in fields:
            top.fail(f"lacks `{key}`.")
    captures = {name: _capture(node) for name, node in _named(fields.get("captures")).items()}
    actions = {name: _form(node) for name, node in _named(fields.get("actions")).items()}
    for reserved, given, what in ((WHOLE, captures, "captures"), (TEXT, actions, "actions")):
        if reserved in given:
            fields[what].fail(f"`{reserved}` has a meaning of its own; choose another name.")
    specs = _rules(fields["rules"], captures, actions)
    return DeclarativeRules(
        name=fields["name"].text(),
        rules=tuple(spec.name for spec in specs),
        specs=specs,
        captures=captures,
        actions=actions,
        invalid=_pattern(fields["invalid"]) if "invalid" in fields else None,
        signs={
            key: _pattern(node)
            for key, node in (fields["detect"].fields(("observation", "action")) if "detect" in fields else {}).items()
        },
    )


def _named(node: Node | None) -> dict[str, Node]:
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        node.fail("must be a mapping of names.")
    return dict(node.value)


def _flag(fields: dict[str, Node], key: str) -> bool:
    return fields[key].boolean() if key in fields else False


def _capture(node: Node) -> Capture:
    fields = node.fields(("from", "match", "carry", "ever", "lower"))
    if "match" not in fields:
        node.fail("lacks `match`.")
    capture = Capture(
        source=fields["from"].choice(("observation", "action", "instruction")) if "from" in fields else "observation",
        match=_pattern(fields["match"]),
        carry=_flag(fields, "carry"),
        ever=_flag(fields, "ever"),
        lower=_flag(fields, "lower"),
    )
    if capture.ever and (capture.carry or capture.lower):
        node.fail("`ever` makes a flag: `carry` and `lower` say nothing about it.")
    return capture


def _form(node: Node) -> ActionForm:
    fields = node.fields(("match", "remove", "lower"))
    return ActionForm(
        match=_pattern(fields["match"]) if "match" in fields else None,
        remove=_pattern(fields["remove"]) if "remove" in fields else None,
        lower=_flag(fields, "lower"),
    )


def _pattern(node: Node) -> str:
    pattern = node.text()
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.PolarsError as error:
        lines = str(error).splitlines()
        reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
        node.fail(f"is no regular expression (Rust syntax): {reason}.")
    return pattern


def _rules(node: Node, captures: dict[str, Capture], actions: dict[str, ActionForm]) -> tuple[RuleSpec, ...]:
    if not isinstance(node.value, list) or not node.value:
        node.fail("must be a list of rules, finest first.")
    specs: list[RuleSpec] = []
    for item in node.value:
        fields = item.fields(("name", "state", "action", "progress"))
        for key in ("name", "state", "action"):
            if key not in fields:
                item.fail(f"lacks `{key}`.")
        spec = RuleSpec(
            name=fields["name"].text(),
            state=_names(fields["state"], {WHOLE, *captures}),
            progress=_names(fields["progress"], set(captures)) if "progress" in fields else (),
            action=fields["action"].choice((TEXT, *actions)),
        )
        if spec.name in {other.name for other in specs}:
            fields["name"].fail(f"there is a rule {spec.name!r} already.")
        if specs:
            _check_coarser(item, spec, specs[-1])
        specs.append(spec)
    return tuple(specs)


def _names(node: Node, known: set[str]) -> tuple[str, ...]:
    if not isinstance(node.value, list):
        node.fail(f"must be a list of names of {', '.join(sorted(known))}.")
    return tuple(item.choice(tuple(sorted(known))) for item in node.value)


def _check_coarser(node: Node, spec: RuleSpec, finer: RuleSpec) -> None:
    for name in (*spec.state, *spec.progress):
        if name not in (*finer.state, *finer.progress):
            node.fail(f"names {name!r}, which rule {finer.name!r} before it does not: a coarser rule only leaves out.")
    if finer.action not in (TEXT, spec.action):
        node.fail(f"has action {spec.action!r}, but rule {finer.name!r} before it has {finer.action!r}, not `{TEXT}`.")
