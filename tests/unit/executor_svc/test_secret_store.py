"""Secrets: strict to load, bound to hosts, masked wherever they turn up."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import JsonValue, SecretStr

from executor_svc.secret_file import change_file, load_file
from executor_svc.secret_store import Client, SecretStore, SecretsUnreadable, Token
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Location, SecretKind

CANARY = 'c4n"ary/ü+ key'
HOSTS = ["api.example.com"]


def load(entries: Any) -> SecretStore:
    return SecretStore.load(None, SecretStr(json.dumps(entries)))


def test_file_and_setting_are_joined_and_the_setting_wins(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(
        json.dumps({"a.k": {"value": "from-file", "hosts": HOSTS}, "b.k": {"value": "from-file", "hosts": HOSTS}})
    )
    store = SecretStore.load(file, SecretStr(json.dumps({"b.k": {"value": "from-setting", "hosts": HOSTS}})))
    assert store.names(None) == ("a.k", "b.k")
    held = [store.get(name, SecretKind.BEARER) for name in store.names(None)]
    assert [secret.masked() for secret in held if secret] == [("from-file",), ("from-setting",)]


def test_a_changed_file_is_told_of_by_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets.json"
    token = {"value": "canary-one", "hosts": ["a.example"]}
    file.write_text(json.dumps({"a.key": token, "b.key": token, "c.key": token}))
    store = SecretStore.load(file, None)
    file.write_text(json.dumps({"a.key": token, "b.key": token | {"value": "canary-two"}, "d.key": token}))
    os.utime(file, ns=(1, 1))
    log = structlog.testing.CapturingLogger()
    monkeypatch.setattr("executor_svc.secret_store._log", log)
    store.reload()
    store.reload()
    told = {"added": ["d.key"], "changed": ["b.key"], "removed": ["c.key"]}
    assert [(call.method_name, call.args, call.kwargs) for call in log.calls] == [("info", ("secrets changed",), told)]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(json.dumps({"a.key": {"value": "canary-one", "hosts": HOSTS}}))
    store, before = SecretStore.load(file, None), file.stat()
    file.write_text(json.dumps({"a.key": {"value": "canary-two", "hosts": HOSTS}}))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    store.reload()
    assert store.entries["a.key"].masked() == ("canary-two",)


LOGIN: dict[str, JsonValue] = {
    "client_id": "me",
    "refresh_token": "refresh-one",
    "access_token": "access-one",
    "hosts": [*HOSTS],
}
KEY: JsonValue = {"value": "canary-one", "hosts": [*HOSTS]}


def renew(store: SecretStore, before: Client) -> None:
    tokens = {"access_token": SecretStr("access-two"), "refresh_token": SecretStr("refresh-two"), "expires_at": 99.0}
    store.keep("a.login", before, before.model_copy(update=tokens))


def test_a_renewal_leaves_what_was_changed_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    change_file(file, {"a.login": LOGIN, "b.key": KEY})
    store, told = SecretStore.load(file, None), list[list[str]]()
    store.on_reload = lambda: told.append(sorted(store.entries))
    before = store.client("a.login")
    assert before is not None
    change_file(file, {"a.login": LOGIN | {"tenants": ["red"], "hosts": ["other"]}, "b.key": None})
    renew(store, before)
    store.reload()
    kept = load_file(file)["a.login"]
    assert isinstance(kept, dict)
    assert (kept["tenants"], kept["hosts"]) == (["red"], ["other"])
    assert (kept["access_token"], kept["refresh_token"], kept["expires_at"]) == ("access-two", "refresh-two", 99.0)
    assert told == [["a.login"]]
    current = store.client("a.login")
    assert current is not None
    assert not current.usable_by("blue")
    assert "access-two" in current.masked()


@pytest.mark.parametrize(
    "entry", [None, LOGIN | {"refresh_token": "refresh-of-another-login"}, LOGIN | {"client_id": "another"}]
)
def test_a_renewal_writes_nothing_over_another_login_or_a_removed_one(tmp_path: Path, entry: JsonValue) -> None:
    file = tmp_path / "secrets.json"
    change_file(file, {"a.login": LOGIN, "b.key": KEY})
    store = SecretStore.load(file, None)
    before = store.client("a.login")
    assert before is not None
    change_file(file, {"a.login": entry})
    for seen in (False, True):  # whether this process has read the change when the renewal ends
        if seen:
            store.reload()
        renew(store, before)
        assert load_file(file).get("a.login") == entry
    store.reload()
    client = store.client("a.login")
    assert "access-two" not in (() if client is None else client.masked())


def test_a_renewal_does_not_bring_a_deleted_file_back(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    change_file(file, {"a.login": LOGIN})
    store = SecretStore.load(file, None)
    before = store.client("a.login")
    assert before is not None
    file.unlink()
    renew(store, before)
    assert not file.exists()


def test_a_tenant_sees_what_it_may_use() -> None:
    store = load(
        {"a.k": {"value": CANARY, "hosts": HOSTS, "tenants": ["red"]}, "b.k": {"value": CANARY, "hosts": HOSTS}}
    )
    assert store.names("red") == ("a.k", "b.k")
    assert store.names("blue") == store.names(None) == ("b.k",)


def test_entries_of_earlier_versions_keep_their_place() -> None:
    old = {"a.k": {"value": CANARY, "hosts": HOSTS, "query": "key"}, "b.k": {"value": CANARY, "hosts": HOSTS}}
    new = {"a.k": {"value": CANARY, "hosts": HOSTS, "in": "query", "name": "key"}}
    found = load(old).get("a.k", SecretKind.API_KEY)
    assert isinstance(found, Token)
    assert found == load(new).get("a.k", SecretKind.API_KEY)
    assert found.place == (Location.QUERY, "key")


def test_the_form_must_fit_the_kind() -> None:
    store = load({"l": {"username": "u", "password": CANARY, "hosts": HOSTS}})
    assert store.get("l", SecretKind.BASIC) is not None
    assert (
        store.get("l", SecretKind.BEARER)
        is store.get("l", SecretKind.MUTUAL_TLS)
        is store.get("x", SecretKind.BASIC)
        is None
    )


@pytest.mark.parametrize(
    "entries",
    [
        [CANARY],
        {"x": CANARY},
        {"x": {"value": CANARY}},
        {"x": {"value": CANARY, "hosts": []}},
        {"x": {"value": CANARY, "hosts": ["https://evil/" + CANARY]}},
        {"x": {"value": CANARY + "\r\n", "hosts": HOSTS}},
        {"x": {"value": CANARY, "hosts": HOSTS, "extra": CANARY}},
        {"x": {"username": "u:" + CANARY, "password": CANARY, "hosts": HOSTS}},
        {"x": {"value": "short", "hosts": HOSTS}},
        {"x": {"value": CANARY, "hosts": HOSTS, "tenants": []}},
        {"x": {"value": CANARY, "hosts": HOSTS, "in": "header"}},
        {"x": {"value": CANARY, "hosts": HOSTS, "in": "no such", "name": "key"}},
        {"x": {"value": CANARY, "hosts": HOSTS, "in": "header", "name": "X-Key", "query": "key"}},
        {"x": {"value": CANARY, "hosts": HOSTS, "scheme": "no such"}},
        {"x": {"username": "u", "password": CANARY, "hosts": HOSTS, "in": "header", "name": "X-Key"}},
    ],
)
def test_what_is_wrong_is_said_without_the_value(entries: Any) -> None:
    with pytest.raises(SecretsUnreadable) as caught:
        load(entries)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_unreadable_files_and_texts(tmp_path: Path) -> None:
    with pytest.raises(SecretsUnreadable, match="cannot be read"):
        SecretStore.load(tmp_path / "none.json", None)
    with pytest.raises(SecretsUnreadable, match="not a JSON object"):
        SecretStore.load(None, SecretStr("{"))


def test_settings_do_not_show_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_EXECUTOR_SECRETS", json.dumps({"a": {"value": CANARY, "hosts": HOSTS}}))
    monkeypatch.setenv("NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS", '["127.0.0.1:80"]')
    settings = ExecutorSettings()
    assert settings.allowed_private_hosts == ("127.0.0.1:80",)
    assert SecretStore.load(settings.secrets_file, settings.secrets).names(None) == ("a",)
    assert "c4n" not in repr(settings) + str(settings.model_dump())
    assert "c4n" not in repr(load({"a": {"value": CANARY, "hosts": HOSTS}}).get("a", SecretKind.BEARER))


@pytest.mark.parametrize(
    ("hosts", "url", "bound"),
    [
        (["a.com"], ("https", "a.com", 443), True),
        (["a.com"], ("http", "a.com", 80), False),
        (["a.com"], ("https", "a.com", 8443), False),
        (["A.com:8080"], ("http", "a.com", 8080), True),
        (["a.com"], ("https", "x.a.com", 443), False),
        (["a.com"], ("https", "a.com.evil", 443), False),
        (["[::1]:80"], ("http", "::1", 80), True),
    ],
)
def test_where_a_secret_may_go(hosts: list[str], url: tuple[str, str, int], bound: bool) -> None:
    assert Token(value=SecretStr(CANARY), hosts=tuple(hosts)).bound_to(*url) is bound
