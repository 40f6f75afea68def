"""Training for real on a handful of requests. Needs the train requirements: pip install -r requirements/train.txt."""

import os
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from tokenizers import Tokenizer

import services
from planner_svc.backends.compact.inputs import FEATURES
from planner_svc.backends.compact.items import encode
from planner_svc.backends.compact.reader import OUTPUTS, Reader
from services.encoder import DEFAULT_MODEL, Encoder, EncoderError, TokenEncoding, load_encoder
from tests.unit.planner_svc.worlds import SHOP
from training.planner.api_encodings import ApiEncodings
from training.planner.api_tokens import ApiTokens
from training.planner.examples import Example
from training.planner.recipe import Recipe
from training.planner.synthesis import synthesise

torch = pytest.importorskip("torch", reason="needs requirements/train.txt")
transformers = pytest.importorskip("transformers", reason="needs requirements/train.txt")

from training.planner.export import start_from_export, write_lower, write_network  # noqa: E402
from training.planner.feeding import Feed  # noqa: E402
from training.planner.learning import Batch, collate, to_device  # noqa: E402
from training.planner.network import Lower, Network, Sizes  # noqa: E402
from training.planner.trainer import Step, Trainer  # noqa: E402
from training.shared.checkpoints import CHECKPOINT, CheckpointError, start  # noqa: E402

pytestmark = pytest.mark.training

RECIPE = Recipe(steps=8, batch=4, candidates=3, recorded=0, width=32, layers=1, bfloat16=False)
TOKENIZER = Path(services.__file__).parent / "models" / DEFAULT_MODEL / "tokenizer.json"


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return list(synthesise(SHOP, 1, 40))


@pytest.fixture(scope="module")
def lower_half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is served."""
    folder = tmp_path_factory.mktemp("lower")
    write_lower(halves()[0], Tokenizer.from_file(str(TOKENIZER)), folder)
    return folder


@pytest.fixture(scope="module")
def encodings(lower_half: Path) -> ApiEncodings:
    return ApiEncodings(load_encoder(str(lower_half)))


def halves(sizes: Sizes = Sizes(lower=1, width=32, layers=1, heads=2, inner=64)) -> tuple[Lower, Network]:  # noqa: B008
    """Small ones, with weights drawn from one seed."""
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=30_522, hidden_size=384, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    return Lower(encoder, sizes.lower), Network(encoder, 384, sizes)


def trainer(examples: list[Example], apis: ApiEncodings | ApiTokens, folder: Path, recipe: Recipe = RECIPE) -> Trainer:
    feed = Feed([], examples, apis, Tokenizer.from_file(str(TOKENIZER)), recipe)
    lower, network = halves()
    return Trainer(network, lower, recipe, feed.batches, folder, "data", torch.device("cpu"))


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(
    examples: list[Example], encodings: ApiEncodings, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, steps = trainer(examples, encodings, tmp_path / "one"), list[Step]()
    assert whole.train(steps.append)
    assert [step.number for step in steps] == list(range(1, 9))
    assert not trainer(examples, encodings, tmp_path / "two").train(lambda step: None, lambda done: done == 3)
    second = trainer(examples, encodings, tmp_path / "two")
    assert second.done == 3
    assert second.train(lambda step: None)
    for name, weight in whole.network.state_dict().items():
        assert torch.equal(weight, second.network.state_dict()[name]), name
    with pytest.raises(CheckpointError, match="another recipe"):
        trainer(examples, encodings, tmp_path / "two", RECIPE.model_copy(update={"seed": 8}))
    (tmp_path / "two" / "checkpoint.pt").write_bytes(b"half a fi")
    with pytest.raises(CheckpointError, match="cannot be read"):
        trainer(examples, encodings, tmp_path / "two")


def test_the_result_is_the_mean_with_the_start_on_request(
    examples: list[Example], encodings: ApiEncodings, tmp_path: Path
) -> None:
    trained = {}
    for kept in (0.0, 0.25):
        (tmp_path / f"{kept}").mkdir()
        one = trainer(examples, encodings, tmp_path / f"{kept}", RECIPE.model_copy(update={"kept": kept}))
        assert one.train(lambda step: None)
        trained[kept] = one.network.state_dict()
    for name, before in halves()[1].state_dict().items():
        assert torch.allclose(trained[0.25][name], 0.75 * trained[0.0][name] + 0.25 * before, atol=1e-5), name


def test_the_lower_half_is_trained_on_request_and_its_word_vectors_are_not(
    examples: list[Example], tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    recipe = RECIPE.model_copy(update={"lower_rate": 1e-3})
    before, tokens = halves()[0].state_dict(), ApiTokens(Tokenizer.from_file(str(TOKENIZER)))
    whole = trainer(examples, tokens, tmp_path / "one", recipe)
    assert whole.train(lambda step: None)
    changed = {name for name, weight in whole.lower.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed
    assert all(name.startswith("layers.") for name in changed)
    assert not trainer(examples, tokens, tmp_path / "two", recipe).train(lambda step: None, lambda done: done == 3)
    second = trainer(examples, tokens, tmp_path / "two", recipe)
    assert second.train(lambda step: None)
    for name, weight in whole.lower.state_dict().items():
        assert torch.equal(weight, second.lower.state_dict()[name]), name


def test_units_that_are_trained_are_those_that_are_served(examples: list[Example]) -> None:
    lower, tokenizer = halves()[0].eval(), Tokenizer.from_file(str(TOKENIZER))
    tokens = ApiTokens(tokenizer)
    feed = Feed([], examples, tokens, tokenizer, RECIPE)
    example = examples[0]
    batch = collate([feed.prepare(example, random.Random(1), keep=True)], tokens)

    class Served:
        """The same lower half, asked as the service asks it."""

        dimension, name = 384, "served"

        def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
            read = tokenizer.encode(text)
            real = np.array(read.special_tokens_mask) == 0
            ids = torch.tensor([read.ids])
            vectors = lower(ids, torch.ones_like(ids))[0].numpy()
            offsets = [offset for offset, keep in zip(read.offsets, real, strict=True) if keep]
            return TokenEncoding(vectors=vectors[real], offsets=offsets, pooled=vectors.mean(axis=0))

    with torch.inference_mode():
        trained = lower.units(batch.texts, batch.inputs.units)
        served = [encode(tokens.of(api).profile, cast(Encoder, Served())) for api in example.candidates]
    wanted = [part for one in served for part in (one.vectors[:1], one.head, one.vectors[1:])]
    assert np.allclose(trained.numpy(), np.concatenate(wanted), atol=5e-3)


@pytest.mark.parametrize("first", [0, 5, 20])
def test_other_processes_prepare_the_same_batches(first: int, examples: list[Example]) -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER))

    def made(processes: int) -> list[Batch]:
        feed = Feed([], examples, ApiTokens(tokenizer), tokenizer, RECIPE)
        return list(islice(feed.batches(first, processes), 40))

    for one, other in zip(made(0), made(2), strict=True):
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.inputs.units, other.inputs.units)
        assert torch.equal(one.texts, other.texts)


def test_a_thread_that_asked_faiss_trains_on_all_processors(
    examples: list[Example], encodings: ApiEncodings, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    assert trainer(examples, encodings, tmp_path).train(lambda step: None)
    assert torch.get_num_threads() == os.cpu_count()


def test_it_learns_a_few_requests_by_heart(examples: list[Example], encodings: ApiEncodings, tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"steps": 300, "batch": 8, "rate": 3e-3, "encoder_rate": 5e-4, "few": 0})
    few = examples[:8]
    feed = Feed([], few, encodings, Tokenizer.from_file(str(TOKENIZER)), recipe)
    lower, network = halves()
    made = Trainer(network, lower, recipe, feed.batches, tmp_path, "data", torch.device("cpu"))
    before = made.measure(feed.all(few))
    made.train(lambda step: None)
    after = made.measure(feed.all(few))
    assert after["source"] > 90 > before["source"]
    assert after["span"] > before["span"] + 30


@pytest.mark.parametrize("most", [1, 3])
def test_what_is_exported_says_what_the_network_says(
    most: int, examples: list[Example], encodings: ApiEncodings, tmp_path: Path
) -> None:
    (lower, net), tokenizer = halves(), Tokenizer.from_file(str(TOKENIZER))
    write_lower(lower, tokenizer, tmp_path)
    write_network(net.eval(), 384, tmp_path)
    example = next(one for one in examples if len({call.api for call in one.calls}) == 1)
    needed = {call.api for call in example.calls}
    others = [api for api in example.candidates if api.id not in needed]
    example = replace(example, candidates=(*(example.api(api) for api in needed), *others)[:most], scores=None)
    read = [encodings.of(api) for api in example.candidates]
    features = [[0.0] * FEATURES] * len(read)
    reading = Reader(tmp_path).read(example.query, read, features)
    feed = Feed([], examples, encodings, tokenizer, RECIPE)
    batch = to_device(collate([feed.prepare(example, random.Random(1), keep=True)]), torch.device("cpu"))
    with torch.inference_mode():
        expected = net(*batch.inputs._replace(read=lower(batch.ids, batch.inputs.mask)))
    for name, logits in zip(OUTPUTS, expected, strict=True):
        assert reading.logits[name].shape == tuple(logits.shape[1:])
        assert np.allclose(reading.logits[name], logits[0].numpy(), atol=0.35), name  # 8-bit products


def test_a_run_goes_further_from_what_was_exported(tmp_path: Path) -> None:
    (below, earlier), (start, later) = halves(), halves()
    with torch.no_grad():
        for weight in (*earlier.parameters(), *below.parameters()):
            weight.add_(0.02 * torch.randn_like(weight))
    write_network(earlier, 384, tmp_path)
    write_lower(below, Tokenizer.from_file(str(TOKENIZER)), tmp_path)
    start_from_export(later, start, 384, tmp_path)
    theirs = dict(earlier.named_parameters()) | dict(below.named_parameters())
    for name, weight in (*later.named_parameters(), *start.named_parameters()):
        step = theirs[name].abs().max() / 60  # 7 bits of the largest number
        assert torch.allclose(weight, theirs[name], atol=float(step) + 1e-6), name
    torch.manual_seed(2)
    with pytest.raises(CheckpointError, match="cannot start from this export"):
        start_from_export(halves(Sizes(lower=1, width=64, layers=1, heads=2, inner=64))[1], start, 384, tmp_path)
    (tmp_path / "planner.onnx").write_bytes(b"half a fi")
    with pytest.raises(CheckpointError, match="cannot start"):
        start_from_export(later, start, 384, tmp_path)


def test_a_directory_without_a_planner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"planner\.onnx"):
        Reader(tmp_path)


def test_a_run_goes_further_from_weights_of_a_smaller_head(tmp_path: Path) -> None:
    earlier, later = torch.nn.Linear(2, 3), torch.nn.Linear(2, 5)
    torch.save({"model": earlier.state_dict()}, tmp_path / CHECKPOINT)
    new = later.weight[3:].clone()
    start(later, tmp_path)
    assert torch.equal(later.weight[:3], earlier.weight)
    assert torch.equal(later.weight[3:], new)
    with pytest.raises(CheckpointError, match="cannot start"):
        start(torch.nn.Linear(4, 5), tmp_path)
