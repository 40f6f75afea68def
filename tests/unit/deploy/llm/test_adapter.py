"""Reading what peft wrote: plain LoRA and nothing else, from files that may be anything."""

import json
from pathlib import Path

import numpy as np
import pytest

from deploy.llm.adapter import CONFIG, WEIGHTS, read_adapter, read_safetensors
from deploy.llm.errors import ModelFileError
from tests.support.llama import tiny_factors, write_peft, write_safetensors


def test_factors_and_scale_are_read(tmp_path: Path) -> None:
    factors = tiny_factors(rank=4)
    adapter = read_adapter(write_peft(tmp_path, factors, 8))
    assert (adapter.rank, adapter.scale) == (4, 2.0)
    assert adapter.changes.keys() == factors.keys()
    for name, (down, up) in factors.items():
        assert np.array_equal(adapter.changes[name].down, down)
        assert np.array_equal(adapter.changes[name].up, up)


def test_a_rank_stabilised_adapter_is_scaled_by_the_root_of_its_rank(tmp_path: Path) -> None:
    assert read_adapter(write_peft(tmp_path, tiny_factors(rank=4), 8, use_rslora=True)).scale == 4.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("use_dora", True), ("bias", "all"), ("rank_pattern", {"q_proj": 8}), ("alpha_pattern", {"q_proj": 8}),
        ("modules_to_save", ["lm_head"]), ("fan_in_fan_out", True), ("r", 0), ("r", "4"), ("r", True), ("r", 10**9),
        ("use_bdlora", {"x": 1}), ("alora_invocation_tokens", [1]), ("target_parameters", ["experts"]),
        ("lora_alpha", "8"), ("lora_alpha", None), ("peft_type", "IA3"),
    ],
)  # fmt: skip
def test_what_is_not_plain_lora_is_refused_by_name(tmp_path: Path, field: str, value: object) -> None:
    folder = write_peft(tmp_path, tiny_factors(), 8, **{field: value})
    with pytest.raises(ModelFileError, match=field):
        read_adapter(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 5_000])
def test_a_damaged_configuration_is_refused(tmp_path: Path, text: str) -> None:
    (write_peft(tmp_path, tiny_factors()) / CONFIG).write_text(text)
    with pytest.raises(ModelFileError, match=CONFIG):
        read_adapter(tmp_path)


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no adapter in"):
        read_adapter(tmp_path)
    write_peft(tmp_path, tiny_factors())
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(ModelFileError, match=WEIGHTS):
        read_adapter(tmp_path)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 5_000, -1])
def test_weights_that_are_cut_off_are_refused(tmp_path: Path, keep: int) -> None:
    path = write_peft(tmp_path, tiny_factors()) / WEIGHTS
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"cut off|damaged"):
        read_adapter(tmp_path)


@pytest.mark.parametrize(
    "header",
    [
        [], {"x": 1}, {"x": {}}, {"x": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2], "more": 1}},
        {"x": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}},
        {"x": {"dtype": "F16", "shape": [5], "data_offsets": [0, 2]}},
        {"x": {"dtype": "F16", "shape": [-1], "data_offsets": [0, 2]}},
        {"x": {"dtype": "F16", "shape": ["1"], "data_offsets": [0, 2]}},
        {"x": {"dtype": "F16", "shape": None, "data_offsets": [0, 2]}},
        {"x": {"dtype": "F16", "shape": [1], "data_offsets": [-2, 2]}},
        {"x": {"dtype": "F16", "shape": [1], "data_offsets": [2, 0]}},
        {"x": {"dtype": "F16", "shape": [1], "data_offsets": [0, 99]}},
        {"x": {"dtype": "F16", "shape": [1], "data_offsets": [0]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 3]}},
    ],
)  # fmt: skip
def test_a_malformed_safetensors_header_is_refused(tmp_path: Path, header: object) -> None:
    text, path = json.dumps(header).encode(), tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0\0\0")
    with pytest.raises(ModelFileError, match="damaged"):
        read_safetensors(path)


def test_all_float_types_are_read(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0], [0.0, 65_504.0]], np.float32)
    for kind in (np.float16, np.float32):
        write_safetensors(tmp_path / "x", {"x": values.astype(kind)})
        assert np.array_equal(read_safetensors(tmp_path / "x")["x"], values)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    text = json.dumps({"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + halves.tobytes())
    assert np.allclose(read_safetensors(tmp_path / "x")["x"], values, rtol=2**-7)


def test_weights_that_do_not_fit_the_configuration_are_refused(tmp_path: Path) -> None:
    one = {"model.layers.0.mlp.up_proj": tiny_factors()["model.layers.0.mlp.up_proj"]}
    down, up = one["model.layers.0.mlp.up_proj"]
    name = "base_model.model.model.layers.0.mlp.up_proj"

    def refused(tensors: dict[str, object], match: str) -> None:
        write_peft(tmp_path, one)
        write_safetensors(tmp_path / WEIGHTS, tensors)  # type: ignore[arg-type]
        with pytest.raises(ModelFileError, match=match):
            read_adapter(tmp_path)

    refused({f"{name}.lora_A.weight": down}, "one of lora_A and lora_B is missing")
    refused({f"{name}.lora_A.weight": down[:2], f"{name}.lora_B.weight": up}, "does not fit the rank 4")
    refused({f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up.T}, "does not fit the rank 4")
    refused({f"{name}.lora_magnitude_vector": down[0]}, "no part of plain LoRA")
    refused({f"{name}.lora_A.weight": down * np.inf, f"{name}.lora_B.weight": up}, "no finite numbers")
    refused({}, "holds no weights")
