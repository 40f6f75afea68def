"""Base and adapter become one file: the right weights, in the right order, or a clear refusal."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from deploy.llm.adapter import read_adapter
from deploy.llm.errors import ModelFileError
from deploy.llm.gguf_files import KINDS, plain_weight, read_model, write_lora, write_merged
from tests.support.llama import BLOCKS, GGUF_NAMES, TinyLlama, in_llama_cpp_order, tiny_factors, tiny_llama, write_peft

RELATIVE_ERROR = {"F32": 1e-6, "F16": 1e-3, "BF16": 4e-3, "Q8_0": 8e-3, "Q5_0": 6e-2, "Q4_1": 0.1, "Q4_0": 0.12}


def written(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: plain_weight(tensor.data, tensor.tensor_type) for tensor in GGUFReader(path).tensors}


def expected(model: TinyLlama) -> dict[str, np.ndarray]:
    return {
        f"blk.{block}.{short}.weight": in_llama_cpp_order(short, model.weights[f"model.layers.{block}.{name}"])
        for block in range(BLOCKS)
        for name, short in GGUF_NAMES.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_model_holds_the_sum_in_the_type_asked_for(tmp_path: Path, kind: str) -> None:
    model, factors = tiny_llama(), tiny_factors()
    base = model.write(tmp_path / "base.gguf")
    write_merged(base, read_adapter(write_peft(tmp_path / "a", factors, 8)), tmp_path / "m" / "out.gguf", kind)
    found, before = written(tmp_path / "m" / "out.gguf"), written(base)
    wanted = expected(model.changed(factors, scale=2.0))
    for name, weight in wanted.items():
        assert np.linalg.norm(found[name] - weight) < RELATIVE_ERROR[kind] * np.linalg.norm(weight), name
        assert np.linalg.norm(before[name] - weight) > 0.2 * np.linalg.norm(weight), "the adapter changes it"
    for name in before.keys() - wanted.keys():
        assert np.array_equal(found[name], before[name]), name
    assert list(tmp_path.glob("m/*")) == [tmp_path / "m" / "out.gguf"]


def test_all_that_the_base_says_of_itself_is_kept(tmp_path: Path) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    write_merged(base, read_adapter(write_peft(tmp_path / "a", tiny_factors())), tmp_path / "out.gguf", "Q8_0")
    said, kept = GGUFReader(base).fields, GGUFReader(tmp_path / "out.gguf").fields
    own = {name for name in said if not name.startswith("GGUF.")}
    assert "tokenizer.chat_template" in own
    assert {name: kept[name].contents() for name in own} == {name: said[name].contents() for name in own}
    assert kept["general.file_type"].contents() == 7


def test_a_quantised_base_is_read(tmp_path: Path) -> None:
    model, factors = tiny_llama(), tiny_factors()
    base = model.write(tmp_path / "base.gguf", kind="Q4_1")
    write_merged(base, read_adapter(write_peft(tmp_path / "a", factors)), tmp_path / "out.gguf", "F32")
    found, rounded = written(tmp_path / "out.gguf"), written(base)
    for name, change in expected(TinyLlama(_products(factors), model.embedding)).items():
        assert np.allclose(found[name], rounded[name] + 2.0 * change, atol=1e-4)


def _products(factors: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: up @ down for name, (down, up) in factors.items()}


def test_a_lora_file_holds_the_factors(tmp_path: Path) -> None:
    factors = tiny_factors(rank=4)
    base = tiny_llama().write(tmp_path / "base.gguf")
    write_lora(base, read_adapter(write_peft(tmp_path / "a", factors, 8, use_rslora=True)), tmp_path / "l.gguf")
    reader = GGUFReader(tmp_path / "l.gguf")
    said = {name: reader.fields[name].contents() for name in reader.fields}
    assert (said["general.type"], said["adapter.type"], said["general.architecture"]) == ("adapter", "lora", "llama")
    assert said["adapter.lora.alpha"] == 16.0  # over a rank of 4 the scale of 4 that rank stabilising asks for
    found = written(tmp_path / "l.gguf")
    for name, change in expected(TinyLlama(_products(factors), tiny_llama().embedding)).items():
        assert np.allclose(found[f"{name}.lora_b"] @ found[f"{name}.lora_a"], change, atol=1e-3)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 0.999])
def test_a_base_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    content = base.read_bytes()
    base.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match=r"base.gguf.* (no GGUF file|cut off|cannot be read)"):
        read_model(base)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_model(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("GGUF is what this is not" * 10)
    with pytest.raises(ModelFileError, match="no GGUF file"):
        read_model(tmp_path / "text.gguf")
    with pytest.raises(ModelFileError, match="architecture 'gemma'"):
        read_model(tiny_llama().write(tmp_path / "gemma.gguf", architecture="gemma"))


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ({"model.layers.0.self_attn.q_proj": (64, 128)}, r"another base model: .*q_proj has the shape \(64, 128\)"),
        ({"model.layers.2.self_attn.q_proj": (128, 128)}, "has no such layer"),
        ({"model.layers.99999.self_attn.q_proj": (128, 128)}, "no linear layer"),
        ({"lm_head": (260, 128)}, "no linear layer"),
        ({"model.layers.0.self_attn.rotary": (128, 128)}, "no linear layer"),
    ],
)
def test_an_adapter_of_another_model_is_refused(tmp_path: Path, shapes: dict[str, tuple[int, int]], match: str) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    adapter = read_adapter(write_peft(tmp_path / "a", tiny_factors(shapes=shapes)))
    with pytest.raises(ModelFileError, match=match):
        write_merged(base, adapter, tmp_path / "o", "F16")
    with pytest.raises(ModelFileError, match=match):
        write_lora(base, adapter, tmp_path / "o")
    assert not list(tmp_path.glob("o*"))


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    with pytest.raises(ModelFileError, match="Q3_K"):
        write_merged(base, read_adapter(write_peft(tmp_path / "a", tiny_factors())), tmp_path / "o", "Q3_K")
