"""The gate before the registry: a finetuned model is promoted only if it is better than the current one.

Both are written as GGUF files (adapters are merged into the base), served by llama.cpp one after the other, and
measured as ``nestor eval plan --planner served`` does, on the same requests. If none is registered yet, the candidate
must beat the model that ships, or the base if that is another one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from deploy.llm.adapter import read_adapter
from deploy.llm.gguf_files import write_lora
from deploy.llm.install import shipped_registry
from deploy.llm.supervisor import planning_model
from deploy.llm.trained import is_whole, sha256_of, weight_files, write_planner
from evals.planning.command import COLUMNS, Measurement, errors_only, measure
from evals.planning.evaluate import PlanReport
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from planner_svc.judging.fingerprint import JUDGE
from services.registry import Entry, PromptForm, RegistryError, enter, promoted, read_registry

LORA_NAME: Final = "lora.gguf"
MERGED_NAME: Final = "planner.gguf"
PARAMETER_F1: Final = "parameter F1"
"""The metric that decides. A parameter is right only if its call is; it separates models better than full match."""
_KIND: Final = "Q8_0"
"""Type of the merged models' layers, the one that `nestor llm install` writes."""
_KEPT: Final = ("report.json", "MODEL_CARD.md", "NOTICE", "LICENSE", JUDGE)
_KEPT_OF_WHOLE: Final = ("*.json", "*.jinja", "*.txt")
"""What transformers writes beside a whole model's weights: indices, generation settings, the tokenizer."""

Figures = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the gate.

    Attributes:
        candidate: figures by folder of requests.
        before: name of the current adapter, or of the base, which the candidate has to beat.
        champion: its figures on the same requests.
        better: whether the candidate's parameter F1, averaged over the folders, is higher. If so, it was promoted.
    """

    candidate: Figures
    before: str
    champion: Figures
    better: bool


def export(trained: Path, base: Path, out: Path) -> None:
    """Write what was trained as ``planner.gguf`` for llama.cpp, and an adapter as a LoRA too (``lora.gguf``).

    Raises:
        ModelFileError: a file is missing, damaged or does not fit.
    """
    if not is_whole(trained):
        write_lora(base, read_adapter(trained), out / LORA_NAME)
    write_planner(base, trained, out / MERGED_NAME, _KIND)


def judge(
    candidate: Path, entry: Entry, base: Path, folders: Sequence[Path], registry: Path, work: Path, limit: int
) -> Verdict:
    """Measure a candidate and the current model. If the candidate is better, promote it.

    Args:
        candidate: folder of what was trained, with ``planner.gguf`` of :func:`export` in ``work``.
        entry: its entry, without figures and hash of its weights.
        base: the GGUF file it was trained on.
        folders: folders of requests that it was not trained on, in the format of ``nestor eval plan``.
        registry: folder of ``registry.json``.
        work: folder for merged models and caches.
        limit: number of requests per folder, always the same ones.

    Raises:
        LlmError: a model cannot be merged or served.
        RegistryError: the registry cannot be read, or the current adapter has another base or prompt.
        DataError: a folder cannot be measured.
    """
    now = _current(registry, entry)
    found = measured(work / MERGED_NAME, folders, work, limit, entry.detail)
    if now is None:
        before, others = base.stem, measured(base, folders, work, limit, entry.detail)
    else:
        before, other = now[1].name, work / "before"
        export(now[0], base, other)
        others = measured(other / MERGED_NAME, folders, work, limit, now[1].detail)
    verdict = Verdict(found, before, others, mean(found) > mean(others))
    if verdict.better:
        _promote(candidate, entry.model_copy(update={"figures": found}), registry)
    return verdict


def mean(figures: Figures) -> float:
    """The parameter F1, averaged over the folders."""
    return sum(one[PARAMETER_F1] for one in figures.values()) / max(len(figures), 1)


def measured(model: Path, folders: Sequence[Path], work: Path, limit: int, detail: PromptForm) -> Figures:
    """The figures that the registry keeps, of :func:`reports`."""
    return {name: _figures(report) for name, report in reports(model, folders, work, limit, detail).items()}


def reports(model: Path, folders: Sequence[Path], work: Path, limit: int, detail: PromptForm) -> dict[str, PlanReport]:
    """Serve a GGUF file and measure its plans on each folder, asked with a prompt of this form.

    Raises:
        ModelServerError: the model cannot be served.
        DataError: a folder cannot be measured.
    """
    found: dict[str, PlanReport] = {}
    with _set_environment({"NESTOR_LLM_MODEL": str(model)}), planning_model(detail):
        for folder in folders:
            wanted = Measurement(folder, limit=limit, planner="served", cache=work / f"{folder.name}.npz")
            with errors_only(), Progress(*COLUMNS, console=Console(stderr=True), transient=True) as progress:
                report = measure(wanted, progress)[0]
            assert report is not None  # it is None only for measurements without a server
            found[folder.name] = report
    return found


def _figures(report: PlanReport) -> dict[str, float]:
    return {
        "requests": report.n,
        "tool F1": report.tool.f1,
        PARAMETER_F1: report.param.f1,
        "full match": report.full_match_any_order,
    }


def _current(registry: Path, entry: Entry) -> tuple[Path, Entry] | None:
    found = promoted(registry, PROMPT_VERSIONS) or _shipped(entry)
    if found is not None and found[1].base_sha256 != entry.base_sha256:
        raise RegistryError(
            f"{found[1].name}, which plans now, was trained on {found[1].base}: {entry.name} cannot be compared with "
            "it here. Measure both with `nestor eval plan`, and choose another --registry"
        )
    return found


def _shipped(entry: Entry) -> tuple[Path, Entry] | None:
    """The model that ships, which is served until another is promoted; None if it cannot be compared with ``entry``."""
    shipped = read_registry(shipped_registry()).current()
    wanted = entry.base_sha256, PROMPT_VERSIONS[entry.detail]
    if shipped is None or (shipped.base_sha256, shipped.prompt_version) != wanted:
        return None
    return shipped_registry() / shipped.name, shipped


def _promote(candidate: Path, entry: Entry, registry: Path) -> None:
    place, weights = registry / entry.name, weight_files(candidate)
    if candidate.resolve() != place.resolve():
        beside = [file for pattern in _KEPT_OF_WHOLE for file in candidate.glob(pattern)] if is_whole(candidate) else []
        place.mkdir(parents=True, exist_ok=True)
        (place / JUDGE).unlink(missing_ok=True)  # it was fitted to the answers of the weights that are replaced
        for file in {*weights, *beside, *(candidate / name for name in _KEPT)}:
            if file.is_file():
                shutil.copyfile(file, place / file.name)
    enter(registry, entry.model_copy(update={"weights_sha256": sha256_of(weights)}), promote=True)


@contextmanager
def _set_environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, and restore the environment afterwards."""
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
