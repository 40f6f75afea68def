"""Media types, as headers and documents write them."""


def essence(media_type: str) -> str:
    """A media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Whether this is JSON: ``application/json`` or a type with the ``+json`` suffix (RFC 6839)."""
    bare = essence(media_type)
    return bare == "application/json" or bare.endswith("+json")
