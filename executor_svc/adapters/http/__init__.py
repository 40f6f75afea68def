"""The HTTP adapter: requests from OpenAPI operations, credentials, the address guard, bounded answers."""

from executor_svc.adapters.http.adapter import HttpAdapter, open_http_adapter

__all__ = ["HttpAdapter", "open_http_adapter"]
