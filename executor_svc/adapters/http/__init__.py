"""The HTTP adapter: builds requests from OpenAPI operations, adds credentials, guards addresses, bounds answers."""

from executor_svc.adapters.http.adapter import HttpAdapter, open_http_adapter

__all__ = ["HttpAdapter", "open_http_adapter"]
