"""Customers and their orders, protected by OAuth2. Ordering supports `Idempotency-Key`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from sandbox.domains.catalogue import SKU_PATTERN, load_products
from sandbox.domains.currencies import round_money
from sandbox.errors import Conflict, NotFound, Unprocessable, problems
from sandbox.fields import CURRENCY_PATTERN, Answer, Body, LimitQuery, Money
from sandbox.paging import CURSOR_PATTERN, slice_by_cursor
from sandbox.reference import Reference, ReferenceData, fold, match_rank
from sandbox.security import needs_scope
from sandbox.state import Collection, IdempotencyKey, SandboxState, State

router = APIRouter()

OrderStatus = Literal["placed", "shipped", "delivered", "cancelled"]
CUSTOMER_PATTERN = r"^cus_[0-9]{1,6}$"
OrderPath = Annotated[str, Path(pattern=r"^ord_[0-9]{1,9}$", description="Id of the order.", examples=["ord_20"])]
CustomerPath = Annotated[str, Path(pattern=CUSTOMER_PATTERN, description="Id of the customer.", examples=["cus_10"])]


class CustomerSummary(Answer):
    """A customer in a list."""

    id: str = Field(description="Id of the customer.", examples=["cus_10"])
    name: str = Field(description="Full name.", examples=["Jonas Weber"])
    email: str = Field(description="Email address.", examples=["jonas.weber@example.com"])


class Customer(CustomerSummary):
    """A customer in detail."""

    city: str = Field(description="City the customer lives in.")
    country_code: str = Field(description="Alpha-2 code of the country.", examples=["DE"])
    tier: Literal["standard", "gold", "platinum"] = Field(description="Level in the loyalty programme.")
    customer_since: datetime.date = Field(description="Day of the first registration.")


class CustomerList(Answer):
    """Customers found, the best match first."""

    items: list[CustomerSummary] = Field(description="Customers.")
    total: int = Field(description="Number of customers that match.")


class NewOrderLine(Body):
    """A product to order."""

    sku: str = Field(pattern=SKU_PATTERN, description="Number of the product.", examples=["AUD-1001"])
    quantity: int = Field(default=1, strict=True, ge=1, le=99, description="Pieces.")


class NewOrder(Body):
    """What a customer orders."""

    customer_id: str = Field(pattern=CUSTOMER_PATTERN, description="Id of the customer.", examples=["cus_10"])
    lines: list[NewOrderLine] = Field(min_length=1, max_length=20, description="Products, each once.")
    currency: str = Field(default="EUR", pattern=CURRENCY_PATTERN, description="Currency to bill in, ISO 4217 code.")
    note: str | None = Field(default=None, max_length=300, description="Note for the warehouse.")


class OrderLine(Answer):
    """An ordered product."""

    sku: str = Field(description="Number of the product.")
    name: str = Field(description="Name of the product.")
    quantity: int = Field(description="Pieces.")
    unit_price: Money = Field(description="Price of one piece, in the order's currency.")


class Order(Answer):
    """An order."""

    id: str = Field(description="Id of the order.", examples=["ord_20"])
    customer_id: str = Field(description="Id of the customer.")
    status: OrderStatus = Field(description="How far it is.")
    placed_at: datetime.datetime = Field(description="When it was placed.")
    lines: list[OrderLine] = Field(description="Ordered products.")
    total: Money = Field(description="Sum of all lines.")
    note: str | None = Field(description="Note for the warehouse.")


class OrderList(Answer):
    """Some orders of a customer."""

    orders: list[Order] = Field(description="Orders.")
    next_page_token: str | None = Field(description="Token of the next page; null at the end.")


def _customers(reference: Reference) -> dict[str, Customer]:
    return {row["id"]: Customer(**row) for row in reference.rows("customers")}


def _customer(reference: Reference, identifier: str) -> Customer:
    try:
        return _customers(reference)[identifier]
    except KeyError:
        raise NotFound(f"no customer has the id {identifier}") from None


def _price(reference: Reference, lines: list[NewOrderLine], currency: str) -> tuple[list[OrderLine], Money]:
    """The lines with their prices at the published rates, and their sum. Raises NotFound for an unknown product."""
    products = load_products(reference)
    priced, total = [], Decimal(0)
    for line in lines:
        product = products.get(line.sku)
        if product is None:
            raise NotFound(f"no product has the number {line.sku}")
        rate = reference.rates.rate(product.price.currency, currency)
        unit = round_money(Decimal(str(product.price.amount)) * rate, currency)
        total += Decimal(str(unit)) * line.quantity
        price = Money(amount=unit, currency=currency)
        priced.append(OrderLine(sku=line.sku, name=product.name, quantity=line.quantity, unit_price=price))
    return priced, Money(amount=round_money(total, currency), currency=currency)


def _orders(state: SandboxState, reference: Reference) -> Collection[Order]:
    def seed() -> list[Order]:
        orders = []
        for row in reference.rows("orders"):
            lines, total = _price(reference, [NewOrderLine(**line) for line in row["lines"]], "EUR")
            orders.append(Order(**{**row, "lines": lines}, total=total, note=None))
        return orders

    return state.collection(Order, "order", "ord", seed)


@router.get("/customers", dependencies=[needs_scope("customers:read")])
async def search_customers(
    reference: ReferenceData,
    name: Annotated[str | None, Query(min_length=2, max_length=80, description="Name or part of it.")] = None,
    email: Annotated[
        str | None,
        Query(min_length=3, max_length=120, description="Exact email address.", examples=["jonas.weber@example.com"]),
    ] = None,
    limit: LimitQuery = 10,
) -> CustomerList:
    """Search customers of the shop by name or email address and get their ids."""
    ranked = []
    for customer in _customers(reference).values():
        rank = 0 if name is None else match_rank(fold(name), fold(customer.name))
        if rank is not None and (email is None or email.casefold() == customer.email):
            ranked.append((rank, customer.name, customer))
    found = [customer for *_, customer in sorted(ranked, key=lambda item: item[:2])]
    items = [CustomerSummary(id=entry.id, name=entry.name, email=entry.email) for entry in found[:limit]]
    return CustomerList(items=items, total=len(found))


@router.get("/customers/{customer_id}", dependencies=[needs_scope("customers:read")], responses=problems(404))
async def get_customer(reference: ReferenceData, customer_id: CustomerPath) -> Customer:
    """Get one customer by id: email, city, country and loyalty level."""
    return _customer(reference, customer_id)


@router.get("/customers/{customer_id}/orders", dependencies=[needs_scope("orders:read")], responses=problems(404))
async def list_customer_orders(
    reference: ReferenceData,
    state: State,
    customer_id: CustomerPath,
    status: Annotated[OrderStatus | None, Query(description="Only orders in this state.")] = None,
    sort: Annotated[Literal["oldest", "newest"], Query(description="Which order comes first.")] = "newest",
    page_token: Annotated[
        str | None, Query(pattern=CURSOR_PATTERN, description="The `next_page_token` of the page before.")
    ] = None,
    page_size: Annotated[int, Query(ge=1, le=50, description="Largest number of orders a page.")] = 10,
) -> OrderList:
    """List the orders of one customer; continue with `next_page_token` until it is null."""
    customer = _customer(reference, customer_id)
    found = [
        order
        for order in _orders(state, reference)
        if order.customer_id == customer.id and status in (None, order.status)
    ]
    found.sort(key=lambda order: order.placed_at, reverse=sort == "newest")
    orders, next_token = slice_by_cursor(found, page_token, page_size)
    return OrderList(orders=orders, next_page_token=next_token)


@router.post("/orders", status_code=201, dependencies=[needs_scope("orders:write")], responses=problems(404, 409))
async def create_order(
    reference: ReferenceData, state: State, response: Response, body: NewOrder, idempotency_key: IdempotencyKey = None
) -> Order:
    """Place an order of one or more products for a customer, billed in the currency wanted."""

    def create() -> Order:
        _customer(reference, body.customer_id)
        if len({line.sku for line in body.lines}) < len(body.lines):
            raise Unprocessable("a product stands in more than one line")
        lines, total = _price(reference, body.lines, body.currency)
        placed_at = state.now().replace(microsecond=0)
        return _orders(state, reference).add(
            lambda identifier: Order(
                id=identifier,
                customer_id=body.customer_id,
                status="placed",
                placed_at=placed_at,
                lines=lines,
                total=total,
                note=body.note,
            )
        )

    return state.idempotency.once("createOrder", idempotency_key, body, response, create)


@router.get("/orders/{order_id}", dependencies=[needs_scope("orders:read")], responses=problems(404))
async def get_order(reference: ReferenceData, state: State, order_id: OrderPath) -> Order:
    """Get one order by its id: customer, lines, total and status."""
    return _orders(state, reference).get(order_id)


@router.post("/orders/{order_id}/cancel", dependencies=[needs_scope("orders:write")], responses=problems(404, 409))
async def cancel_order(reference: ReferenceData, state: State, order_id: OrderPath) -> Order:
    """Cancel an order that has not been shipped."""
    orders = _orders(state, reference)
    order = orders.get(order_id)
    if order.status in ("shipped", "delivered"):
        raise Conflict(f"order {order_id} has been {order.status} and cannot be cancelled")
    return orders.replace(order_id, order.model_copy(update={"status": "cancelled"}))
