"""Products on sale. Needs no credentials."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from sandbox.errors import NotFound, Unprocessable, problems
from sandbox.fields import Answer, Money, PageQuery, SizeQuery
from sandbox.paging import count_pages
from sandbox.reference import Reference, ReferenceData, fold

router = APIRouter()

SKU_PATTERN = r"^[A-Z]{3}-[0-9]{4}$"
Category = Literal["audio", "books", "computing", "kitchen", "office", "outdoor", "photo"]
Sorting = Literal["name", "price", "-price", "-rating"]


class ProductSummary(Answer):
    """A product in a list."""

    sku: str = Field(description="Stock keeping unit: the product's number.", examples=["AUD-1001"])
    name: str = Field(description="Name of the product.", examples=["Wireless over-ear headphones"])
    category: Category = Field(description="Category it is in.")
    price: Money = Field(description="Price in the currency of its supplier.")


class Product(ProductSummary):
    """A product in detail."""

    stock: int = Field(description="Pieces delivered to the shop.")
    weight_grams: int = Field(description="Weight in grams.")
    origin_country_code: str = Field(description="Alpha-2 code of the country it is made in.", examples=["DK"])
    rating: float = Field(description="Average rating, 1 to 5.")
    tags: list[str] = Field(description="Words that describe it.")


class ProductPage(Answer):
    """One page of products."""

    items: list[ProductSummary] = Field(description="Products on this page.")
    page: int = Field(description="Number of this page.")
    size: int = Field(description="Largest number of items a page.")
    total: int = Field(description="Number of products that match.")
    pages: int = Field(description="Number of pages.")


class PriceRange(Answer):
    """Bounds of a price, in euro."""

    min: float = 0
    max: float = float("inf")


_PRICE_PARAMETER = {
    "name": "price",
    "in": "query",
    "required": False,
    "description": "Bounds of the price in euro: `price[min]=20&price[max]=100`.",
    "style": "deepObject",
    "explode": True,
    "schema": {
        "type": "object",
        "properties": {
            "min": {"type": "number", "minimum": 0, "maximum": 1e9, "description": "Lowest price in euro."},
            "max": {"type": "number", "minimum": 0, "maximum": 1e9, "description": "Highest price in euro."},
        },
        "additionalProperties": False,
    },
    "example": {"min": 20, "max": 100},
}
_Bound = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


async def _price_range(
    low: Annotated[_Bound | None, Query(alias="price[min]", include_in_schema=False)] = None,
    high: Annotated[_Bound | None, Query(alias="price[max]", include_in_schema=False)] = None,
) -> PriceRange:
    bounds = PriceRange(min=low or 0, max=float("inf") if high is None else high)
    if bounds.min > bounds.max:
        raise Unprocessable("price[min] is above price[max]")
    return bounds


def load_products(reference: Reference) -> dict[str, Product]:
    """All products by their numbers."""
    return {row["sku"]: Product(**row) for row in reference.rows("products")}


@router.get("/products", openapi_extra={"parameters": [_PRICE_PARAMETER]})
async def search_products(
    reference: ReferenceData,
    price: Annotated[PriceRange, Depends(_price_range)],
    query: Annotated[
        str | None,
        Query(min_length=2, max_length=60, description="Words of the name or tags.", examples=["headphones"]),
    ] = None,
    category: Annotated[
        list[Category] | None,
        Query(max_length=7, description="Only these categories; repeat the parameter for several."),
    ] = None,
    sort: Annotated[Sorting, Query(description="Order; prices are compared in euro.")] = "name",
    page: PageQuery = 1,
    size: SizeQuery = 20,
) -> ProductPage:
    """Search the products on sale by words, category and price. Use it to find a product's number (SKU) by its name."""
    words = fold(query).split() if query else []

    def euros(product: ProductSummary) -> float:
        return product.price.amount * float(reference.rates.rate(product.price.currency, "EUR"))

    found = [
        product
        for product in load_products(reference).values()
        if (not category or product.category in category)
        and price.min <= euros(product) <= price.max
        and all(word in fold(" ".join([product.name, *product.tags])) for word in words)
    ]
    if sort == "name":
        found.sort(key=lambda product: fold(product.name))
    elif sort == "-rating":
        found.sort(key=lambda product: (-product.rating, product.sku))
    else:
        found.sort(key=euros, reverse=sort == "-price")
    items = [
        ProductSummary(sku=product.sku, name=product.name, category=product.category, price=product.price)
        for product in found[(page - 1) * size : page * size]
    ]
    return ProductPage(items=items, page=page, size=size, total=len(found), pages=count_pages(len(found), size))


@router.get("/products/{sku}", responses=problems(404))
async def get_product(
    reference: ReferenceData,
    sku: Annotated[str, Path(pattern=SKU_PATTERN, description="Number of the product.", examples=["AUD-1001"])],
) -> Product:
    """Get one product by its number: price, weight, country of origin, rating and stock."""
    try:
        return load_products(reference)[sku]
    except KeyError:
        raise NotFound(f"no product has the number {sku}") from None
