"""The wire types of Nestor: frozen pydantic models that refuse unknown fields.

This package imports nothing but pydantic, so anything may import it: services, clients, evaluations, a customer's code.
"""
