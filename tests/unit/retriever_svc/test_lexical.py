"""BM25: the scores of an independent implementation, and after any changes those of an index made anew."""

import bm25s
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine.lexical import K1, B, LexicalIndex

WORDS = [f"w{number}" for number in range(12)]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)


def scores_of(index: LexicalIndex) -> np.ndarray:
    """Of every single word, and of all of them."""
    return np.stack([index.scores(words) for words in ([word] for word in WORDS)] + [index.scores(WORDS)])


@given(st.lists(TEXTS, min_size=1, max_size=20).filter(any))
def test_scores_are_those_of_bm25s(texts: list[str]) -> None:
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in text.split()] for text in texts]
    other = bm25s.BM25(k1=K1, b=B)
    other.index((ids, vocabulary), show_progress=False)
    index = LexicalIndex(texts)
    for words in (WORDS[:1], WORDS[2:5], [*WORDS, *WORDS, "unknown"]):
        known = [vocabulary[word] for word in dict.fromkeys(words) if word in vocabulary]
        expected = other.get_scores_from_ids(known) if known else np.zeros(len(texts))
        assert np.allclose(index.scores(words), expected, rtol=1e-5, atol=1e-6)


@given(st.lists(TEXTS, max_size=12), st.data())
def test_changes_leave_what_an_index_made_anew_would_be(texts: list[str], data: st.DataObject) -> None:
    index = LexicalIndex(texts)
    for _ in range(3):
        keep = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
        after: list[tuple[int, str]] = [(place, texts[place]) for place, kept in enumerate(keep) if kept]
        for text in data.draw(st.lists(TEXTS, max_size=4)):
            after.insert(data.draw(st.integers(0, len(after))), (-1, text))
        texts = [text for _, text in after]
        origins = np.array([place for place, _ in after], np.int64)
        before, expected_before = index, scores_of(index)
        index = index.with_changes(origins, [text for place, text in after if place < 0])
        assert np.array_equal(scores_of(index), scores_of(LexicalIndex(texts)))
        assert np.array_equal(scores_of(before), expected_before), "an index in use does not change"
        assert np.array_equal(scores_of(LexicalIndex.of_arrays(index.arrays())), scores_of(index))


@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=20))
def test_scores_over_a_part_are_those_of_an_index_of_the_part(documents: list[tuple[str, bool]]) -> None:
    mask = np.array([inside for _, inside in documents], bool)
    index = LexicalIndex([text for text, _ in documents])
    scores = scores_of(index.within(mask))
    assert np.array_equal(scores[:, mask], scores_of(LexicalIndex([text for text, inside in documents if inside])))
    assert not scores[:, ~mask].any()


def test_words_that_nobody_has_any_more_are_forgotten() -> None:
    index = LexicalIndex(["lion tiger bear", "giraffe"])
    for number in range(20):
        index = index.with_changes(np.array([0, -1]), [f"animal{number}"])
    assert len(bytes(index.arrays()["vocabulary"]).split()) < 12
    assert index.scores(["animal19"]).tolist()[1] > 0 == index.scores(["animal3"]).max()
