"""Files that nearly are of a known format, and what they lack."""

from __future__ import annotations

import difflib

import msgspec

from mcgpo_data.readers import native, openai
from mcgpo_data.readers.generic import is_message
from mcgpo_data.readers.logfile import Head
from mcgpo_data.readers.messages import parsed
from mcgpo_data.readers.native_rows import FullRow

TYPICAL = 3  # keys of the native format that make a record one that may have been meant so
LACKING = 2  # required ones that may be missing then


def near_miss(head: Head) -> str | None:
    """What a file that no reader recognises seems to be meant as, or None."""
    return _native(head) or _messages(head)


def _native(head: Head) -> str | None:
    keys = set(head.columns) or set(head.first)
    known = {field.encode_name for field in msgspec.structs.fields(FullRow)}
    lacking = [names for names in native.REQUIRED if not keys & set(names)]
    if len(keys & known) < TYPICAL or not 0 < len(lacking) <= LACKING:
        return None
    told = []
    for names in lacking:
        unknown = sorted(key for key in keys - known if isinstance(key, str))
        near = [match for name in names for match in difflib.get_close_matches(name, unknown, 1)]
        told.append(" or ".join(f"`{name}`" for name in names) + (f" (is it `{near[0]}`?)" if near else ""))
    return f"looks like the native format, but lacks {' and '.join(told)} (docs/formats.md)"


def _messages(head: Head) -> str | None:
    for key, value in head.first.items():
        found = parsed(value)
        if isinstance(found, list) and found and all(is_message(item) for item in found):
            keys = ", ".join(openai.MESSAGE_KEYS)
            return f"has messages under {str(key)[:60]!r}, where no known format has them; they are read under {keys}"
    return None
