"""URLs that others have written: documents, upstreams, people."""

from yarl import URL


def url_of(text: str, base: URL | None = None) -> URL:
    """The URL in a text, relative to ``base`` if given. Its raw parts can be read without an error.

    Its text, as requests are built from it, names the same host.

    Raises:
        ValueError: it is not a URL. yarl itself raises other exceptions, too, and some only when a part is read.
    """
    try:
        url = URL(text) if base is None else base.join(URL(text))
        again = URL(str(url))
        same = (again.raw_host, again.port) == (url.raw_host, url.port)
    except Exception as error:  # an IndexError, for example, for `http://[::1]@`
        raise ValueError("it is not a URL") from error
    if not same:
        raise ValueError("it is not a URL")
    return url
