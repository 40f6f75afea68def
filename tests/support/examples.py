"""How many examples Hypothesis makes. The environment variable NESTOR_TEST_PROFILE chooses ``dev`` (where it is not
set), ``ci`` (four times as many; `make test`) or ``thorough`` (others in every run, and many)."""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"dev": 25, "ci": 100, "thorough": 2_000}
_CHOSEN = os.environ.get("NESTOR_TEST_PROFILE", "dev")
THOROUGH = _CHOSEN == "thorough"

for _name, _number in _EXAMPLES.items():
    # No deadline, and no complaint about slow generation: both judge the machine that the tests run on.
    settings.register_profile(_name, max_examples=_number, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(_CHOSEN)


def examples(share: float) -> settings:
    """That share of what the profile makes of cheap examples: for those that cost tens of milliseconds and more."""
    return settings(max_examples=max(1, round(share * _EXAMPLES[_CHOSEN])))
