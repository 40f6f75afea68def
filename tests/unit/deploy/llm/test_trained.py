"""What training wrote becomes one file for llama.cpp: an adapter is merged, a whole model takes the base's place."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from deploy.llm import gate
from deploy.llm.errors import ModelFileError
from deploy.llm.gate import PARAMETER_F1, Figures, export, judge
from deploy.llm.gguf_files import plain_weight
from deploy.llm.settings import LlmSettings
from deploy.llm.trained import is_whole, sha256_of, weight_files, write_planner
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from services.registry import Entry, PromptForm, promoted, read_registry
from tests.support.llama import (
    BLOCKS,
    WIDTH,
    TinyLlama,
    tiny_factors,
    tiny_llama,
    write_peft,
    write_safetensors,
)
from tests.unit.deploy.llm.test_gguf_files import expected
from tests.unit.deploy.llm.test_server import PROMPT, log_probabilities

Tensors = dict[str, np.ndarray]


def tensors_of(model: TinyLlama, norm: float = 1) -> Tensors:
    """All weights with transformers' names."""
    norms = [
        f"model.layers.{b}.{name}" for b in range(BLOCKS) for name in ("input_layernorm", "post_attention_layernorm")
    ]
    matrices = {f"{name}.weight": weight for name, weight in model.weights.items()}
    ones = {f"{name}.weight": np.full(WIDTH, norm, np.float16) for name in (*norms, "model.norm")}
    return matrices | ones | {"model.embed_tokens.weight": model.embedding}


def write_whole_folder(folder: Path, tensors: Tensors) -> Path:
    """A whole model as transformers saves it, with what training leaves beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "optimizer.pt").write_text("large")
    write_safetensors(folder / "model.safetensors", {name: one.astype(np.float16) for name, one in tensors.items()})
    return folder


def test_a_whole_model_takes_the_bases_place(tmp_path: Path) -> None:
    base, model = tiny_llama(0).write(tmp_path / "base.gguf"), tiny_llama(1)
    folder = write_whole_folder(tmp_path / "full", tensors_of(model, norm=0.5))
    export(folder, base, tmp_path / "work")
    assert [one.name for one in (tmp_path / "work").iterdir()] == ["planner.gguf"], "there is no LoRA"
    write_planner(base, folder, tmp_path / "exact.gguf", "F32")
    reader = GGUFReader(tmp_path / "exact.gguf")
    found = {one.name: plain_weight(one.data, one.tensor_type) for one in reader.tensors}
    assert found.keys() == {one.name for one in GGUFReader(base).tensors}
    for name, weight in expected(model).items():
        assert np.allclose(found[name], weight, atol=1e-3), name
    assert np.allclose(found["token_embd.weight"], model.embedding)
    assert {found[name][0] for name in found if "norm" in name} == {0.5}
    assert (
        reader.fields["tokenizer.chat_template"].contents()
        == GGUFReader(base).fields["tokenizer.chat_template"].contents()
    )


def test_the_server_computes_what_a_whole_model_says(tmp_path: Path) -> None:
    base, model = tiny_llama(0).write(tmp_path / "base.gguf"), tiny_llama(1)
    write_planner(base, write_whole_folder(tmp_path / "full", tensors_of(model)), tmp_path / "full.gguf", "F16")
    found = log_probabilities(LlmSettings(model=tmp_path / "full.gguf", port=0, threads=1, context=512))
    assert np.abs(found - model.log_probabilities(PROMPT)).max() < 0.1
    assert np.abs(found - tiny_llama(0).log_probabilities(PROMPT)).max() > 1


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"model.norm.weight": None}, "model.norm.weight is missing"),
        ({"model.embed_tokens.weight": np.ones((8, WIDTH))}, r"embed_tokens.weight has the shape \(8, 128\)"),
        ({"model.layers.0.mlp.up_proj.weight": np.ones(WIDTH)}, "up_proj.weight has the shape"),
        ({"model.layers.7.mlp.up_proj.weight": np.ones((2, 2))}, "layers.7.mlp.up_proj.weight has no place"),
        ({"model.layers.0.self_attn.q_proj.bias": np.ones(WIDTH)}, "q_proj.bias has no place"),
        ({"model.norm.weight": np.full(WIDTH, np.nan)}, "no finite numbers: model.norm.weight"),
    ],
)
def test_a_whole_model_of_another_form_is_refused(
    tmp_path: Path, changed: dict[str, np.ndarray | None], match: str
) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    tensors = {name: one for name, one in (tensors_of(tiny_llama(1)) | changed).items() if one is not None}
    with pytest.raises(ModelFileError, match=match):
        write_planner(base, write_whole_folder(tmp_path / "full", tensors), tmp_path / "out.gguf", "F16")
    assert not list(tmp_path.glob("out*"))


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no adapter in .*adapter_config.json is missing"):
        weight_files(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"no model in .*model.safetensors is missing"):
        weight_files(tmp_path)
    write_peft(tmp_path, tiny_factors())
    assert not is_whole(tmp_path), "an adapter that was saved beside its base's configuration"


def test_a_whole_model_that_is_better_is_promoted_with_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    digest = sha256_of([base])
    told = {"base": "base", "base_sha256": digest, "data_sha256": digest, "prompt_version": PROMPT_VERSIONS["brief"]}
    figures: dict[str, float] = {"base.gguf": 10, "worse.work": 9, "full.work": 20, "before": 20, "lora.work": 30}

    def measured(model: Path, folders: Sequence[Path], work: Path, limit: int, detail: PromptForm) -> Figures:
        return {"a": {PARAMETER_F1: figures[model.name if model == base else model.parent.name]}}

    def better(folder: Path) -> bool:
        work, entry = tmp_path / f"{folder.name}.work", Entry.model_validate(told | {"name": folder.name})
        export(folder, base, work)
        return judge(folder, entry, base, [], tmp_path / "models", work, 3).better

    monkeypatch.setattr(gate, "measured", measured)
    assert not better(write_whole_folder(tmp_path / "worse", tensors_of(tiny_llama(1))))
    full = write_whole_folder(tmp_path / "full", tensors_of(tiny_llama(2)))
    assert better(full)
    found = promoted(tmp_path / "models", PROMPT_VERSIONS)
    assert found is not None
    assert {one.name for one in found[0].iterdir()} == {"config.json", "tokenizer.json", "model.safetensors"}
    assert found[1].weights_sha256 == sha256_of(weight_files(full))
    assert better(write_peft(tmp_path / "lora", tiny_factors())), "an adapter is compared with a whole model"
    assert read_registry(tmp_path / "models").promoted == "lora"
