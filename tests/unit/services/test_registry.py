"""The registry of finetuned models."""

from pathlib import Path

import pytest

from services.registry import Entry, PromptVersions, Registry, RegistryError, enter, promoted, read_registry

SHA = "a" * 64
VERSIONS: PromptVersions = {"brief": "1", "full": "2"}


def entry(name: str = "one", version: str = "1") -> Entry:
    return Entry(name=name, base="tiny", base_sha256=SHA, prompt_version=version, data_sha256=SHA)


def test_what_is_promoted_is_found_with_its_folder(tmp_path: Path) -> None:
    assert promoted(tmp_path, VERSIONS) is None
    for name, promote in (("one", True), ("two", False)):
        (tmp_path / name).mkdir()
        enter(tmp_path, entry(name), promote=promote)
    assert promoted(tmp_path, VERSIONS) == (tmp_path / "one", entry("one"))
    assert list(read_registry(tmp_path).adapters) == ["one", "two"]
    enter(tmp_path, entry("two"), promote=True)
    assert promoted(tmp_path, VERSIONS) == (tmp_path / "two", entry("two"))


def test_another_version_of_the_prompt_is_refused_before_weights_are_read(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    enter(tmp_path, entry(version="1").model_copy(update={"detail": "full"}), promote=True)
    with pytest.raises(RegistryError, match="trained with version 1 of the prompt, but this Nestor uses version 2"):
        promoted(tmp_path, VERSIONS)


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    enter(tmp_path, entry(), promote=True)
    with pytest.raises(RegistryError, match="lists one, which does not exist"):
        promoted(tmp_path, VERSIONS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"promoted": "other", "adapters": {}}',
        b'{"promoted": "../secrets", "adapters": {}}',
        b'{"adapters": {"one": {"name": "one"}}}',
        b'{"unknown": 1}',
        b'{"adapters": {' + b" " * 1_000_001 + b"}}",
        b"\xff\xfe",
    ],
)
def test_a_spoilt_registry_is_refused_and_not_written_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "registry.json").write_bytes(content)
    with pytest.raises(RegistryError, match=r"registry\.json"):
        read_registry(tmp_path)
    with pytest.raises(RegistryError):
        enter(tmp_path, entry(), promote=True)
    assert (tmp_path / "registry.json").read_bytes() == content


def test_an_empty_registry_promotes_nothing() -> None:
    assert Registry().current() is None
