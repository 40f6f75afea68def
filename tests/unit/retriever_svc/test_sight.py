"""What other tenants import changes nothing of a tenant's search: neither which APIs it finds nor any score."""

from collections.abc import Sequence

import numpy as np
import pytest

from retriever_svc.engine.features import features
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.ranking import RankingOptions, find, whole
from retriever_svc.engine.relevance import SHIPPED
from retriever_svc.engine.scoring import Scores, prepare_query
from retriever_svc.engine.sight import Sight
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.suppliers import find_suppliers, rest_of_small
from retriever_svc.engine.texts import record
from retriever_svc.models import Entry, Hit, Listing
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.encoder import Encoder
from tests.unit.retriever_svc.catalogue import api


def argument(name: str, location: Location) -> Parameter:
    return Parameter(name=name, wire_name=name, location=location, required=True, json_schema={"type": "string"})


def tells(*names: str) -> ApiResponse:
    return ApiResponse(json_schema={"type": "object", "properties": {name: {"type": "string"} for name in names}})


ORDER = argument("order_id", Location.PATH)
CUSTOMER = argument("customer_id", Location.QUERY)
BADGE = argument("badge_color", Location.QUERY)
OWN: tuple[Api, ...] = (
    api("getOrder", "Get an order by its id", "shop", path="/orders/{order_id}", parameters=(ORDER,)),
    api("getInvoice", "Get an invoice of a customer", "shop", path="/invoices", parameters=(CUSTOMER,)),
    api("seeCustomers", "Customers", "shop", path="/customers", response=tells("name")),
    api("printBadge", "Print a badge", "desk", path="/badges/print", parameters=(BADGE,)),
    api("lastBadge", "The last one", "a", path="/last", response=tells("badge")),
    api("someColor", "Any of them", "b", path="/some", response=tells("color")),
    api("findPerson", "Look up a person", "people", path="/persons/search", response=tells("customer_id", "email")),
    api("trackShipment", "Track a shipment", "post", path="/shipments", response=tells("eta", "status")),
    api("sendMessage", "Send a text message to a person", "post", path="/messages", method="POST"),
)
OWN = tuple(one.model_copy(update={"tenants": ("red",)} if number % 2 else {}) for number, one in enumerate(OWN))
QUERIES = (
    "Get the invoice of customer 12",
    "When does the shipment of order 4471 arrive, and what is the email of the customer?",
    "DELETE /orders/{order_id}",
    "zephyrion",
)
"""Of the last one, nothing in the catalogue of the tenant tells anything."""
FLOOD = "invoice customer order email shipment person message arrive get find"


def theirs(name: str, summary: str, provider: str, **members: object) -> Api:
    return api(name, summary, provider, tenants=("blue",), **members)


OTHERS: dict[str, tuple[Api, ...]] = {
    "words": tuple(theirs(f"op{n}", FLOOD, "bulk", path=f"/p{n}", response=tells("customer_id")) for n in range(40)),
    "a long text": (theirs("long", "planet " * 400, "aaa", path="/long"),),
    "names of providers": tuple(
        theirs("zz", "Weather of a planet", word, path="/x") for word in ("invoice", "order", "get", "the", "of")
    ),
    "a name with a method": (
        theirs("drop", "Remove it", "aaa", path="/orders/{order_id}", method="DELETE", parameters=(ORDER,)),
    ),
    "words of answers": tuple(
        theirs(f"op{number}", "Weather of a planet", "bulk", path=f"/p{number}", response=tells("badge"))
        for number in range(40)
    ),
    "more of a provider that both see": tuple(
        theirs(f"listCustomers{n}", "List customers", "shop", path="/customers", response=tells("customer_id"))
        for n in range(30)
    ),
}


def snapshot_of(apis: Sequence[Api], encoder: Encoder, before: Snapshot | None = None) -> Snapshot:
    records = [record(one) for one in apis]
    rows = encoder.encode([new.embedded for new in records])
    vectors = dict(zip([new.text_hash for new in records], rows, strict=True))
    entries = [
        Entry(
            number, one.id, one.provider, one.name, one.method, one.path, one.summary, one.content_hash, new.text_hash,
            new.lexical, new.inputs, new.outputs, new.open, one.tags, one.deprecated, one.tenants,
        )
        for number, (one, new) in enumerate(zip(apis, records, strict=True))
    ]  # fmt: skip
    listing = Listing(1, tuple(sorted(entries, key=lambda entry: entry.id)))
    return (before or Snapshot.empty(encoder.dimension)).advance(listing, vectors)


def search(snapshot: Snapshot, encoder: Encoder, query: str, options: RankingOptions, tenant: str = "red") -> list[Hit]:
    return find(snapshot, encoder, query, 4, 4, Filters(tenant=tenant), options)[1]


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("relevance", [SHIPPED, ""])
def test_another_tenants_import_changes_no_hit_and_no_score(encoder: Encoder, what: str, relevance: str) -> None:
    options = RankingOptions(relevance=relevance, threshold=0.0)
    alone = snapshot_of(OWN, encoder)
    after = snapshot_of((*OWN, *OTHERS[what]), encoder, before=alone)
    anew = snapshot_of((*OWN, *OTHERS[what]), encoder)
    found = {query: search(alone, encoder, query, options) for query in QUERIES}
    assert all(found.values())
    for query, hits in found.items():
        assert search(after, encoder, query, options) == hits
        assert search(anew, encoder, query, options) == hits


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("query", ["Get an invoice of a customer", "Print a badge"])
def test_what_comes_along_with_a_hit_is_the_same(encoder: Encoder, what: str, query: str) -> None:
    found = []
    for apis in (OWN, (*OWN, *OTHERS[what])):
        snapshot, filters = snapshot_of(apis, encoder), Filters(tenant="red")
        allowed, sight = filters.allowed(snapshot), Sight.of(snapshot, filters.seen(snapshot))
        hits = find(snapshot, encoder, query, 1, 0, filters, RankingOptions())[1]
        suppliers = find_suppliers(snapshot, hits, 4, allowed, sight)
        found.append((hits, suppliers, rest_of_small(snapshot, hits, 3, allowed, sight)))
    assert found[0][1]
    assert found[0] == found[1]


def test_a_provider_out_of_sight_ranks_before_none_in_sight(encoder: Encoder) -> None:
    """Not even where the fitting APIs have a score of 0, as all others do."""
    rows = []
    for apis in (OWN, (*OWN, *OTHERS["a long text"])):
        snapshot, filters = snapshot_of(apis, encoder), Filters(tenant="red")
        sight = Sight.of(snapshot, filters.seen(snapshot))
        prepared = prepare_query(snapshot, encoder, (whole("?"),), 50, filters.allowed(snapshot), sight)
        nothing = np.zeros((1, len(OWN)), np.float32)
        positions = np.flatnonzero(np.isin(snapshot.entries.ids, [one.id for one in OWN]))
        rows.append(features(prepared.candidate_set(Scores(positions, nothing, nothing, nothing))))
    assert np.array_equal(rows[0], rows[1])


def test_what_was_removed_names_no_provider(encoder: Encoder) -> None:
    """A snapshot keeps the names of providers that have no API any more."""
    options = RankingOptions(relevance=SHIPPED, threshold=0.0)
    alone = snapshot_of(OWN, encoder)
    after = snapshot_of(OWN, encoder, before=snapshot_of((*OWN, *OTHERS["names of providers"]), encoder))
    assert len(after.names) > len(alone.names)
    for query in QUERIES:
        assert search(after, encoder, query, options) == search(alone, encoder, query, options)
