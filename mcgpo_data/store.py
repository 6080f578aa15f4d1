"""A build on disk: Parquet tables and one manifest, written to a hidden folder beside the target and renamed when
complete.

    OUT/manifest.json                      inputs with hashes, resolved options, versions, counts, funnel; written last
    OUT/{rollouts,steps,decisions,preferences,sources}/part-*.parquet
    OUT/advantages_<estimator>/part-*.parquet         where they were asked for, see `mcgpo_data.credit.store`

Readers therefore see a whole build or none. Table files hold nothing but their rows: the same input and options give
the same bytes. (The rename is atomic on local file systems; network and FUSE drives may not keep that promise.)

A build holds a lock on its hidden folder, which ends with its process, however that ends: the next build of the same
output removes the folders of dead builds, and puts back what one of them had just set aside.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mcgpo_data.errors import IntegrityError, McgpoError, OutputError, ResourceError, UsageError
from mcgpo_data.schema import SCHEMA_VERSION

MANIFEST: Final = "manifest.json"
TEXT_GROUP_BYTES: Final = 32 * 2**20


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_part(folder: Path, name: str, part: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write one file of a table and return its rows. Row groups hold at most 122,880 rows and about 32 MiB, so that
    every reader copes; a column that `tables` lack is null.

    Raises:
        ResourceError: the file cannot be written (disk full, no permission).
    """
    path = folder / name / f"part-{part}.parquet"
    rows = 0
    try:
        path.parent.mkdir(exist_ok=True)
        with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, write_page_index=True) as writer:
            for table in tables:
                columns = [_fit(table, f) for f in schema]
                table = pa.table(columns, schema=schema)
                group = max(64, int(min(122_880, TEXT_GROUP_BYTES * max(table.num_rows, 1) / max(table.nbytes, 1))))
                writer.write_table(table, row_group_size=group)
                rows += table.num_rows
    except OSError as error:
        raise ResourceError(f"{path}: cannot be written ({error}).") from error
    return rows


def _fit(table: pa.Table, f: pa.Field) -> pa.ChunkedArray | pa.Array:
    if f.name not in table.column_names:
        return pa.nulls(table.num_rows, f.type)
    column = table.column(f.name)
    return column if column.type == f.type else column.cast(f.type)


@contextmanager
def staged_output(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """A hidden folder beside `out` that becomes `out` when the block ends well, and is removed when it does not.

    Raises:
        OutputError: `out` exists and `overwrite` is false, or `out` is not a build of ours.
    """
    try:
        stage = _open_stage(out, overwrite=overwrite)
    except McgpoError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or no UTF-8
        raise OutputError(f"{out}: cannot be created ({getattr(error, 'strerror', None) or error}).") from error
    lock = _lock(stage)
    try:
        yield stage
        _swap(stage, out)
    except BaseException as error:
        shutil.rmtree(stage, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, McgpoError):
            raise ResourceError(f"{out}: cannot be written ({error}).") from error
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _open_stage(out: Path, *, overwrite: bool) -> Path:
    parent = out.absolute().parent
    if out.name in ("", ".."):
        raise OutputError(f"{out}: name a folder to make.")
    str(out.absolute()).encode()  # the Parquet writer takes no other names
    recover(out)
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise OutputError(f"{out}: exists and is not a folder; choose another output.")
    if out.is_dir() and any(out.iterdir()):
        if not is_store(out):
            raise OutputError(f"{out}: holds files that are not a build; choose another output folder.")
        if not overwrite:
            raise OutputError(f"{out}: exists already. Use --overwrite to replace it, or choose another output.")
    parent.mkdir(parents=True, exist_ok=True)
    stage = parent / f".{out.name}.{os.getpid()}.partial"
    stage.mkdir()
    return stage


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None where another process holds it, or nobody can."""
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor


def recover(out: Path) -> None:
    """Remove what killed builds of `out` left; an older build that one had moved away returns."""
    parent, name = out.absolute().parent, out.name
    if not parent.is_dir():
        return
    for folder in sorted(parent.iterdir()):
        number, _, kind = folder.name.removeprefix(f".{name}.").partition(".")
        if not folder.name.startswith(f".{name}.") or not number.isdecimal() or kind not in ("partial", "old"):
            continue
        lock = _lock(folder)
        if lock is None:
            continue
        if kind == "old" and is_store(folder) and not (parent / name).exists():
            os.rename(folder, parent / name)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _swap(stage: Path, out: Path) -> None:
    old = None
    if out.exists():
        old = stage.with_suffix(".old")
        os.rename(out, old)
    try:
        os.rename(stage, out)
    except OSError:
        if old is not None:
            os.rename(old, out)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def finish(stage: Path, manifest: dict[str, Any], linked: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Hash the table files, complete the manifest and write it: the last file of a build. Files that come from another
    build keep the entries (`linked`) that they had there, so that damage since then still shows.
    """
    known = {f["path"]: f for f in linked}
    tables: dict[str, Any] = {}
    for folder in sorted(p for p in stage.iterdir() if p.is_dir()):
        files = []
        for path in sorted(folder.glob("*.parquet")):
            name = f"{folder.name}/{path.name}"
            files.append(known.get(name) or _entry(path, name))
        tables[folder.name] = {"rows": sum(f["rows"] for f in files), "files": files}
    manifest = {"schema_version": SCHEMA_VERSION, **manifest, "tables": tables, "content_id": _content_id(tables)}
    path = stage / MANIFEST
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=2, ensure_ascii=True, allow_nan=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    return manifest


def _entry(path: Path, name: str) -> dict[str, Any]:
    rows = pq.read_metadata(path).num_rows
    return {"path": name, "sha256": sha256_file(path), "rows": rows, "bytes": path.stat().st_size}


def _content_id(tables: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name, entry in sorted(tables.items()):
        if name != "sources":  # depends on how the input is split into files
            digest.update(name.encode() + b"".join(bytes.fromhex(f["sha256"]) for f in entry["files"]))
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """An existing build, opened by `open_store`."""

    path: Path
    manifest: dict[str, Any]

    def files(self, table: str) -> list[Path]:
        """Files of a table in order."""
        return [self.path / f["path"] for f in self.manifest["tables"].get(table, {"files": []})["files"]]

    def read(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """A whole table.

        Raises:
            IntegrityError: the table or one of its files is missing or damaged.
        """
        paths = self.files(table)
        if not paths:
            raise IntegrityError(
                f"{self.path}: has no table {table!r}; it holds {', '.join(self.manifest['tables'])}."
            )
        return pa.concat_tables(read_parquet(path, columns) for path in paths)

    def link(self, tables: Iterable[str], stage: Path) -> list[dict[str, Any]]:
        """Files of some tables under other names: hard links where the file system allows, else copies. What is
        there already stays.

        Returns:
            Manifest entries of the files that were linked, for `finish`.

        Raises:
            IntegrityError: a file is missing.
        """
        linked = []
        for entry in (f for table in tables for f in self.manifest["tables"].get(table, {"files": []})["files"]):
            path, target = self.path / entry["path"], stage / entry["path"]
            if target.exists():
                continue
            if not path.is_file():
                raise IntegrityError(f"{path}: is missing; rebuild the output.")
            target.parent.mkdir(exist_ok=True)
            try:
                os.link(path, target)
            except OSError:
                shutil.copyfile(path, target)
            linked.append(entry)
        return linked

    def verify(self, tables: Iterable[str] | None = None) -> None:
        """Compare every file (of some tables) with its checksum, and the checksums with `content_id`.

        Raises:
            IntegrityError: a file is missing or differs.
        """
        if _content_id(self.manifest["tables"]) != self.manifest["content_id"]:
            raise IntegrityError(f"{self.path / MANIFEST}: its checksums are not those of its content_id; rebuild.")
        for name in self.manifest["tables"] if tables is None else tables:
            for f in self.manifest["tables"].get(name, {"files": []})["files"]:
                path = self.path / f["path"]
                if not path.is_file():
                    raise IntegrityError(f"{path}: is missing; rebuild the output.")
                if sha256_file(path) != f["sha256"]:
                    raise IntegrityError(
                        f"{path}: differs from its checksum; it was changed or damaged. Rebuild the output."
                    )


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """One Parquet file, opened by us: no globbing, no columns from folder names.

    Raises:
        IntegrityError: missing or damaged.
    """
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns)
    except (OSError, pa.ArrowException) as error:
        raise IntegrityError(f"{path}: cannot be read ({error}).") from error


def is_store(path: Path) -> bool:
    """Whether a folder is a finished build (other programs write a `manifest.json` too, but no `preferences`)."""
    try:
        return path.is_dir() and (path / MANIFEST).is_file() and (path / "preferences").is_dir()
    except OSError:  # a name that cannot be, a folder that may not be read
        return False


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a build.

    Raises:
        UsageError: no build there.
        IntegrityError: the manifest is damaged, or of a schema version that this package does not know.
    """
    folder = Path(path)
    if not is_store(folder):
        raise UsageError(
            f"{folder}: is not a build (no {MANIFEST}). Make one with `mcgpo build-prefs LOGS -o {folder}`."
        )
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        version = str(manifest["schema_version"])
        for entry in manifest["tables"].values():
            for f in entry["files"]:
                parts = PurePosixPath(f["path"]).parts
                if len(parts) != 2 or "/" in parts or ".." in parts:
                    raise ValueError(f"file name {f['path']!r}")
                if len(bytes.fromhex(f["sha256"])) != 32:
                    raise ValueError(f"sha256 {f['sha256']!r}")
        for key in ("content_id", "config", "inputs", "funnel"):
            manifest[key]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(f"{folder / MANIFEST}: is damaged ({error}); rebuild the output.") from error
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise IntegrityError(
            f"{folder}: has schema version {version}, this package reads {SCHEMA_VERSION}. "
            "Rebuild the output, or install the version of mcgpo that wrote it."
        )
    return Store(folder, manifest)
