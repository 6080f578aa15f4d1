"""Which files a command line names, and what each of them is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.readers import find_reader
from mcgpo_data.readers.base import Reader
from mcgpo_data.readers.logfile import LogFile

SHARD_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Source:
    """One log file and its reader; `why` says why a file is left out (then `reader` is None)."""

    path: Path
    display: str
    size: int
    reader: Reader | None
    why: str = ""


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[tuple[Path, bool]]:
    """(file, whether it was named itself). Folders are walked; hidden files and links that leave the folder are not
    followed.

    Raises:
        UsageError: a path that does not exist.
    """
    found: dict[Path, bool] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            root = path.resolve()
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(f for f in folders if not f.startswith("."))
                for name in sorted(names):
                    file = Path(folder) / name
                    if name.startswith(".") or not file.is_file() or root not in file.resolve().parents:
                        continue
                    found.setdefault(file, False)
        elif path.exists():
            found[path] = True
        else:
            raise UsageError(f"{path}: no such file or folder.")
    return sorted(found.items())


def find_sources(
    paths: Sequence[str | os.PathLike[str]],
    format_name: str | None = None,
    forced: Reader | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Source]:
    """Open and recognise all files.

    Args:
        paths: files and folders.
        note: called with a sentence for every named file that is left out.
        format_name: reader to use for all files instead of detection.
        forced: reader object to use (a mapping) for all files.

    Raises:
        UsageError: nothing to read; every file is named with the reason.
    """
    sources = []
    for path, named in find_files(paths):
        try:
            log = LogFile(path)
            reader = forced if forced is not None else find_reader(log, format_name)
            log.head()
            why = "" if reader is not None else "no known log format"
        except McgpoError as error:
            reader, why = None, str(error).removeprefix(f"{path}: ")
        sources.append(Source(path, str(path), path.stat().st_size, reader, why))
        if why and named:
            note(f"{path}: left out: {why}")
    if not any(s.reader for s in sources):
        listed = "; ".join(f"{s.display}: {s.why}" for s in sources[:5]) or "no files in the folders given"
        raise UsageError(
            f"no trajectory log found ({listed}). Name files or folders that hold rollouts; `mcgpo "
            f"validate PATH` shows what each "
            "file is, and --mapping describes a home-made layout."
        )
    return sources
