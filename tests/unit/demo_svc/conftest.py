from tests.support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
