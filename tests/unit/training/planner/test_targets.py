"""What the network should say, and that what it should say decodes to the calls: the two are each other's inverse."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import services
from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.draft_calls import ReferenceArgument
from planner_svc.backends.compact.forms import Form
from planner_svc.backends.compact.inputs import FEATURES, Origin, arrange
from planner_svc.backends.compact.items import Encoded, items_of
from planner_svc.backends.compact.reader import Reading
from planner_svc.backends.compact.sets import MOST
from planner_svc.backends.compact.task import Task
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api
from services.encoder import DEFAULT_MODEL
from tests.unit.planner_svc.worlds import CANCEL_ORDER, CREATE_ORDER, FIND_CUSTOMER, GET_WEATHER, SHOP
from training.planner.examples import (
    Example,
    Label,
    LabelledCall,
    ListLabel,
    Option,
    Output,
    Ref,
    Span,
    Unstated,
    items,
)
from training.planner.synthesis import synthesise
from training.planner.targets import UNKNOWN, Layout, Targets, targets

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
SURE = 12.0


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    folder = Path(services.__file__).parent / "models" / DEFAULT_MODEL
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def encoded(api: Api) -> Encoded:
    profile = read_profile(api)
    own = items_of(profile)
    return Encoded(profile, own, np.zeros((len(own), 4), np.float16), np.zeros((2, 4), np.float16))


def wanted(example: Example, tokenizer: Tokenizer) -> tuple[Layout, Targets]:
    read = [encoded(api) for api in example.candidates]
    layout = Layout([one.profile for one in read], [one.items for one in read])
    return layout, targets(example, layout, tokenizer.encode(example.query).offsets)


def decoder(example: Example, tokenizer: Tokenizer) -> Decoder:
    """Of a network that says just what it should."""
    read, tokens = [encoded(api) for api in example.candidates], tokenizer.encode(example.query)
    _, right = wanted(example, tokenizer)
    inputs = arrange(example.query, tokens.offsets, read, [[0.0] * FEATURES] * len(read))
    reading = Reading(tuple(tokens.offsets), inputs, said(right))
    return Decoder(Task(example.query, read, reading, example.now or NOW, {}))


def decoded(example: Example, tokenizer: Tokenizer) -> Counter[tuple[str, str, str]]:
    """The arguments of the decoded calls."""
    made = decoder(example, tokenizer)
    calls = made.calls([number for number, sure in enumerate(made.called) if sure > 0.5])
    return Counter(
        (example.candidates[call.api].id, name, feed(example.candidates[one.api].id, one.field.path))
        if isinstance(one, ReferenceArgument)
        else (example.candidates[call.api].id, name, str(one.value))
        for call in calls
        for name, one in call.arguments.items()
    )


def said(right: Targets) -> dict[str, Any]:
    """The targets as logits."""
    size = len(right.call)

    def chosen(places: Any, width: int) -> Any:
        logits = np.full((size, width), -SURE, np.float32)
        logits[np.arange(size), np.maximum(places, 0)] = SURE
        return logits

    def yes(marks: Any) -> Any:
        return np.where(marks == 1, SURE, -SURE).astype(np.float32)

    return {
        "call": yes(right.call),
        "count": chosen(right.count, 4),
        "source": chosen(right.source, len(Origin)),
        "form": chosen(right.form, len(Form)),
        "start": yes(right.start),
        "end": yes(right.end),
        "option": yes(right.option),
        "reference": chosen(right.reference, size),
        "answer": yes(right.answer),
        "size": np.where(np.arange(MOST + 1) == right.size, SURE, -SURE).astype(np.float32),
    }


def feed(api: str, path: Any) -> str:
    return f"{api} {[part for part in path if isinstance(part, str)]}"


def asked(example: Example) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for call in example.calls:
        for name, label in call.arguments.items():
            parts = items(label)
            if isinstance(parts[0], Ref):
                value = feed(example.calls[parts[0].call].api, parts[0].path)
            else:
                values = [part.value for part in parts if not isinstance(part, Ref)]
                value = str(values if isinstance(label, ListLabel) else values[0])
            found[call.api, name, value] += 1
    return found


def test_targets_of_a_chain(tokenizer: Tokenizer) -> None:
    query = "Order a lamp and a chair for Nora Berg, express, please"
    lamp, chair, nora = (query.index(word) for word in ("lamp", "chair", "Nora"))
    example = Example(
        id="1",
        source="test",
        query=query,
        candidates=(CREATE_ORDER, GET_WEATHER, FIND_CUSTOMER),
        calls=(
            LabelledCall(FIND_CUSTOMER.id, {"customer_name": Span(nora, nora + 9, "Nora Berg")}),
            LabelledCall(
                CREATE_ORDER.id,
                {
                    "customer_id": Ref(0, ("customer_id",)),
                    "products": ListLabel((Span(lamp, lamp + 4, "lamp"), Span(chair, chair + 5, "chair"))),
                    "express": Option(True),
                    "budget": Unstated(12),
                },
            ),
        ),
        answer=(Output(1, ("total",)),),
    )
    layout, right = wanted(example, tokenizer)
    assert [field.path for field in decoder(example, tokenizer).answers(0)] == [("total",)]
    assert decoder(example, tokenizer).answers(2) == []
    assert [right.call[place] for place in layout.apis] == [1, 0, 1]
    assert right.source[layout.parameters[2, "customer_name"]] == Origin.SPAN
    assert right.source[layout.parameters[0, "customer_id"]] == Origin.REFERENCE
    assert right.reference[layout.parameters[0, "customer_id"]] == layout.outputs[2, ("customer_id",)]
    assert right.start[layout.parameters[0, "products"]].sum() == 2
    assert right.source[layout.parameters[0, "budget"]] == UNKNOWN
    assert right.source[layout.parameters[1, "city"]] == UNKNOWN  # nothing is learnt of what is not called
    arguments = decoded(example, tokenizer)
    assert arguments[CREATE_ORDER.id, "products", "['lamp', 'chair']"] == 1
    assert arguments[CREATE_ORDER.id, "customer_id", feed(FIND_CUSTOMER.id, ("customer_id",))] == 1
    assert arguments[CREATE_ORDER.id, "express", "True"] == 1


def test_an_api_that_is_called_twice(tokenizer: Tokenizer) -> None:
    query = "Weather in Paris and Rome on 2027-05-01 in metric units"
    paris, rome, day, metric = (query.index(word) for word in ("Paris", "Rome", "2027", "metric"))
    shared: dict[str, Label] = {
        "date": Span(day, day + 10, "2027-05-01"),
        "units": Option("metric", metric, metric + 6),
    }
    example = Example(
        id="2",
        source="test",
        query=query,
        candidates=(GET_WEATHER, CANCEL_ORDER),
        calls=(
            LabelledCall(GET_WEATHER.id, {"city": Span(paris, paris + 5, "Paris"), **shared}),
            LabelledCall(GET_WEATHER.id, {"city": Span(rome, rome + 4, "Rome"), **shared}),
        ),
    )
    layout, right = wanted(example, tokenizer)
    assert right.count[layout.apis[0]] == 1
    assert right.source[layout.parameters[0, "units"]] == Origin.OPTION
    assert decoded(example, tokenizer) == asked(example)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_the_network_should_say_decodes_to_the_calls(seed: int, tokenizer: Tokenizer) -> None:
    for example in synthesise(SHOP, seed, 100):
        assert decoded(example, tokenizer) == asked(example), example.query


def test_nothing_is_called_where_nothing_should_be(tokenizer: Tokenizer) -> None:
    example = Example(id="3", source="test", query="Hello there", candidates=SHOP)
    layout, right = wanted(example, tokenizer)
    assert not any(right.call[place] for place in layout.apis)
    assert not decoded(example, tokenizer)
