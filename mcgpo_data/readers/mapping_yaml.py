"""YAML with line numbers, read strictly: every complaint names the file, the line and the key."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from mcgpo_data.errors import UsageError

MAX_BYTES = 2**20
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place. `value` is a dict of nodes by key text, a list of nodes, or a scalar."""

    value: Any
    file: str
    line: int  # from 1
    path: str  # keys from the top, joined by dots

    def fail(self, message: str) -> NoReturn:
        """Raises `UsageError` with the place."""
        raise UsageError(f"{self.file}:{self.line}: {self.path + ': ' if self.path else ''}{message}")

    def fields(self, valid: tuple[str, ...]) -> dict[str, Node]:
        """The mapping, once all its keys are known ones."""
        if not isinstance(self.value, dict):
            self.fail(f"must be a mapping with keys of {', '.join(valid)}; it is {_kind(self.value)}.")
        for key, node in self.value.items():
            if key not in valid:
                near = difflib.get_close_matches(key, valid, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(valid)}."
                node.fail(f"unknown key {key!r}; {hint}")
        return dict(self.value)

    def text(self) -> str:
        """A string; numbers are taken as they are written."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float) or self.value == "":
            self.fail(f"must be text; it is {_kind(self.value)}.")
        return str(self.value)

    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or abs(self.value) == float("inf"):
            self.fail(f"must be a number; it is {_kind(self.value)}.")
        if self.value != self.value:
            self.fail("must be a number; it is NaN.")
        return float(self.value)

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.fail(f"must be true or false; it is {_kind(self.value)}.")
        return self.value

    def choice(self, options: tuple[str, ...]) -> str:
        """One of `options`."""
        if self.value not in options:
            self.fail(f"is {self.value!r}; choose one of {', '.join(options)}.")
        return str(self.value)

    def pattern(self, *, group: bool = False) -> re.Pattern[str]:
        """A regular expression, `^` and `$` at line ends; `group`: with one group that takes the value."""
        try:
            compiled = re.compile(self.text(), re.MULTILINE)
        except (re.error, OverflowError, RecursionError) as error:
            self.fail(f"is no regular expression: {error}.")
        if group and compiled.groups < 1:
            self.fail(f"needs a group (..) around the value to take: {self.value!r}.")
        return compiled

    def texts(self) -> tuple[str, ...]:
        """A string or a list of strings."""
        return tuple(item.text() for item in self.value) if isinstance(self.value, list) else (self.text(),)


def load_yaml(text: str, file: str) -> Node:
    """The one document in `text`.

    Raises:
        UsageError: no YAML, several documents, a key twice, aliases, or too large.
    """
    if len(text) > MAX_BYTES:
        raise UsageError(f"{file}: larger than {MAX_BYTES >> 20} MiB; this is no mapping file.")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        raise UsageError(f"{place}: no valid YAML: {getattr(error, 'problem', None) or error}.") from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{file}: no valid YAML: {error}.") from error
    if node is None:
        raise UsageError(f"{file}: is empty.")
    return _node(node, loader, file, (), set())


def _node(node: Any, loader: yaml.SafeLoader, file: str, path: tuple[str, ...], seen: set[int]) -> Node:
    line = node.start_mark.line + 1
    place = Node(None, file, line, ".".join(path))
    if not isinstance(node, yaml.ScalarNode):
        if id(node) in seen:
            place.fail("an alias (*name); write the value out.")
        if len(path) > MAX_DEPTH:
            place.fail("nested too deep.")
        seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        items = [_node(item, loader, file, (*path, str(i)), seen) for i, item in enumerate(node.value)]
        return Node(items, file, line, place.path)
    if isinstance(node, yaml.MappingNode):
        fields: dict[str, Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                place.fail("keys must be plain text.")
            if key.value in fields:
                Node(None, file, key.start_mark.line + 1, place.path).fail(f"key {key.value!r} occurs twice.")
            fields[key.value] = _node(value, loader, file, (*path, key.value), seen)
        return Node(fields, file, line, place.path)
    if node.tag.rsplit(":", 1)[-1] in ("bool", "int", "float", "null"):
        try:
            return Node(loader.construct_object(node), file, line, place.path)
        except (ValueError, yaml.YAMLError) as error:
            place.fail(f"is no valid value: {error}.")
    return Node(node.value, file, line, place.path)


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "empty" if value in (None, "") else repr(value)
