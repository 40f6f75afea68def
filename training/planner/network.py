"""The network of the compact planner: a request read once, met by the items of its candidate APIs.

One pass of the sentence encoder gives the request's tokens; it is trained. Items (APIs, parameters, options, output
fields; see ``backends.compact.items``) come as vectors that are made once for each API by the encoder that ships, which
is not. Two layers let every item attend to the request's tokens, and to the other items of its API; APIs attend to each
other, so that of two that do the same only one is called. What is asked of the outcome:

- of an API, whether it is called and how often;
- of a parameter, where its value comes from: nowhere, characters of the request, an option, true, false, another call;
- of a parameter and each token, whether its value starts and ends there;
- of a text parameter, in which form its value is written (see ``backends.compact.forms``);
- of an option, whether it is the one; of an output, whether it answers the request;
- of a parameter and an output, whether the one gets its value from the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from planner_svc.backends.compact.forms import Form
from planner_svc.backends.compact.inputs import FEATURES, Origin
from planner_svc.backends.compact.items import SHAPES, Kind
from planner_svc.backends.compact.looks import LOOKS

COUNTS = 4
"""A call is made once, twice, three times, or more often."""


class Inputs(NamedTuple):
    """B requests of T tokens with M items, padded.

    Attributes:
        ids: (B, T) token ids.
        mask: (B, T) 1 where there is a token.
        looks: (B, T, LOOKS) how it looks.
        vectors: (B, M, d) the items.
        kind: (B, M) :class:`Kind`; -1 where there is no item.
        shape: (B, M, SHAPES) bits.
        owner: (B, M) number of the API among the candidates; -1 where there is no item.
        parent: (B, M) of an option the place of its parameter, else its own place.
        features: (B, M, FEATURES) of APIs, else 0.
        matches: (B, M, T) 1 where a token is one of an item's own words.
    """

    ids: Tensor
    mask: Tensor
    looks: Tensor
    vectors: Tensor
    kind: Tensor
    shape: Tensor
    owner: Tensor
    parent: Tensor
    features: Tensor
    matches: Tensor


class Outputs(NamedTuple):
    """Logits: see the module.

    ``call``, ``option`` and ``answer`` are (B, M); ``count`` (B, M, COUNTS); ``source`` (B, M, Origin); ``form`` (B, M,
    Form); ``start`` and ``end`` (B, M, T); ``reference`` (B, M, M), from parameter to output.
    """

    call: Tensor
    count: Tensor
    source: Tensor
    form: Tensor
    start: Tensor
    end: Tensor
    option: Tensor
    reference: Tensor
    answer: Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    """Width of the layers over items, their number, heads, and the width of their feed-forward parts."""

    width: int = 256
    layers: int = 3
    heads: int = 4
    inner: int = 512


class Network(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """See the module.

    Args:
        encoder: a transformer that takes ``input_ids`` and ``attention_mask`` and gives ``last_hidden_state``.
        dimension: of its tokens, and of the items.
        sizes: of what is on top.
    """

    def __init__(self, encoder: nn.Module, dimension: int, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.encoder = encoder
        self.tokens = nn.Linear(dimension, width)
        self.looks = nn.Linear(LOOKS, width, bias=False)
        nn.init.zeros_(self.looks.weight)
        self.items = nn.Linear(dimension, width)
        self.kinds = nn.Embedding(len(Kind), width)
        self.shapes = nn.Linear(SHAPES, width, bias=False)
        self.features = nn.Linear(FEATURES, width, bias=False)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.back = Attention(sizes)
        self.norm = nn.LayerNorm(width)
        self.call = _head(width, 1)
        self.count = _head(width, COUNTS)
        self.source = _head(width, len(Origin))
        self.form = _head(width, len(Form))
        self.answer = _head(width, 1)
        self.option = _head(2 * width, 1)
        self.start, self.end = Pointer(width), Pointer(width)
        self.consumer, self.producer = nn.Linear(width, width), nn.Linear(width, width)
        self.same_words = nn.Parameter(torch.zeros(1))

    def forward(self, *inputs: Tensor) -> Outputs:
        """The logits of :class:`Inputs`."""
        given = Inputs(*inputs)
        read = self.encoder(input_ids=given.ids, attention_mask=given.mask).last_hidden_state
        tokens = self.tokens(read) + self.looks(given.looks)
        items = self.items(given.vectors) + self.kinds(given.kind.clamp(min=0)) + self.shapes(given.shape)
        items = items + self.features(given.features)
        there = (given.mask > 0)[:, None, :]
        related = _related(given)
        signs = torch.stack([given.matches, _unit(given.vectors) @ _unit(read).transpose(1, 2)])
        for number, layer in enumerate(self.layers):
            items = layer(items, tokens, there, signs, related)
            if not number:
                tokens = self.norm(tokens + self.back(tokens, items, (given.kind >= 0)[:, None, :], None))
        return self._asked(items, tokens, signs, given)

    def _asked(self, items: Tensor, tokens: Tensor, signs: Tensor, given: Inputs) -> Outputs:
        parents = torch.gather(items, 1, given.parent[:, :, None].expand_as(items))
        said = given.matches.amax(dim=2)
        reference = self.consumer(items) @ self.producer(items).transpose(1, 2) / items.shape[-1] ** 0.5
        alike = _unit(given.vectors)
        return Outputs(
            call=self.call(items).squeeze(-1),
            count=self.count(items),
            source=self.source(items),
            form=self.form(items),
            start=self.start(items, tokens, signs, given),
            end=self.end(items, tokens, signs, given),
            option=self.option(torch.cat([items, parents], dim=2)).squeeze(-1) + self.same_words * said,
            reference=reference + 4 * alike @ alike.transpose(1, 2),
            answer=self.answer(items).squeeze(-1),
        )


class Layer(nn.Module):  # type: ignore[misc]
    """Items attend to the request's tokens, then to each other."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.request, self.others = Attention(sizes, signed=True), Attention(sizes)
        self.inner = nn.Sequential(nn.Linear(sizes.width, sizes.inner), nn.GELU(), nn.Linear(sizes.inner, sizes.width))
        self.norms = nn.ModuleList([nn.LayerNorm(sizes.width) for _ in range(3)])

    def forward(self, items: Tensor, tokens: Tensor, there: Tensor, signs: Tensor, related: Tensor) -> Tensor:
        """(B, M, w) items that have read (B, T, w) tokens and the items related."""
        items = self.norms[0](items + self.request(items, tokens, there, signs))
        items = self.norms[1](items + self.others(items, items, related, None))
        result: Tensor = self.norms[2](items + self.inner(items))
        return result


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention; where ``signed``, each head likes an item's own words, and like ones, in its own way."""

    def __init__(self, sizes: Sizes, signed: bool = False) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key_value = nn.Linear(sizes.width, 2 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)
        likings = torch.stack([torch.linspace(0, 3, sizes.heads), torch.linspace(6, 0, sizes.heads)])
        self.liking = nn.Parameter(likings) if signed else None

    def forward(self, asking: Tensor, asked: Tensor, allowed: Tensor, signs: Tensor | None) -> Tensor:
        """(B, q, w) from (B, q, w) and (B, k, w), where ``allowed`` (B, 1 or q, k); ``signs`` (2, B, q, k)."""
        batch, length, width = asking.shape
        query = self.query(asking).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(asked).view(batch, asked.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        if signs is not None and self.liking is not None:
            for liking, sign in zip(self.liking, signs, strict=True):
                logits = logits + liking[None, :, None, None] * sign[:, None]
        logits = logits.masked_fill(~allowed[:, None], -1e4)
        read = (logits.softmax(dim=-1) @ value).transpose(1, 2).reshape(batch, length, width)
        result: Tensor = self.out(read)
        return result


class Pointer(nn.Module):  # type: ignore[misc]
    """How much an item points at each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.item, self.token = nn.Linear(width, width), nn.Linear(width, width)
        self.liking = nn.Parameter(torch.zeros(2))

    def forward(self, items: Tensor, tokens: Tensor, signs: Tensor, given: Inputs) -> Tensor:
        """(B, M, T)."""
        logits = self.item(items) @ self.token(tokens).transpose(1, 2) / items.shape[-1] ** 0.5
        logits = logits + self.liking[0] * signs[0] + self.liking[1] * signs[1]
        return logits.masked_fill((given.mask == 0)[:, None, :], -1e4)


def _related(given: Inputs) -> Tensor:
    """(B, M, M) whose items look at each other: those of one API, and APIs among themselves."""
    owner, there = given.owner, given.kind >= 0
    same = owner[:, :, None] == owner[:, None, :]
    apis = given.kind == Kind.API
    both = same | (apis[:, :, None] & apis[:, None, :])
    # A place without an item looks at itself, lest its row be empty.
    empty = ~there[:, :, None] & ~there[:, None, :]
    return (both & there[:, :, None] & there[:, None, :]) | empty


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


def _head(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, outputs))
