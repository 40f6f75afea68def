"""Merges a document that is split over several files of a folder or archive into one, before it is sent.

Only files inside that folder or archive are read: no other host, no path and no link that leads out of it.
"""

import posixpath
import re
import stat
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import orjson
import typer
from pydantic import JsonValue

from deploy.drawing import visible
from retriever_svc.importers.limits import Limits
from retriever_svc.importers.reading import read_document
from services.errors import InvalidDocument

MAX_FILE_BYTES = 25_000_000
MAX_FILES = 200
MAX_BYTES = 20_000_000
MAX_ARCHIVED = 10_000
_FILES_KEY = "x-nestor-files"
"""The key of the other files in the merged document."""
_FILE_REFERENCE = re.compile(r"\$ref[\"']?\s*:\s*[\"']?([^\"'#\s,}]+)")
_DOCUMENT = re.compile(r"^[\s{]*[\"']?(?:openapi|swagger)[\"']?\s*:", re.MULTILINE)
_NO_PATHS = re.compile(r"[\"']?paths[\"']?\s*:\s*\{\s*\}")

Read = Callable[[str], str | None]
"""Returns the text of a file by its path in the folder, with slashes; None if there is no such file."""


class Unreadable(Exception):
    """A document cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose files may refer to each other."""

    root: Path

    def read(self, path: str) -> str | None:
        """The text of a file in it. Raises Unreadable if it is too large, and UnicodeDecodeError."""
        file = self.root / path
        if not file.is_file() or not file.resolve().is_relative_to(self.root.resolve()):
            return None
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise Unreadable(f"{path} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        return file.read_bytes().decode("utf-8")


@dataclass(frozen=True, slots=True)
class Archive:
    """A ZIP archive whose files may refer to each other. Nothing is unpacked to the disk."""

    file: Path

    def paths(self) -> list[str]:
        """The paths of its files, without links and without paths that lead out of it.

        Raises:
            Unreadable: the archive is damaged, or has too many files.
        """
        try:
            with zipfile.ZipFile(self.file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, OSError) as error:
            raise Unreadable(f"{self.file} cannot be read: {error}") from None
        if len(infos) > MAX_ARCHIVED:
            raise Unreadable(f"{self.file} has more than {MAX_ARCHIVED:,} files")
        return sorted({i.filename for i in infos if not i.is_dir() and not _is_link(i) and is_inside(i.filename)})

    def read(self, path: str) -> str | None:
        """The text of a file in it. Raises Unreadable if it is too large or damaged, and UnicodeDecodeError."""
        try:
            with zipfile.ZipFile(self.file) as archive:
                info = archive.getinfo(path)
                if _is_link(info):
                    return None
                with archive.open(info) as content:  # the declared size may be wrong
                    found = content.read(MAX_FILE_BYTES + 1)
        except KeyError:
            return None
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
            raise Unreadable(f"{path} cannot be read: {error}") from None
        if len(found) > MAX_FILE_BYTES:
            raise Unreadable(f"{path} has more than {MAX_FILE_BYTES:,} bytes")
        return found.decode("utf-8")


def is_inside(path: str) -> bool:
    """Whether a relative path with slashes stays in its folder."""
    return bool(path) and not path.startswith(("/", "..")) and "\\" not in path and ".." not in path.split("/")


def warn_all(warnings: Iterable[str]) -> None:
    """Print warnings about a document that is rewritten before it is sent, so that the import cannot report them."""
    for warning in warnings:
        typer.echo(visible(f"warning: {warning}"), err=True)


def bundle(text: str, path: str, read: Read) -> str:
    """Insert the files that a document refers to. Returns the same text if it refers to no existing file.

    Args:
        text: of the document.
        path: of the document in the folder.
        read: reads the other files.

    Raises:
        Unreadable: there are too many files, or they are too large together, or lead too far from each other.
    """
    if not _FILE_REFERENCE.search(text):
        return text
    bundler = _Bundler(path, read)
    try:
        root = read_document(text, Limits(), bundler.warnings.append)
    except InvalidDocument:  # the import reports it
        return text
    try:
        rewritten = bundler.rewrite(root, path)
    except RecursionError:
        raise Unreadable("its files refer to each other too often in a row") from None
    if not isinstance(rewritten, dict) or not bundler.files:
        return text
    warn_all(bundler.warnings)
    return orjson.dumps({**rewritten, _FILES_KEY: bundler.files}).decode()


def parts_of_others(texts: Iterable[tuple[str, str]]) -> set[str]:
    """The paths of files that other files refer to and that have no operations themselves.

    Args:
        texts: pairs of a path and the file's text.
    """
    referred, parts = set[str](), set[str]()
    for path, text in texts:
        for match in _FILE_REFERENCE.finditer(text):
            referred.add(_target(path, match[1]))
        if not _DOCUMENT.search(text) or _NO_PATHS.search(text):
            parts.add(path)
    return referred & parts


class _Bundler:
    """Reads each referenced file once, and rewrites references so that they point into the merged document."""

    def __init__(self, path: str, read: Read) -> None:
        self._path = path
        self._read = read
        self._left = MAX_BYTES
        self._absent = set[str]()
        self.files = dict[str, JsonValue]()
        self.warnings = list[str]()

    def rewrite(self, value: JsonValue, here: str) -> JsonValue:
        """A value of the file ``here`` with its references rewritten."""
        if isinstance(value, list):
            return [self.rewrite(item, here) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {key: self.rewrite(item, here) for key, item in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str):
            kept["$ref"] = self._reference(reference, here)
        return kept

    def _reference(self, reference: str, here: str) -> str:
        file, _, fragment = reference.partition("#")
        target = _target(here, file) if file else here
        if (fragment and not fragment.startswith("/")) or not is_inside(target) or "://" in file:
            return reference
        if target == self._path:
            return f"#{fragment}"
        if not self._load(target):
            return reference
        return f"#/{_FILES_KEY}/{quote(target.replace('~', '~0').replace('/', '~1'), safe='~')}{fragment}"

    def _load(self, path: str) -> bool:
        if path in self.files or path in self._absent:
            return path in self.files
        text, repeated = self._read(path), list[str]()
        try:
            parsed = read_document(text, Limits(), repeated.append) if text is not None else None
        except InvalidDocument as refusal:
            raise Unreadable(f"{path}: {refusal.detail}") from None
        if text is None or parsed is None:
            self._absent.add(path)
            return False
        self.warnings.extend(f"{path}: {warning}" for warning in repeated)
        self._left -= len(text)
        if len(self.files) >= MAX_FILES or self._left < 0:
            raise Unreadable(f"it refers to more than {MAX_FILES} files, or to more than {MAX_BYTES:,} bytes of them")
        self.files[path] = None  # it may refer to itself
        self.files[path] = self.rewrite(parsed, path)
        return True


def _target(here: str, file: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), unquote(file)))


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)
