"""Random plans, whatever APIs they call."""

from hypothesis import strategies as st
from pydantic import JsonValue

from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    When,
)

# Text that is likely to be mistaken for a reference, and any other that JSON can carry.
TRICKY = st.sampled_from(
    [
        "$var1$",
        "\\$var1.a$",
        "\\\\$var1$",
        "$100-$200",
        "$@$",
        "API_call_0",
        "\\API_call_12",
        "$var1.x$ and more",
        "\\",
        "",
    ]
)
TEXT = TRICKY | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PATHS = st.lists(TEXT | st.integers(0, 99) | st.just("*"), max_size=4).map(tuple)


def values(steps: list[str], item: bool) -> st.SearchStrategy[Value]:
    """Values that may refer to these steps and, where `item` is true, to the item of a loop."""
    leaves: st.SearchStrategy[Value] = JSON.map(lambda v: LiteralValue(value=v))
    if steps:
        leaves |= st.builds(Reference, step=st.sampled_from(steps), path=PATHS)
    if item:
        leaves |= st.builds(ItemReference, path=PATHS)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(ListValue, items=st.lists(inner, max_size=3).map(tuple))
            | st.builds(ObjectValue, fields=st.dictionaries(TEXT, inner, max_size=3))
        ),
        max_leaves=5,
    )


@st.composite
def plans(draw: st.DrawFn, plain: bool = False) -> Plan:
    """Plans whose references lead to earlier steps; `plain` ones have no loops, conditions or explicit order."""
    count = draw(st.integers(1, 4))
    ids = [f"var{n}" for n in range(1, count + 1)]
    steps = []
    for index, step_id in enumerate(ids):
        earlier = ids[:index]
        foreach = None if plain else draw(st.none() | st.builds(ForEach, items=values(earlier, item=False)))
        operands = values(earlier, item=foreach is not None)
        steps.append(
            Step(
                id=step_id,
                api=draw(st.sampled_from(["shop.find", "shop.buy", "geo.lookup"])),
                arguments=draw(st.dictionaries(TEXT, operands, max_size=3)),
                foreach=foreach,
                when=None
                if plain
                else draw(st.none() | st.builds(When, left=operands, op=st.just("eq"), right=operands)),
                after=() if plain else tuple(draw(st.lists(st.sampled_from(earlier), unique=True))) if earlier else (),
            )
        )
    outputs = st.builds(
        AnswerOutput, name=TEXT.filter(bool), value=st.builds(Reference, step=st.sampled_from(ids), path=PATHS)
    )
    return Plan(steps=tuple(steps), answer=tuple(draw(st.lists(outputs, max_size=2, unique_by=lambda o: o.name))))
