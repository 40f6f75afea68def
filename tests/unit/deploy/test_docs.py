"""The generated pages name everything there is, and are up to date."""

import pytest

from deploy.docs import PAGES, ROOT, SETTINGS, problems_page, settings_page
from services.errors import all_errors


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_setting_is_described() -> None:
    page = settings_page()
    for _, cls in SETTINGS:
        for name, field in cls.model_fields.items():
            assert field.description, f"{cls.__name__}.{name} has no description"
            assert f"`{cls.model_config.get('env_prefix', '')}{name}`".upper() in page


def test_every_problem_is_described() -> None:
    page = problems_page()
    for cls in all_errors():
        assert cls.__doc__, f"{cls.__name__} has no docstring"
        assert cls.type_uri() in page
