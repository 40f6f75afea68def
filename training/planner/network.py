"""The network of the compact planner: reads a request together with its candidate APIs.

The lower half is the first layers of a sentence encoder. It reads the request, and each API separately, so that each
API is read only once (see ``backends.compact.items``); in training, too, if it is not trained. The upper half is the
encoder's other layers, which are trained. There an API's units attend to each other and to the request's tokens. The
request's tokens attend to each other and to every API. So each API is read in the context of the request and the
request in the context of all APIs, at the cost of one text that contains all of them.
Two more layers let items (APIs, parameters, options, output fields) attend to those of their API, and APIs to each
other, so that only one of two equivalent APIs is called. The heads predict:

- for the request, how many APIs are called;
- for an API, whether it is called and how often;
- for a parameter, the source of its value: none, characters of the request, an option, true, false, another call;
- for a parameter and each token, whether its value starts and ends there;
- for a text parameter, the form in which its value is written (see ``backends.compact.forms``);
- for an option, whether it is chosen; for an output, whether it answers the request;
- for a parameter and an output, whether the parameter gets its value from the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from planner_svc.backends.compact.forms import Form
from planner_svc.backends.compact.inputs import FEATURES, WORD, Origin
from planner_svc.backends.compact.items import SHAPES, Kind
from planner_svc.backends.compact.sets import MOST
from planner_svc.backends.compact.surface_features import SURFACE_FEATURES

COUNTS = 4
"""Classes: a call is made once, twice, three times, or more often."""
SETS = MOST + 1
"""Classes: no API is called, one, two ... or ``MOST`` and more."""
_PARTS = 4
"""Parts that the texts of APIs are read in."""


class Inputs(NamedTuple):
    """B requests of T tokens with M items, padded; their A APIs in sequence, with N units in total.

    Attributes:
        read: (B, T, d) the request's tokens, as output by the lower half.
        mask: (B, T) 1 for a token, 0 for padding.
        looks: (B, T, SURFACE_FEATURES) features of each token's spelling.
        units: (N, d) of APIs, as output by the lower half: an API, its own words, its other items.
        unit_kind: (N,) :class:`Kind`, or ``WORD``.
        unit_shape: (N, SHAPES) bits.
        rows: (A, U) the indices of each API's units, the API itself first; -1 for padding.
        request: (A,) the request that each API is a candidate of.
        tops: (B, C) the indices of the units that represent the request's candidates; -1 for padding.
        place: (B, M) each item's index among the units; -1 for padding.
        kind: (B, M) :class:`Kind`; -1 for padding.
        shape: (B, M, SHAPES) bits.
        owner: (B, M) number of the API among the candidates; -1 for padding.
        parent: (B, M) for an option the index of its parameter among the items, else its own index.
        features: (B, M, FEATURES) of APIs, else 0.
        matches: (B, M, T) 1 where a token is one of an item's own words.
    """

    read: Tensor
    mask: Tensor
    looks: Tensor
    units: Tensor
    unit_kind: Tensor
    unit_shape: Tensor
    rows: Tensor
    request: Tensor
    tops: Tensor
    place: Tensor
    kind: Tensor
    shape: Tensor
    owner: Tensor
    parent: Tensor
    features: Tensor
    matches: Tensor


class Outputs(NamedTuple):
    """Logits, see the module's docstring.

    ``size`` is (B, SETS); ``call``, ``option`` and ``answer`` are (B, M); ``count`` (B, M, COUNTS); ``source``
    (B, M, Origin); ``form`` (B, M, Form); ``start`` and ``end`` (B, M, T); ``reference`` (B, M, M), from parameter to
    output.
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
    size: Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    """Layers in the encoder's lower half; width, number, heads and feed-forward width of the layers over items."""

    lower: int = 2
    width: int = 256
    layers: int = 2
    heads: int = 4
    inner: int = 512


class Lower(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """The lower half, with the encoder's weights.

    Args:
        encoder: Hugging Face's ``BertModel``.
        layers: how many of its layers.
    """

    def __init__(self, encoder: nn.Module, layers: int) -> None:
        super().__init__()
        self.embeddings = encoder.embeddings
        self.layers = nn.ModuleList([JointLayer(one, 0.0) for one in encoder.encoder.layer[:layers]])

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, T, d) from (B, T) ids and mask."""
        read: Tensor = self.embeddings(input_ids=ids)
        for layer in self.layers:
            read = layer.alone(read, mask)
        return read

    def units(self, texts: Tensor, ranges: Tensor) -> Tensor:
        """(N, d) units of APIs, from (C, L) their texts and (N, 3) the text, first token and end of each unit.

        A unit is the mean of its tokens, scaled to their mean length, as ``backends.compact.items`` computes it. Texts
        are read in parts, each as wide as its longest one: they are sorted, and padding is half of the whole.
        """
        parts = texts.split(max(1, -(-len(texts) // _PARTS)))
        parts = [part[:, : max(1, int((part > 0).sum(dim=1).max()))] for part in parts]
        read = torch.cat([self(part, part > 0).float().flatten(0, 1) for part in parts])
        read = torch.cat([read, torch.linalg.vector_norm(read, dim=1, keepdim=True)], dim=1)
        text, first, end = ranges.long().unbind(dim=1)
        widths = torch.cat([text.new_full((len(part),), part.shape[1]) for part in parts])
        start = (widths.cumsum(dim=0) - widths)[text] + first
        # A cumulative sum would be less code, but a GPU adds the tokens of a column one after the other.
        counts = end - first
        unit = torch.repeat_interleave(counts)
        token = torch.arange(len(unit), device=unit.device) + (start - counts.cumsum(dim=0) + counts)[unit]
        sums = read.new_zeros(len(ranges), read.shape[1]).index_add(0, unit, read.index_select(0, token))
        whole = sums / counts[:, None]
        mean, length = whole[:, :-1], whole[:, -1:]
        return mean * length / torch.linalg.vector_norm(mean, dim=1, keepdim=True).clamp(min=1e-9)


class Halves(nn.Module):  # type: ignore[misc]
    """Both halves of the planner's network, as a checkpoint holds them."""

    def __init__(self, network: Network, lower: Lower) -> None:
        super().__init__()
        self.network, self.lower = network, lower


class Network(nn.Module):  # type: ignore[misc]
    """The network; see the module's docstring.

    Args:
        encoder: Hugging Face's ``BertModel``, whose layers from ``sizes.lower`` on are the upper half.
        dimension: of its tokens.
        sizes: of the parts.
        dropout: of what each part of the upper half adds.
    """

    def __init__(self, encoder: nn.Module, dimension: int, sizes: Sizes, dropout: float = 0.1) -> None:
        super().__init__()
        width = sizes.width
        self.upper = nn.ModuleList([JointLayer(one, dropout) for one in encoder.encoder.layer[sizes.lower :]])
        self.token_looks = _silent(nn.Linear(SURFACE_FEATURES, dimension, bias=False))
        self.unit_kinds = _silent(nn.Embedding(WORD + 1, dimension))
        self.unit_shapes = _silent(nn.Linear(SHAPES, dimension, bias=False))
        self.tokens = nn.Linear(dimension, width)
        self.looks = _silent(nn.Linear(SURFACE_FEATURES, width, bias=False))
        self.items = nn.Linear(dimension, width)
        self.kinds = nn.Embedding(len(Kind), width)
        self.shapes = nn.Linear(SHAPES, width, bias=False)
        self.features = nn.Linear(FEATURES, width, bias=False)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.back = Attention(sizes)
        self.norm = nn.LayerNorm(width)
        self.size = _head(width, SETS)
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
        """Compute the logits for :class:`Inputs`."""
        given = Inputs(*inputs)
        read = given.read + self.token_looks(given.looks)
        units = given.units + self.unit_kinds(given.unit_kind).to(given.units.dtype)
        units = units + self.unit_shapes(given.unit_shape)
        for layer in self.upper:
            read, units = layer(read, units, given)
        known = units[given.place.clamp(min=0)]
        signs = torch.stack([given.matches, _unit(known) @ _unit(read).transpose(1, 2)])
        tokens = self.tokens(read) + self.looks(given.looks)
        items = self.items(_unit(known)) + self.kinds(given.kind.clamp(min=0)) + self.shapes(given.shape)
        items = items + self.features(given.features)
        there = (given.mask > 0)[:, None, :]
        related = _related(given)
        for number, layer in enumerate(self.layers):
            items = layer(items, tokens, there, signs, related)
            if not number:
                tokens = self.norm(tokens + self.back(tokens, items, (given.kind >= 0)[:, None, :], None))
        return self._asked(items, tokens, known, signs, given)

    def _asked(self, items: Tensor, tokens: Tensor, known: Tensor, signs: Tensor, given: Inputs) -> Outputs:
        parents = torch.gather(items, 1, given.parent[:, :, None].expand_as(items))
        said = given.matches.amax(dim=2)
        reference = self.consumer(items) @ self.producer(items).transpose(1, 2) / items.shape[-1] ** 0.5
        alike = _unit(known)
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
            size=self.size(tokens[:, 0]),
        )


class JointLayer(nn.Module):  # type: ignore[misc]
    """A layer of the encoder with its weights, for one text, or for a request and its APIs.

    Args:
        layer: Hugging Face's ``BertLayer``.
        dropout: of what attention and the feed-forward part add.
    """

    def __init__(self, layer: nn.Module, dropout: float) -> None:
        super().__init__()
        attention = layer.attention
        self.heads = attention.self.num_attention_heads
        self.query, self.key, self.value = attention.self.query, attention.self.key, attention.self.value
        self.out, self.out_norm = attention.output.dense, attention.output.LayerNorm
        self.inner, self.outer, self.norm = layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm
        self.dropout = dropout

    def alone(self, read: Tensor, mask: Tensor) -> Tensor:
        """(B, T, d) tokens that attend only to their own text."""
        query, key, value = (self._parted(part(read)) for part in (self.query, self.key, self.value))
        return self._fed(read, _attended(query, key, value, (mask > 0)[:, None, :]))

    def forward(self, read: Tensor, units: Tensor, given: Inputs) -> tuple[Tensor, Tensor]:
        """(B, T, d) tokens and (N, d) units that attend to each other."""
        batch, length, width = read.shape
        whole = torch.cat([read.reshape(batch * length, width), units])
        query, key, value = self.query(whole), self.key(whole), self.value(whole)
        tokens = batch * length

        def of_tokens(part: Tensor) -> Tensor:
            return part[:tokens].reshape(batch, length, width)

        def of_units(part: Tensor, places: Tensor) -> Tensor:
            chosen = part.index_select(0, (tokens + places.clamp(min=0)).reshape(-1))
            return chosen.reshape(*places.shape, width)

        there = given.mask > 0
        seen = torch.cat([there, given.tops >= 0], dim=1)[:, None, :]
        keys, values = (torch.cat([of_tokens(part), of_units(part, given.tops)], dim=1) for part in (key, value))
        asked = _attended(self._parted(of_tokens(query)), self._parted(keys), self._parted(values), seen)

        seen = torch.cat([given.rows >= 0, there[given.request]], dim=1)[:, None, :]
        keys, values = (
            torch.cat([of_units(part, given.rows), of_tokens(part).index_select(0, given.request)], dim=1)
            for part in (key, value)
        )
        asking = of_units(query, given.rows)
        offered = _attended(self._parted(asking), self._parted(keys), self._parted(values), seen)
        # Units have the order of their APIs, so removing the padding restores their order.
        flat = offered.reshape(-1, width).index_select(0, (given.rows >= 0).reshape(-1).nonzero().squeeze(1))
        whole = self._fed(whole, torch.cat([asked.reshape(tokens, width), flat]))
        return whole[:tokens].reshape(batch, length, width), whole[tokens:]

    def _parted(self, part: Tensor) -> Tensor:
        return part.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _fed(self, given: Tensor, attended: Tensor) -> Tensor:
        given = self.out_norm(given + self._dropped(self.out(attended)))
        result: Tensor = self.norm(given + self._dropped(self.outer(functional.gelu(self.inner(given)))))
        return result

    def _dropped(self, added: Tensor) -> Tensor:
        """Dropout with the same mask for all rows: drawing a mask per row costs a tenth of the time."""
        if not self.training or not self.dropout:
            return added
        return added * functional.dropout(torch.ones_like(added[0]), self.dropout)


class Layer(nn.Module):  # type: ignore[misc]
    """Items attend to the request's tokens, then to each other."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.request, self.others = Attention(sizes, signed=True), Attention(sizes)
        self.inner = nn.Sequential(nn.Linear(sizes.width, sizes.inner), nn.GELU(), nn.Linear(sizes.inner, sizes.width))
        self.norms = nn.ModuleList([nn.LayerNorm(sizes.width) for _ in range(3)])

    def forward(self, items: Tensor, tokens: Tensor, there: Tensor, signs: Tensor, related: Tensor) -> Tensor:
        """(B, M, w) items that attended to (B, T, w) tokens and to the related items."""
        items = self.norms[0](items + self.request(items, tokens, there, signs))
        items = self.norms[1](items + self.others(items, items, related, None))
        result: Tensor = self.norms[2](items + self.inner(items))
        return result


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention. If ``signed``, each head learns weights for an item's own words and for similar ones."""

    def __init__(self, sizes: Sizes, signed: bool = False) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key_value = nn.Linear(sizes.width, 2 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)
        likings = torch.stack([torch.linspace(0, 3, sizes.heads), torch.linspace(6, 0, sizes.heads)])
        self.liking = nn.Parameter(likings) if signed else None

    def forward(self, asking: Tensor, asked: Tensor, allowed: Tensor, signs: Tensor | None) -> Tensor:
        """(B, q, w) from (B, q, w) and (B, k, w), with ``allowed`` (B, 1 or q, k) and ``signs`` (2, B, q, k)."""
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
    """Scores each token for each item."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.item, self.token = nn.Linear(width, width), nn.Linear(width, width)
        self.liking = nn.Parameter(torch.zeros(2))

    def forward(self, items: Tensor, tokens: Tensor, signs: Tensor, given: Inputs) -> Tensor:
        """Return scores, (B, M, T)."""
        logits = self.item(items) @ self.token(tokens).transpose(1, 2) / items.shape[-1] ** 0.5
        logits = logits + self.liking[0] * signs[0] + self.liking[1] * signs[1]
        return logits.masked_fill((given.mask == 0)[:, None, :], -1e4)


def _attended(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    """(n, q, d) from (n, heads, q or k, d / heads), with ``allowed`` (n, 1, k)."""
    if query.is_cuda:
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None])
        return seen.transpose(1, 2).flatten(2)
    # On CPUs, the backward pass of scaled_dot_product_attention in bfloat16 takes several times as long.
    logits = (query / query.shape[-1] ** 0.5) @ key.transpose(2, 3)
    barred = (~allowed[:, None]).to(logits.dtype) * -1e4
    return ((logits + barred).softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


def _related(given: Inputs) -> Tensor:
    """(B, M, M) which items attend to each other: those of one API, and APIs among themselves."""
    owner, there = given.owner, given.kind >= 0
    same = owner[:, :, None] == owner[:, None, :]
    apis = given.kind == Kind.API
    both = same | (apis[:, :, None] & apis[:, None, :])
    # Padding attends to itself, so that its row is not empty.
    empty = ~there[:, :, None] & ~there[:, None, :]
    return (both & there[:, :, None] & there[:, None, :]) | empty


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


def _silent(part: nn.Module) -> nn.Module:
    """Set the weights to 0, so that the input has no effect until training gives it one."""
    nn.init.zeros_(part.weight)
    return part


def _head(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, outputs))
