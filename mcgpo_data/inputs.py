"""Which files a command line names, and what each of them is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcgpo_data.errors import McgpoError, UsageError
from mcgpo_data.readers import find_reader, named_reader
from mcgpo_data.readers.base import Reader
from mcgpo_data.readers.logfile import LogFile
from mcgpo_data.readers.near import near_miss
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


def find_files(
    paths: Sequence[str | os.PathLike[str]], note: Callable[[str], None] = lambda _: None
) -> list[tuple[Path, bool]]:
    """(file, whether it was named itself). Folders are walked; hidden files, links that leave the folder and builds of
    ours are passed over.

    Args:
        paths: files and folders.
        note: called with a sentence for every folder with links that leave it.

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
            inside, leaving = _walk(path)
            for file in inside:
                found.setdefault(file, False)
            if leaving:
                note(
                    f"{clean(str(path))}: {len(leaving):,} link(s) that leave this folder are not followed, such as "
                    f"{clean(str(leaving[0]))}; to read what a link leads to, name the link itself"
                )
        elif exists:
            found[path] = True
        else:
            raise UsageError(f"{clean(str(path))}: no such file or folder.")
    return sorted(found.items())


def _walk(top: Path) -> tuple[list[Path], list[Path]]:
    """Files of a folder and of those in it; links that leave it."""
    root = Path(os.path.realpath(top))
    files: list[Path] = []
    leaving: list[Path] = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and not is_store(Path(folder) / f))
        for path in [Path(folder) / name for name in (*folders, *sorted(names)) if not name.startswith(".")]:
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                leaving.append(path)
            elif path.is_file():
                files.append(path)
    return files, leaving


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
        UsageError: no such format, or nothing to read; every file is named with the reason.
    """
    if format_name is not None:
        if forced is not None:
            raise UsageError("--format and --mapping both say how to read the logs; give one of them.")
        forced = named_reader(format_name)
    sources = []
    notes: list[str] = []
    for path, named in find_files(paths, notes.append):
        display = clean(str(path)) or ""  # a name that is no UTF-8 has parts that cannot be stored
        size = 0
        try:
            log = LogFile(path, display)
            size = log.size
            reader = forced if forced is not None else find_reader(log)
            head = log.head()
            why = "" if reader is not None else near_miss(head) or "no known log format"
        except McgpoError as error:
            reader, why = None, str(error).removeprefix(f"{display}: ")
        sources.append(Source(path, display, size, reader, why))
        if why and named:
            note(f"{display}: left out: {why}")
    if not any(s.reader for s in sources):
        reasons = [*(f"{s.display}: {s.why}" for s in sources[:5]), *notes[:5]]
        listed = "; ".join(reasons) or "no files in the folders given"
        raise UsageError(
            f"no trajectory log found ({listed}). Name files or folders that hold rollouts; `mcgpo "
            f"validate PATH` shows what each "
            "file is, and --mapping describes a home-made layout."
        )
    for text in notes:
        note(text)
    return sources
