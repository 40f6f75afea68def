"""Which fields of a call's answer the request asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner_svc.backends.compact.drafted import Drafted
from planner_svc.backends.compact.items import Encoded, Kind
from planner_svc.reading.answers import Answerer, Place, Question, completed, outputs_of, read_question
from planner_svc.reading.profile import Field
from planner_svc.reading.text import words_of
from services.contracts.api import Candidate, Clause
from services.contracts.base import JsonPath
from services.encoder import Encoder, Vectors


class Asked:
    """Of one request.

    Args:
        query: the request.
        clauses: its parts, as the retriever divided it.
        candidates: with what the retriever says of each of them for each clause.
        encoder: reads the words of a question.
    """

    def __init__(
        self, query: str, clauses: Sequence[Clause], candidates: Sequence[Candidate], encoder: Encoder
    ) -> None:
        self._query = query
        parts = [(clause.start, clause.end) for clause in clauses]
        self._parts = [part for part in parts if len(parts) == 1 or part != (min(parts)[0], max(p[1] for p in parts))]
        self._scores = {one.api.id: one.clause_scores for one in candidates}
        self._encoder = encoder
        self._read: dict[str, Vectors] = {}

    def outputs(self, api: Encoded, call: Drafted, said: Sequence[Field]) -> list[tuple[str, JsonPath]]:
        """Names and paths of the fields that are asked for; the whole answer, ``("", ())``, where none stands out.

        Args:
            api: what is called.
            call: with its arguments.
            said: fields that the network says are asked for: they are.
        """
        question = self._question(api, call)
        places = {item.field: row for row, item in enumerate(api.items) if item.kind is Kind.OUTPUT}
        numbers = {id(field): number for number, field in enumerate(api.profile.fields)}

        def likeness(text: str, field: Field) -> float:
            row = places.get(numbers[id(field)])
            return 0.0 if row is None else float(self._vector(text) @ api.vectors[row].astype(np.float32))

        fields = completed(api.profile, said) or Answerer(likeness).choose(api.profile, call.places, question)
        return outputs_of(fields, plural=question.plural)

    def _question(self, api: Encoded, call: Drafted) -> Question:
        """What the part of the request asks that the call is made for; its arguments' words are not what is asked."""
        start, end = self._part(api, call)
        words = words_of(self._query[start:end], start)
        asking = [
            word for word in words if not any(first < word.end and word.start < last for first, last in call.places)
        ]
        return read_question(self._query[start:end], asking, start)

    def _part(self, api: Encoded, call: Drafted) -> Place:
        """The clause that says most of the call's arguments; else the one that the retriever found its API for."""
        whole = (0, len(self._query))
        if not self._parts:
            return whole
        shared = [sum(max(0, min(e, last) - max(s, first)) for first, last in call.places) for s, e in self._parts]
        if max(shared):
            return self._parts[int(np.argmax(shared))]
        scores = self._scores.get(api.profile.api.id, ())[: len(self._parts)]
        return self._parts[int(np.argmax(scores))] if scores else whole

    def _vector(self, text: str) -> Vectors:
        if text not in self._read:
            self._read[text] = self._encoder.encode([text])[0]
        return self._read[text]
