"""Which documents are meant, and how their providers are called."""

import re
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.bundling import Unreadable
from deploy.cli.sources import Source, find_sources, provider_names
from services.contracts.api import ImportRequest


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("adyen.com__PaymentService__68.openapi.json",), "adyen-com_paymentservice"),
        (("airport-web.appspot.com__main__v1.openapi.json",), "airport-web-appspot-com"),
        (("1password.local__connect__1.5.7.openapi.json",), "1password-local_connect"),
        (("stripe.com", "2024-01-01", "openapi.yaml"), "stripe-com"),
        (("stripe.com", "v2beta1", "billing.yml"), "stripe-com_v2beta1_billing"),
        (("Zoo.postman_collection.json",), "zoo"),
        (("openapi.json",), "openapi"),
        (("3.json",), "3"),
        (("Zoölogie Köln.json",), "zoologie-koln"),
    ],
)
def test_a_provider_is_called_after_its_file(path: tuple[str, ...], name: str) -> None:
    assert provider_names([path]) == [name]


def test_documents_that_would_share_a_name_keep_all_their_words() -> None:
    paths = [("a__main__5.json",), ("a__main__6.json",), ("b__main__1.json",)]
    assert provider_names(paths) == ["a_main_5", "a_main_6", "b"]
    assert provider_names(paths[::-1]) == ["b", "a_main_6", "a_main_5"]


segments = st.text(min_size=1, max_size=30).filter(lambda text: "/" not in text)


@given(st.lists(st.lists(segments, min_size=1, max_size=3).map(tuple), unique=True, max_size=6))
def test_names_are_names_and_no_two_alike(paths: list[tuple[str, ...]]) -> None:
    names = provider_names(paths)
    assert len(set(names)) == len(paths)
    for name in names:
        ImportRequest(document="x", provider=name)


def test_folders_patterns_and_files(tmp_path: Path) -> None:
    for name in ("b/openapi.yaml", "a/one.json", "a/two.json", "a/notes.txt", ".git/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    folder = find_sources([str(tmp_path)], None)
    assert [source.provider for source in folder] == ["a_one", "a_two", "b"]
    pattern = find_sources([f"{tmp_path}/a/*.json", str(tmp_path / "a" / "one.json")], None)
    assert [source.provider for source in pattern] == ["one", "two"]
    (single,) = find_sources([str(tmp_path / "a" / "one.json")], None)
    assert single.provider is None
    (only,) = find_sources([f"{tmp_path}/**/*.yaml"], None)
    assert only.provider == "b"


def test_several_urls_are_called_after_host_and_path() -> None:
    found = find_sources(["https://zoo.example/v1/openapi.json", "https://me:pw@hr.example/@/spec.json?key=k#x"], None)
    assert [(s.provider, s.origin) for s in found] == [
        ("zoo-example", "https://zoo.example/v1/openapi.json"),
        ("hr-example", "https://hr.example/@/spec.json"),
    ]


@pytest.mark.parametrize(
    ("sources", "provider", "why"),
    [
        (["nowhere.json"], None, "not a file"),
        (["{tmp}"], None, "contains no"),
        (["{tmp}/*.json"], None, "contains no"),
        (["-", "https://zoo.example/a.json"], None, "cannot be combined"),
        (["https://zoo.example/b.json", "https://zoo.example/a.json"], "zoo", "single document"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, sources: list[str], provider: str | None, why: str) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(why)):
        find_sources([text.format(tmp=tmp_path) for text in sources], provider)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"title": "\xe9"}')
    (tmp_path / "large.json").write_bytes(b"x" * 25_000_001)
    for name, why in (("latin.json", "UTF-8"), ("large.json", "bytes"), ("gone.json", "no such file")):
        with pytest.raises(Unreadable, match=why):
            Source(str(tmp_path / name), (name,)).read()
    with pytest.raises(Unreadable):
        Source("http://nowhere.invalid/openapi.json", ("x",)).read()
