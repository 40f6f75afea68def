"""Word search: BM25 (Robertson and Zaragoza 2009, Lucene's variant) over all APIs at once."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s
import numpy as np

from services.encoder import Vectors

K1 = 1.5
B = 0.75


class LexicalIndex:
    """Immutable. Scores are by position in ``documents``.

    Args:
        documents: for each API, its words separated by blanks (see :func:`texts.words`).
    """

    def __init__(self, documents: Sequence[str]) -> None:
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in text.split()] for text in documents]
        self._vocabulary = vocabulary
        self._size = len(documents)
        self._bm25 = bm25s.BM25(k1=K1, b=B)
        if vocabulary:
            self._bm25.index((ids, vocabulary), show_progress=False)

    def scores(self, words: Sequence[str]) -> Vectors:
        """BM25 of every API for these words, each word counted once: (n,) float32, 0 where no word occurs."""
        known = [self._vocabulary[word] for word in dict.fromkeys(words) if word in self._vocabulary]
        if not known:
            return np.zeros(self._size, dtype=np.float32)
        return np.asarray(self._bm25.get_scores_from_ids(known), dtype=np.float32)
