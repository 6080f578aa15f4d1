"""The exceptions of `mcgpo_data`: one class per exit code, each also a standard exception.

A message says what was found, where, and what to do about it. The command line prints it without a traceback.
"""

from __future__ import annotations


class McgpoError(Exception):
    """Base class. `exit_code` is what the command line returns when it ends with this error."""

    exit_code = 1


class UsageError(McgpoError, ValueError):
    """Options that cannot work together, a bad configuration, or no input at all."""

    exit_code = 2


class DataError(McgpoError, ValueError):
    """Input data that is broken beyond what was allowed, or that contradicts itself."""

    exit_code = 3


class NoPairsError(McgpoError, LookupError):
    """The logs were read, but no preference pair could be formed."""

    exit_code = 4


class OutputError(McgpoError, FileExistsError):
    """The output exists already, is not ours, or cannot be written."""

    exit_code = 5


class ResourceError(McgpoError, MemoryError):
    """A limit on memory, disk or size was reached."""

    exit_code = 6


class IntegrityError(DataError):
    """A stored file does not match the checksum in its manifest, or has an unknown schema version."""
