"""The gate: better is promoted, as good is not, and what cannot be compared is refused."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.llm import gate
from deploy.llm.gate import PARAMETER_F1, Figures, judge, measured
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from planner_svc.judging.fingerprint import JUDGE
from services.registry import Entry, PromptForm, RegistryError, enter, promoted, read_registry

SHA = "b" * 64


def entry(name: str, base: str = SHA, detail: PromptForm = "brief") -> Entry:
    told = {"name": name, "base": "tiny", "base_sha256": base, "detail": detail, "data_sha256": SHA}
    return Entry.model_validate(told | {"prompt_version": PROMPT_VERSIONS[detail]})


def adapter(folder: Path, f1: float) -> Path:
    """An adapter whose weights say how good it is."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_text(str(f1))
    (folder / "optimizer.pt").write_text("large")
    return folder


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[PromptForm]:
    """Merging copies an adapter's weights, and a model is as good as its file says. `asked` gets the prompts' forms."""
    asked: list[PromptForm] = []

    def export(source: Path, base: Path, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "planner.gguf").write_text((source / "adapter_model.safetensors").read_text())

    def measured(model: Path, folders: Sequence[Path], work: Path, limit: int, detail: PromptForm) -> Figures:
        asked.append(detail)
        return {folder.name: {PARAMETER_F1: float(model.read_text()), "requests": limit} for folder in folders}

    monkeypatch.setattr(gate, "export", export)
    monkeypatch.setattr(gate, "measured", measured)
    (tmp_path / "base.gguf").write_text("20")
    return asked


@pytest.fixture
def place(asked: list[PromptForm], tmp_path: Path) -> Path:
    return tmp_path


def tried(place: Path, name: str, f1: float, base: str = SHA, detail: PromptForm = "brief") -> gate.Verdict:
    candidate, work = adapter(place / name, f1), place / f"{name}.work"
    gate.export(candidate, place / "base.gguf", work)
    folders = [place / "held-out/a", place / "held-out/b"]
    return judge(candidate, entry(name, base, detail), place / "base.gguf", folders, place / "models", work, 7)


def test_the_first_must_beat_the_base(place: Path) -> None:
    verdict = tried(place, "worse", 20)
    assert (verdict.better, verdict.before) == (False, "base")
    assert not (place / "models").exists()
    assert tried(place, "first", 20.5).better
    found = promoted(place / "models", PROMPT_VERSIONS)
    assert found is not None
    assert found[1].figures["a"] == {PARAMETER_F1: 20.5, "requests": 7}
    assert {one.name for one in found[0].iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}


def test_the_next_must_beat_the_one_that_plans(place: Path) -> None:
    assert tried(place, "first", 40).better
    verdict = tried(place, "second", 40)
    assert (verdict.better, verdict.before) == (False, "first")
    assert verdict.champion["b"][PARAMETER_F1] == 40
    assert tried(place, "third", 41).better
    registry = read_registry(place / "models")
    assert (registry.promoted, sorted(registry.adapters)) == ("third", ["first", "third"])


def test_the_first_must_beat_what_ships_if_that_has_the_same_base(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter(place / "shipped/small", 30)
    enter(place / "shipped", entry("small"), promote=True)
    monkeypatch.setattr(gate, "shipped_registry", lambda: place / "shipped")
    verdict = tried(place, "worse", 30)
    assert (verdict.better, verdict.before) == (False, "small"), "it is what plans until another is promoted"
    assert tried(place, "first", 31).better
    assert tried(place, "second", 30.5).before == "first"
    assert read_registry(place / "shipped").promoted == "small"
    shutil.rmtree(place / "models")
    assert tried(place, "of-another-base", 21, "c" * 64).before == "base"


def test_a_judge_is_promoted_with_the_model_that_it_was_fitted_to(place: Path) -> None:
    adapter(place / "first", 40)
    (place / "first" / JUDGE).write_text("of 40")
    assert tried(place, "first", 40).better
    kept = place / "models/first" / JUDGE
    assert kept.read_text() == "of 40"
    (place / "first" / JUDGE).unlink()
    assert tried(place, "first", 41).better
    assert not kept.exists(), "other weights, other answers"


def test_each_is_asked_in_the_form_that_it_was_trained_with(place: Path, asked: list[PromptForm]) -> None:
    assert tried(place, "first", 40, detail="full").better
    assert tried(place, "second", 41, detail="brief").better
    assert asked == ["full", "full", "brief", "full"], "first and its base, second and first"


def test_what_was_trained_on_another_base_is_not_compared(place: Path) -> None:
    adapter(place / "models/first", 10)
    enter(place / "models", entry("first", "c" * 64), promote=True)
    with pytest.raises(RegistryError, match="cannot be compared"):
        tried(place, "second", 90)
    assert read_registry(place / "models").promoted == "first"


def test_a_model_is_served_while_it_is_measured_and_the_environment_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @contextmanager
    def planning_model(detail: PromptForm) -> Iterator[str]:
        seen.append((os.environ["NESTOR_LLM_MODEL"], detail))
        os.environ["NESTOR_PLANNER_SERVED_URL"] = "http://127.0.0.1:1/v1"
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(gate, "planning_model", planning_model)
    monkeypatch.delenv("NESTOR_PLANNER_SERVED_URL", raising=False)
    before = dict(os.environ)
    assert measured(tmp_path / "a.gguf", [], tmp_path, 3, "full") == {}
    assert seen == [(str(tmp_path / "a.gguf"), "full")]
    assert dict(os.environ) == before
