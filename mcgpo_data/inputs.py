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
from mcgpo_data.staging import clean
from mcgpo_data.store import is_store


@dataclass(frozen=True)
class Source:
    """One log file and its reader; `why` says why a file is left out (then `reader` is None)."""

    path: Path
    display: str
    size: int
    reader: Reader | None
    why: str = ""


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[tuple[Path, bool]]:
    """(file, whether it was named itself). Folders are walked; hidden files, links that leave the folder and builds of
    ours are passed over.

    Raises:
        UsageError: a path that does not exist, or cannot exist.
    """
    found: dict[Path, bool] = {}
    for given in paths:
        path = Path(given)
        try:
            folder_given, exists = path.is_dir(), path.exists()
        except OSError as error:
            raise UsageError(f"{clean(str(path))}: cannot be read ({error.strerror}).") from error
        if folder_given:
            root = path.resolve()
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(f for f in folders if not f.startswith(".") and not is_store(Path(folder) / f))
                for name in sorted(names):
                    file = Path(folder) / name
                    if name.startswith(".") or not file.is_file() or root not in file.resolve().parents:
                        continue
                    found.setdefault(file, False)
        elif exists:
            found[path] = True
        else:
            raise UsageError(f"{clean(str(path))}: no such file or folder.")
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
        display = clean(str(path)) or ""  # a name that is no UTF-8 has parts that cannot be stored
        size = 0
        try:
            log = LogFile(path, display)
            size = log.size
            reader = forced if forced is not None else find_reader(log, format_name)
            log.head()
            why = "" if reader is not None else "no known log format"
        except McgpoError as error:
            reader, why = None, str(error).removeprefix(f"{display}: ")
        sources.append(Source(path, display, size, reader, why))
        if why and named:
            note(f"{display}: left out: {why}")
    if not any(s.reader for s in sources):
        listed = "; ".join(f"{s.display}: {s.why}" for s in sources[:5]) or "no files in the folders given"
        raise UsageError(
            f"no trajectory log found ({listed}). Name files or folders that hold rollouts; `mcgpo "
            f"validate PATH` shows what each "
            "file is, and --mapping describes a home-made layout."
        )
    return sources
