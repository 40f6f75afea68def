"""How a request is read: once, its clauses as parts of the whole."""

import numpy as np
import pytest

from retriever_svc.engine.clauses import split_clauses
from retriever_svc.engine.ranking import whole
from retriever_svc.engine.scoring import encode_clauses
from services.encoder import Encoder

QUERY = "List the boards of the team, then send a text to Ola"


def test_each_clause_is_near_what_it_says_by_itself(encoder: Encoder) -> None:
    clauses = (*split_clauses(QUERY), whole(QUERY))
    assert len(clauses) == 3
    read, alone = encode_clauses(encoder, clauses), encoder.encode([clause.text for clause in clauses])
    assert np.linalg.norm(read, axis=1) == pytest.approx(1, abs=1e-4)
    assert (read[:2] @ alone[:2].T).argmax(axis=1).tolist() == [0, 1]
    assert (read[-1] == alone[-1]).all()


def test_a_request_of_one_clause_is_read_as_it_stands(encoder: Encoder) -> None:
    clauses = (whole("List the boards"),)
    assert (encode_clauses(encoder, clauses) == encoder.encode(["List the boards"])).all()


def test_what_the_encoder_cuts_off_is_read_by_itself(encoder: Encoder) -> None:
    query = f"List the boards {'of the very best team ' * 80}, then send a text to Ola"
    clauses = (*split_clauses(query), whole(query))
    last = clauses[-2]
    assert last.text == "send a text to Ola"
    assert (encode_clauses(encoder, clauses)[-2] == encoder.encode([last.text])[0]).all()


def test_signs_that_are_no_words_have_vectors_too(encoder: Encoder) -> None:
    for query in ("?", "\u200b, and \u200b", "🦁 and 🐯, then 🐻"):
        clauses = (*split_clauses(query), whole(query))
        assert np.isfinite(encode_clauses(encoder, clauses)).all()
