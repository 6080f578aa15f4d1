"""Opens one log file, whatever its packing, and iterates over its records with their place.

Kinds are found by content: Parquet, JSON lines, one JSON document, several indented JSON objects, or text; each plain,
gzip or zstd. Pickles, zip archives and tensors are refused, Git-LFS pointers are named for what they are.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import orjson

from mcgpo_data.errors import DataError, ResourceError, UsageError
from mcgpo_data.readers.base import Report

MAX_RECORD_BYTES = 64 * 2**20
BLOCK_BYTES = 2**20
MAX_DOCUMENT_BYTES = 2 * 2**30
MAX_RATIO = 2_000  # decompressed : compressed, once more than RATIO_GRACE bytes came out
RATIO_GRACE = 64 * 2**20
HEAD_RECORDS = 8
HEAD_BYTES = 4 * 2**20
SURROGATE = re.compile("[\ud800-\udfff]")

REFUSED = {
    b"\x80\x02": "a pickle; unpickling can run code. Export it to JSON lines first",
    b"\x80\x03": "a pickle; unpickling can run code. Export it to JSON lines first",
    b"\x80\x04": "a pickle; unpickling can run code. Export it to JSON lines first",
    b"\x80\x05": "a pickle; unpickling can run code. Export it to JSON lines first",
    b"PK\x03\x04": "a zip archive (or a torch file); archives are not unpacked. Extract it first",
    b"\x1f\x9d": "a compress (.Z) file; only gzip and zstd are read",
    b"BZh": "a bzip2 file; only gzip and zstd are read",
    b"\xfd7zXZ": "an xz file; only gzip and zstd are read",
    b"\x89HDF": "an HDF5 file; export it to JSON lines or Parquet first",
}


@dataclass
class Head:
    """The first records of a file, for detection."""

    path: str
    kind: str  # parquet | jsonl | json | text
    records: list[Any] = field(default_factory=list)  # first records; for one JSON object: [that object]
    text: str = ""  # first characters, for text logs
    columns: tuple[str, ...] = ()  # parquet only

    @property
    def first(self) -> dict[str, Any]:
        """The first record that is an object (an element of a JSON array, a line, a row, or the one JSON object)."""
        return next((r for r in self.records if isinstance(r, dict)), {})


def loads(data: bytes | str) -> Any:
    """Parse JSON. NaN and Infinity, which some writers emit, are accepted and become None."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        return _without_surrogates(json.loads(text, parse_constant=lambda _: None))


def _without_surrogates(value: Any) -> Any:
    """`value` with halves of surrogate pairs, which are no text and cannot be stored, as U+FFFD."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def finite(value: object) -> float | None:
    """`value` as a finite float, or None: for null, NaN, infinities, booleans as 0/1, numeric strings."""
    if value is None:
        return None
    try:
        number = float(cast("str | float", value))
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class _Capped(io.RawIOBase):
    """Counts what a decompressor gives and stops a bomb."""

    def __init__(self, inner: Any, raw: IO[bytes], path: str, compressed: int) -> None:
        self.inner, self.raw, self.path, self.compressed, self.out = inner, raw, path, max(compressed, 1), 0

    def close(self) -> None:
        self.inner.close()
        self.raw.close()  # which the decompressor may leave open
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.inner.read1(len(buffer))  # `read` would lose what comes before damage
        self.out += len(chunk)
        if self.out > RATIO_GRACE and self.out > MAX_RATIO * self.compressed:
            raise ResourceError(
                f"{self.path}: decompresses to more than {MAX_RATIO} times its size; refused as a decompression bomb."
            )
        buffer[: len(chunk)] = chunk
        return len(chunk)


class LogFile:
    """One input file, or the lines of one range of it.

    Args:
        path: file to read; `display` is what messages and tables call it.
        span: first byte and end of a range of whole lines, see `spans`; line numbers count from its start.

    Raises:
        UsageError: not a regular file, or a kind that is refused (pickle, zip, HDF5 ...).
    """

    def __init__(
        self, path: str | os.PathLike[str], display: str | None = None, span: tuple[int, int] | None = None
    ) -> None:
        self.path = Path(path)
        self.span = span
        self.line_count = 0  # as far as `lines` has come
        self.display = display if display is not None else str(path)
        try:
            info = self.path.stat()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.display}: cannot be read ({getattr(error, 'strerror', None) or error})."
            ) from error
        if not stat.S_ISREG(info.st_mode):
            raise UsageError(f"{self.display}: not a regular file.")
        self.size = info.st_size
        try:
            with open(self.path, "rb") as raw:
                magic = raw.read(8)
        except OSError as error:
            raise UsageError(f"{self.display}: cannot be read ({error.strerror}).") from error
        self.packing = "gzip" if magic[:2] == b"\x1f\x8b" else "zstd" if magic[:4] == b"\x28\xb5\x2f\xfd" else "plain"
        self.parquet = magic[:4] == b"PAR1"
        if self.parquet and SURROGATE.search(str(self.path)):
            raise UsageError(f"{self.display}: the name of a Parquet file must be UTF-8; rename it.")
        if self.packing == "plain" and not self.parquet:
            self._refuse(magic)
        self._head: Head | None = None

    def _refuse(self, magic: bytes) -> None:
        for prefix, why in REFUSED.items():
            if magic.startswith(prefix):
                raise UsageError(f"{self.display}: is {why}.")

    def open(self) -> io.BufferedReader:
        """A buffered binary stream of the decompressed bytes."""
        raw = open(self.path, "rb")  # noqa: SIM115
        if self.packing == "plain":
            return raw
        if self.packing == "gzip":
            inner: Any = gzip.GzipFile(fileobj=raw)
        else:
            import zstandard

            unpack = zstandard.ZstdDecompressor(max_window_size=2**27)
            inner = unpack.stream_reader(raw, read_across_frames=True)
        return io.BufferedReader(_Capped(inner, raw, self.display, self.size), buffer_size=2**20)

    def head(self) -> Head:
        """First records, parsed; cached.

        Raises:
            UsageError: empty file, Git-LFS pointer, or a refused kind inside the compression.
        """
        if self._head is None:
            self._head = self._parquet_head() if self.parquet else self._text_head()
        return self._head

    def _parquet_head(self) -> Head:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
                batch = next(file.iter_batches(HEAD_RECORDS), None)
                names = tuple(file.schema_arrow.names)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.display}: starts like Parquet but cannot be read: {error}") from error
        return Head(self.display, "parquet", batch.to_pylist() if batch is not None else [], columns=names)

    def _text_head(self) -> Head:
        data = self._read(HEAD_BYTES, cut=True)
        if self.packing != "plain":
            self._refuse(data[:8])
        data = data.removeprefix(b"\xef\xbb\xbf")
        if not data.strip():
            raise UsageError(f"{self.display}: is empty.")
        if data.startswith(b"version https://git-lfs.github.com/spec/"):
            raise UsageError(f"{self.display}: is a Git-LFS pointer, not the file itself; run `git lfs pull` there.")
        text = data[: 2**16].decode("utf-8", "replace")
        lines = data.split(b"\n")
        whole = len(data) < HEAD_BYTES
        complete = lines if whole else lines[:-1]
        records: list[Any] = []
        nonblank = [line for line in complete if line.strip()]
        for line in nonblank[:HEAD_RECORDS]:
            try:
                records.append(loads(line))
            except (ValueError, RecursionError):
                records.append(None)
        first_is_json = bool(records) and isinstance(records[0], dict | list)
        if len(nonblank) > 1 and sum(isinstance(r, dict | list) for r in records) * 2 >= len(records) + (
            0 if first_is_json else 1
        ):
            return Head(self.display, "jsonl", [r for r in records if r is not None], text)
        if first_is_json:  # one line: a document, or a log with a single record
            if isinstance(records[0], list):
                return Head(self.display, "json", records[0][:HEAD_RECORDS], text)
            return Head(self.display, "jsonl", [records[0]], text)
        if data.lstrip()[:1] in (b"{", b"["):
            try:
                document = loads(data) if whole else self.document()
                return Head(
                    self.display, "json", document[:HEAD_RECORDS] if isinstance(document, list) else [document], text
                )
            except (ValueError, RecursionError):
                first = next(self._concatenated(Report(self.display)), None)
                if first is not None:
                    return Head(self.display, "json", [first[1]], text)
        return Head(self.display, "text", [], text)

    def _read(self, count: int, *, cut: bool = False) -> bytes:
        """The first `count` bytes; with `cut`, what comes before damage in the compressed stream will do."""
        data = bytearray()
        try:
            with self.open() as stream:
                while chunk := stream.read1(min(2**20, count - len(data))):
                    data += chunk
            return bytes(data)
        except ResourceError:
            raise
        except Exception as error:  # zlib, zstd and gzip raise unrelated classes
            if cut and data:
                return bytes(data)
            raise DataError(f"{self.display}: cannot be decompressed ({error}).") from error

    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            ValueError: not one JSON document.
            ResourceError: larger than MAX_DOCUMENT_BYTES.
        """
        data = self._read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ResourceError(
                f"{self.display}: one JSON document of more than {MAX_DOCUMENT_BYTES >> 20} MiB; convert "
                f"it to JSON lines."
            )
        return loads(data.removeprefix(b"\xef\xbb\xbf"))

    def text(self) -> str:
        """The whole file as text; bytes that are not UTF-8 become U+FFFD."""
        data = self._read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ResourceError(f"{self.display}: text log of more than {MAX_DOCUMENT_BYTES >> 20} MiB; split it.")
        return data.decode("utf-8", "replace")

    def spans(self, most_bytes: int) -> list[tuple[int, int]]:
        """Ranges of whole lines of about equal size, each at most a line longer than `most_bytes`."""
        count = -(-self.size // most_bytes)
        ends = [0]
        with open(self.path, "rb") as stream:
            for i in range(1, count):
                if i * self.size // count > ends[-1]:
                    stream.seek(i * self.size // count - 1)
                    stream.readline()
                    ends.append(stream.tell())
        return [(a, b) for a, b in itertools.pairwise([*ends, self.size]) if a < b]

    @property
    def at_end(self) -> bool:
        """Whether the last line of this range is that of the file."""
        return self.span is None or self.span[1] >= self.size

    def lines(self, report: Report) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line without its end) of every non-blank line; over-long ones are skipped and
        counted.
        """
        self.line_count = 0
        try:
            for line in self._split():
                self.line_count += 1
                if len(line) > MAX_RECORD_BYTES:
                    report.records += 1
                    report.skip(f"line longer than {MAX_RECORD_BYTES >> 20} MiB", self.line_count)
                    continue
                if self.line_count == 1 and (self.span is None or self.span[0] == 0):
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if stripped := line.strip():
                    yield self.line_count, stripped
        except ResourceError:
            raise
        except Exception as error:  # OSError, EOFError, zlib.error, ZstdError
            report.skip("compressed stream is damaged or cut", self.line_count + 1, error)

    def _split(self) -> Iterator[bytes]:
        """All lines without their ends; of one that is too long only the start, which is too long as well."""
        begun, skipping = b"", False
        with self.open() as stream:
            left = sys.maxsize
            if self.span is not None:
                stream.seek(self.span[0])
                left = self.span[1] - self.span[0]
            while block := stream.read1(min(BLOCK_BYTES, left)):
                left -= len(block)
                if skipping:
                    skipping = b"\n" not in block
                    block = block.partition(b"\n")[2]
                *whole, begun = (begun + block).split(b"\n")
                yield from whole
                if len(begun) > MAX_RECORD_BYTES:
                    yield begun
                    begun, skipping = b"", True
        if begun:
            yield begun

    def records(self, report: Report) -> Iterator[tuple[int, Any]]:
        """(place, value) of every record: line number for JSON lines, index for JSON arrays and Parquet rows, 0 for a
        single JSON object. Malformed records are skipped and counted.
        """
        kind = self.head().kind
        if kind == "parquet":
            yield from self._parquet_records(report)
        elif kind == "jsonl":
            yield from self._jsonl_records(report)
        elif kind == "json":
            yield from self._document_records(report)

    def _jsonl_records(self, report: Report) -> Iterator[tuple[int, Any]]:
        pending: tuple[int, bytes, Exception] | None = None
        for number, line in self.lines(report):
            if pending is not None:
                report.skip("malformed JSON", pending[0], pending[2])
                pending = None
            report.records += 1
            try:
                value = loads(line)
            except (ValueError, RecursionError) as error:
                pending = (number, line, error)
                continue
            yield number, value
        if pending is not None:
            last = pending[1][:1] in (b"{", b"[") and not pending[1].endswith((b"}", b"]"))
            report.skip("truncated last line" if last else "malformed JSON", pending[0], pending[2])

    def _document_records(self, report: Report) -> Iterator[tuple[int, Any]]:
        try:
            document = self.document()
        except RecursionError:
            report.records += 1
            report.skip("JSON nested too deep", 0)
            return
        except ValueError:
            yield from self._concatenated(report)
            return
        if isinstance(document, list):
            for index, value in enumerate(document):
                report.records += 1
                yield index, value
        else:
            report.records += 1
            yield 0, document

    def _concatenated(self, report: Report) -> Iterator[tuple[int, Any]]:
        """Indented JSON objects one after another (a habit of some `.jsonl` writers), or a document that was cut."""
        text = self.text()
        decoder = json.JSONDecoder(parse_constant=lambda _: None)
        position, index = 0, 0
        in_array = text.lstrip()[:1] == "["
        if in_array:
            position = text.index("[") + 1
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if position >= len(text) or (in_array and text[position] == "]"):
                return
            report.records += 1
            try:
                value, position = decoder.raw_decode(text, position)
            except (ValueError, RecursionError) as error:
                report.skip("truncated JSON document", index, error)
                return
            yield index, _without_surrogates(value)
            index += 1

    def _parquet_records(self, report: Report) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        index = 0
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(256):
                    for value in batch.to_pylist():
                        report.records += 1
                        yield index, value
                        index += 1
        except (pa.ArrowException, OSError) as error:
            report.skip("damaged Parquet data", index, error)

    def sibling(self, name: str) -> Path | None:
        """A file of this name in the same folder, if there is one."""
        path = self.path.parent / name
        return path if path.is_file() else None
