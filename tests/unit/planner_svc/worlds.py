"""Catalogues to make examples of: a small ordinary one, and hostile ones."""

from typing import Any

from services.contracts.api import Api, ApiResponse, Location, Parameter

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
FLAG: dict[str, Any] = {"type": "boolean"}
LIST: dict[str, Any] = {"type": "array", "items": TEXT}
DAY: dict[str, Any] = {"type": "string", "format": "date"}


def param(name: str, schema: dict[str, Any] | None = None, about: str = "", *, required: bool = False) -> Parameter:
    return Parameter(
        name=name,
        wire_name=name,
        location=Location.BODY,
        required=required,
        description=about,
        json_schema=dict(TEXT if schema is None else schema),
    )


def api(name: str, about: str, *parameters: Parameter, returns: dict[str, Any] | None = None, **more: Any) -> Api:
    response = {"type": "object", "properties": returns} if returns else {}
    return Api(
        id=f"shop.{name}",
        provider="shop",
        name=name,
        description=about,
        parameters=parameters,
        response=ApiResponse(json_schema=response),
        **more,
    )


FIND_CUSTOMER = api(
    "findCustomer",
    "Find a customer by name.",
    param("customer_name", about="the name of the customer", required=True),
    returns={"customer_id": TEXT, "email": TEXT, "home_city": TEXT},
)
GET_WEATHER = api(
    "getWeather",
    "Get the weather in a city on a date.",
    param("city", required=True),
    param("date", DAY, required=True),
    param("units", {"type": "string", "enum": ["metric", "imperial"]}),
    returns={"temperature": NUMBER, "wind_speed": NUMBER},
)
CREATE_ORDER = api(
    "createOrder",
    "Create an order for a customer.",
    param("customer_id", about="ID of the customer", required=True),
    param("products", LIST, "names of the products, such as 'lamp', 'chair'", required=True),
    param("express", FLAG, "whether to ship it express"),
    param("budget", NUMBER),
    returns={"order_id": TEXT, "total": NUMBER},
    method="POST",
)
CANCEL_ORDER = api(
    "cancelOrder",
    "Cancel an order.",
    param("order_id", about="ID of the order", required=True),
    param("reason"),
    returns={"refund": NUMBER},
    method="POST",
)
BOOK_TABLE = api(
    "bookTable",
    "Book a table at a restaurant.",
    param("restaurant_name", required=True),
    param("date", about="the day", required=True),
    param("time", about="the time of day", required=True),
    param("number_of_guests", WHOLE, required=True),
    returns={"reservation_id": TEXT},
    method="POST",
)
GET_PRICE = api(
    "getPrice",
    "Retrieve the price of a product in a currency.",
    param("product", required=True),
    param("currency", about="e.g. USD, EUR, GBP", required=True),
    returns={"price": NUMBER},
)
CONVERT = api(
    "convertAmount",
    "Convert an amount of money.",
    param("price", NUMBER, required=True),
    param("percentage", NUMBER),
    returns={"converted": NUMBER},
)
SHOP = (FIND_CUSTOMER, GET_WEATHER, CREATE_ORDER, CANCEL_ORDER, BOOK_TABLE, GET_PRICE, CONVERT)

_RECURSIVE: dict[str, Any] = {"$ref": "#/$defs/Node"}
HOSTILE = (
    Api(id="x.nothing", provider="x", name="nothing"),
    Api(id="x.1", provider="x", name="1"),
    Api(id="x.???", provider="x", name="???", description="??? !!! ..."),
    Api(
        id="x.查詢天氣", provider="x", name="查詢天氣", description="查詢某城市的天氣。",
        parameters=(param("城市", required=True),),
    ),
    Api(
        id="x.pogoda", provider="x", name="получитьПогоду",
        parameters=(param("город", required=True), param("день", DAY)),
    ),
    api("long", "Get the thing " + "which goes on and on " * 240, param("a" * 200, about="b " * 2_500, required=True)),
    api(
        "markup", "<b>Get</b> `the` [thing](http://x/y) {of} the\n\nworld | {value} {x}",
        param("{value}", about="{x} (e.g., {y}, %s)"),
    ),
    api("sameName", "List a name of a name with a name.", param("name"), param("names"), param("Name")),
    api("never", "Get never.", param("never", {"type": "string", "enum": []}, required=True)),
    api("odd", "Get odd.", param("odd", {"type": "string", "pattern": "^[A-Z]{40}\\d{9}$"}, required=True)),
    api("broken", "Get broken.", param("broken", {"type": "array", "items": "number"}, required=True)),
    api("mixed", "Set values.", param("kind", {"enum": [1, None, True, "a b", {"x": 1}, ["y"]]}, required=True)),
    api(
        "huge", "Count the huge.",
        param("n", {"type": "integer", "minimum": 10**30, "maximum": 10**40}, required=True),
    ),
    api("wide", "Get wide things.", *(param(f"p{n}") for n in range(150))),
    Api(
        id="x.recursive",
        provider="x",
        name="getNode",
        description="Get a node of the tree.",
        parameters=(param("node", _RECURSIVE, required=True), param("node_id", required=True)),
        response=ApiResponse(json_schema=_RECURSIVE),
        definitions={"Node": {"type": "object", "properties": {"node_id": TEXT, "child": _RECURSIVE}}},
    ),
)  # fmt: skip
