"""Readers of trajectory dumps: one module per family, found by content, most specific first."""

from __future__ import annotations

import difflib
from functools import cache

from mcgpo_data.errors import UsageError
from mcgpo_data.readers.base import Reader
from mcgpo_data.readers.logfile import LogFile


@cache
def readers() -> tuple[Reader, ...]:
    """All readers in the order in which they are asked."""
    from mcgpo_data.readers import mapping, native, openai, sharegpt, tau, trl, verifiers, verl

    return (
        *native.READERS,
        *tau.READERS,
        *verifiers.READERS,
        *verl.READERS,
        *trl.READERS,
        *sharegpt.READERS,
        *mapping.READERS,
        *openai.READERS,
    )


def named_reader(name: str) -> Reader:
    """The reader of a format.

    Raises:
        UsageError: no reader of that name.
    """
    by_name = {reader.name: reader for reader in readers()}
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 1)
        raise UsageError(
            f"--format {name}: unknown.{f' Did you mean {near[0]}?' if near else ''} Known: {', '.join(by_name)}."
        )
    return by_name[name]


def find_reader(log: LogFile) -> Reader | None:
    """The first reader that recognises a file; None where nobody does."""
    head = log.head()
    return next((reader for reader in readers() if reader.detect(head)), None)
