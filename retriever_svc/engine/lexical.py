"""Word search: BM25 (Robertson and Zaragoza 2009, Lucene's variant) over all APIs at once.

A library that precomputes all scores has to read every text again when one changes, because each score depends on the
number of texts, on their mean length, and on how many of them contain the word. This index stores the counts and reads
each text once. A search computes the scores of its words from them. So the scores over any part of the texts equal
those of an index of this part alone, bit for bit (docs/adr/0005-own-bm25.md).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.encoder import Vectors

K1 = 1.5
B = 0.75

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True)
class _Counts:
    """How often each word occurs at each position: a row for each such pair, ordered by word, then by position.

    Attributes:
        words: (m,) numbers of words.
        places: (m,) positions.
        counts: (m,) occurrences of the word at the position.
        lengths: (n,) number of words at each position, repeated ones included.
    """

    words: NDArray[np.int32]
    places: NDArray[np.int32]
    counts: NDArray[np.uint16]
    lengths: NDArray[np.int32]


class LexicalIndex:
    """Immutable. Scores are by position in ``documents``.

    Args:
        documents: for each API, its words separated by blanks (see :func:`texts.words`).
    """

    def __init__(self, documents: Sequence[str] = ()) -> None:
        self._vocabulary: dict[str, int] = {}
        self._mask: Mask | None = None
        self._fill(_count(documents, self._vocabulary))

    def with_changes(self, origins: Positions, added: Sequence[str]) -> LexicalIndex:
        """A new index for changed documents, made from this one: only added documents are read.

        Args:
            origins: (n,) for each position of the new index its position in this one, or -1 if it is added. Documents
                of this index must keep their order.
            added: the added documents, in the order of their positions.
        """
        if not added and len(origins) == len(self._lengths):
            return self
        other = LexicalIndex.__new__(LexicalIndex)
        other._vocabulary, other._mask = self._vocabulary | {}, None
        new = _count(added, other._vocabulary)
        other._fill(_merge(self._counts(), new, origins))
        other._forget_words()
        return other

    def within(self, mask: Mask) -> LexicalIndex:
        """The index as if only the documents of the mask (n,) existed. It is for searches; the counts are shared."""
        other = LexicalIndex.__new__(LexicalIndex)
        other.__dict__.update(self.__dict__)
        other._mask = mask
        other._measure()
        return other

    def scores(self, words: Sequence[str]) -> Vectors:
        """BM25 scores of all APIs for these words, each word counted once: (n,) float32, 0 if no word occurs."""
        scores = np.zeros(len(self._lengths), dtype=np.float32)
        for word in dict.fromkeys(words):
            number = self._vocabulary.get(word)
            if number is None:
                continue
            found = slice(self._starts[number], self._starts[number + 1])
            places, counts = self._places[found], self._number[found]
            if self._mask is not None:
                inside = self._mask[places]
                places, counts = places[inside], counts[inside]
            rarity = np.log1p((self._total - len(places) + 0.5) / (len(places) + 0.5)).astype(np.float32)
            scores[places] += rarity * (counts / (counts + self._room[places]))  # each position occurs once per word
        return scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole index as arrays, for a file."""
        words = "\n".join(self._vocabulary).encode("utf-8", "surrogatepass")
        return {
            "vocabulary": np.frombuffer(words, np.uint8),
            "starts": self._starts,
            "places": self._places,
            "counts": self._number,
            "lengths": self._lengths,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LexicalIndex:
        """The index of what :meth:`arrays` returned. The arrays are not copied and may be memory-mapped."""
        index = cls.__new__(cls)
        words = arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass")
        index._vocabulary = {word: number for number, word in enumerate(words.split("\n") if words else ())}
        index._starts, index._places, index._number = arrays["starts"], arrays["places"], arrays["counts"]
        index._lengths, index._mask = arrays["lengths"], None
        index._measure()
        return index

    def _fill(self, counts: _Counts) -> None:
        holders = np.bincount(counts.words, minlength=len(self._vocabulary))
        self._starts = np.concatenate([[0], np.cumsum(holders)])
        self._places, self._number, self._lengths = counts.places, counts.counts, counts.lengths
        self._measure()

    def _measure(self) -> None:
        """Compute the statistics of all documents that are searched."""
        lengths = self._lengths if self._mask is None else self._lengths[self._mask]
        mean = lengths.mean() if lengths.any() else 1.0
        self._total = len(lengths)
        self._room = (K1 * (1 - B + B * self._lengths / mean)).astype(np.float32)

    def _counts(self) -> _Counts:
        words = np.repeat(np.arange(len(self._vocabulary), dtype=np.int32), np.diff(self._starts))
        return _Counts(words, self._places, self._number, self._lengths)

    def _forget_words(self) -> None:
        """Drop words that no document contains any more, once they are more than half of all words."""
        used = np.diff(self._starts) > 0
        if 2 * np.count_nonzero(used) >= len(used):
            return
        kept = [word for word, is_used in zip(self._vocabulary, used.tolist(), strict=True) if is_used]
        self._vocabulary = {word: number for number, word in enumerate(kept)}
        self._starts = np.concatenate([self._starts[:-1][used], self._starts[-1:]])


def _count(documents: Sequence[str], vocabulary: dict[str, int]) -> _Counts:
    """Count the words of documents; new ones are added to the vocabulary."""
    numbers, lengths = array("i"), array("i")
    for document in documents:
        words = document.split()
        numbers.extend([vocabulary.setdefault(word, len(vocabulary)) for word in words])
        lengths.append(len(words))
    sizes = np.array(lengths, np.int32)
    places = np.repeat(np.arange(len(sizes)), sizes)
    pairs, counts = np.unique(np.array(numbers, np.int64) * max(len(sizes), 1) + places, return_counts=True)
    words_of, places_of = np.divmod(pairs, max(len(sizes), 1))
    return _Counts(
        words_of.astype(np.int32), places_of.astype(np.int32), np.minimum(counts, _MOST).astype(np.uint16), sizes
    )


def _merge(old: _Counts, new: _Counts, origins: Positions) -> _Counts:
    """The kept rows of the old counts, at their new positions, and the new counts."""
    kept, added = np.flatnonzero(origins >= 0), np.flatnonzero(origins < 0)
    moved = np.full(len(old.lengths), -1, np.int32)
    moved[origins[kept]] = kept
    places = moved[old.places]
    staying = places >= 0
    words = np.concatenate([old.words[staying], new.words])
    places = np.concatenate([places[staying], added.astype(np.int32)[new.places]])
    counts = np.concatenate([old.counts[staying], new.counts])
    # Both runs are sorted: a stable sort merges them in one pass.
    order = np.argsort(words.astype(np.int64) * max(len(origins), 1) + places, kind="stable")
    lengths = np.empty(len(origins), np.int32)
    lengths[kept], lengths[added] = old.lengths[origins[kept]], new.lengths
    return _Counts(words[order], places[order], counts[order], lengths)
