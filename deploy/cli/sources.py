"""Finds the documents to import, and derives provider names if none are given."""

import glob
import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import httpx2
import typer

from deploy.cli.bundling import MAX_FILE_BYTES, Archive, Folder, Unreadable, bundle, parts_of_others

MAX_NAME = 100
SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")

_KIND = re.compile(r"[._-](openapi|swagger|postman[_-]collection)$", re.IGNORECASE)
_VERSION = re.compile(r"v?\d+(?:[._-]\d+)*(?:[._-]?(?:alpha|beta|pre|preview|rc)(?:[._-]?\d+)*)?", re.IGNORECASE)
_MEANINGLESS = frozenset({"api", "collection", "index", "latest", "main", "openapi", "spec", "swagger"})


@dataclass(frozen=True, slots=True)
class Source:
    """A document to import.

    Attributes:
        label: the file, URL or ``-``, as displayed.
        parts: the parts of its path, outermost folder first.
        provider: the provider's name; None: taken from the document's title.
        within: the folder or archive whose files it may refer to; None: the folder of the file.
        path: its path in there, with slashes.
    """

    label: str
    parts: tuple[str, ...]
    provider: str | None = None
    within: Folder | Archive | None = None
    path: str = ""

    @property
    def origin(self) -> str | None:
        """The URL without user, password and query, so that it may be stored; None if the label is not a URL."""
        if not _is_url(self.label):
            return None
        url = urlsplit(self.label)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    def read(self) -> str:
        """The document's text, with the files that it refers to in the same folder or archive.

        Raises:
            Unreadable: it cannot be read, is too large, or is not UTF-8.
        """
        try:
            if self.label == "-":
                return sys.stdin.read()
            if self.origin:
                return _download(self.label).decode("utf-8")
            own = Path(self.label).resolve()  # a file named directly may refer to its real folder
            within, path = (self.within, self.path) if self.within else (Folder(own.parent), own.name)
            if (text := within.read(path)) is None:
                raise Unreadable("no such file, or a link to outside the folder")
            return bundle(text, path, within.read)
        except UnicodeDecodeError as error:
            raise Unreadable(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreadable(str(error) or type(error).__name__) from None


def find_sources(arguments: Sequence[str], provider: str | None) -> list[Source]:
    """The documents given by files, folders, patterns, URLs or ``-``. Several are named after their paths.

    Raises:
        typer.BadParameter: nothing was found, or one name is given for several documents.
    """
    found = {source.label: source for text in arguments for source in _expand(text)}
    several = len(found) > 1 or any(_is_many(text) for text in arguments)
    if "-" in found and several:
        raise typer.BadParameter("standard input cannot be combined with other sources")
    if provider is not None and several:
        raise typer.BadParameter("--provider works only with a single document; several are named after their files")
    sources = list(found.values())
    names = provider_names([source.parts for source in sources]) if several else [provider]
    return [replace(source, provider=name) for source, name in zip(sources, names, strict=True)]


def provider_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """A provider's name for each document, from the names of its folders and its file.

    Meaningless words (``openapi``) and a version at the end are left out, so that the next version of a document
    belongs to the same provider. Documents that would share a name keep all their words, independent of their order.
    """
    short = [_slug(_without_noise(_words(path))) for path in paths]
    full = [_slug(_words(path)) for path in paths]
    shared = _repeated(short)
    names = [long if brief in shared else brief for brief, long in zip(short, full, strict=True)]
    shared = _repeated(names)
    return [_with_digest(name, path) if name in shared else name for name, path in zip(names, paths, strict=True)]


def _repeated(names: Sequence[str]) -> set[str]:
    """The names that occur more than once, and the empty one."""
    return {name for name, times in Counter(names).items() if times > 1} | {""}


def _is_many(text: str) -> bool:
    return (
        Path(text).is_dir()
        or _is_archive(text)
        or (glob.has_magic(text) and not Path(text).is_file() and not _is_url(text))
    )


def _is_archive(text: str) -> bool:
    return text.lower().endswith(".zip") and Path(text).is_file()


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _expand(text: str) -> Iterator[Source]:
    if text == "-":
        yield Source(text, (text,))
    elif _is_url(text):
        url = urlsplit(text)
        yield Source(text, (url.hostname or "", *PurePosixPath(url.path).parts[1:]))
    elif _is_archive(text):
        yield from _without_parts(_archived(Archive(Path(text))))
    elif Path(text).is_file():
        yield Source(text, (Path(text).name,))
    elif _is_many(text):
        yield from _without_parts(list(_search(text)))
    else:
        raise typer.BadParameter(f"{text} is not a file, a folder or an http or https URL")


def _search(text: str) -> Iterator[Source]:
    """The documents in a folder, or of a pattern, in order of their names."""
    folder = Path(text) if Path(text).is_dir() else _fixed_part(text)
    pattern = str(folder / "**" / "*") if Path(text).is_dir() else text
    files = sorted(path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file())
    wanted = [path for path in files if path.suffix.lower() in SUFFIXES]
    if not wanted:
        raise typer.BadParameter(f"{text} contains no {', '.join(SUFFIXES)} files")
    for path in wanted:
        inside = path.relative_to(folder)
        yield Source(str(path), inside.parts, within=Folder(folder), path=inside.as_posix())


def _archived(archive: Archive) -> list[Source]:
    try:
        wanted = [path for path in archive.paths() if path.lower().endswith(SUFFIXES)]
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from None
    if not wanted:
        raise typer.BadParameter(f"{archive.file} contains no {', '.join(SUFFIXES)} files")
    return [Source(f"{archive.file}/{path}", PurePosixPath(path).parts, within=archive, path=path) for path in wanted]


def _without_parts(sources: list[Source]) -> Iterator[Source]:
    """The sources without files that are only parts of others."""
    if len(sources) < 2:
        yield from sources
        return
    parts = parts_of_others((source.path, text) for source in sources if (text := _text_of(source)) is not None)
    yield from (source for source in sources if source.path not in parts)


def _text_of(source: Source) -> str | None:
    try:
        return source.within.read(source.path) if source.within is not None else None
    except (OSError, UnicodeDecodeError, Unreadable):  # the import reports it
        return None


def _fixed_part(pattern: str) -> Path:
    """The folder of a pattern before its first wildcard."""
    fixed = Path()
    for part in Path(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        fixed /= part
    return fixed


def _words(path: tuple[str, ...]) -> list[str]:
    """``("adyen.com", "Payment__6.openapi.json")`` has the words adyen.com, Payment and 6."""
    stem = path[-1]
    if stem.lower().endswith(SUFFIXES):
        stem = stem[: stem.rindex(".")]
    return [word for part in (*path[:-1], _KIND.sub("", stem)) for word in part.split("__") if word]


def _without_noise(words: list[str]) -> list[str]:
    kept = [word for word in words if word.lower() not in _MEANINGLESS]
    while len(kept) > 1 and _VERSION.fullmatch(kept[-1]):
        kept.pop()
    return kept or words


def _slug(words: list[str]) -> str:
    plain = (unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode().lower() for word in words)
    slugs = (re.sub(r"[^a-z0-9]+", "-", word).strip("-") for word in plain)
    name = "_".join(slug for slug in slugs if slug)
    return name if len(name) <= MAX_NAME else _with_digest(name, tuple(words))


def _with_digest(name: str, path: tuple[str, ...]) -> str:
    """The name with a digest of the document's path."""
    digest = hashlib.sha256("/".join(path).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}-{digest}" if name else f"document-{digest}"


def _download(url: str) -> bytes:
    body = bytearray()
    with httpx2.stream("GET", url, timeout=30, follow_redirects=True) as response:
        if not response.is_success:
            raise Unreadable(f"the server answered {response.status_code} {response.reason_phrase}".rstrip())
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_FILE_BYTES:
                raise Unreadable(f"it has more than {MAX_FILE_BYTES:,} bytes")
    return bytes(body)
