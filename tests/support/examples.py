"""Sets how many examples Hypothesis makes.

The environment variable NESTOR_TEST_PROFILE chooses ``dev`` (the default), ``ci`` (four times as many; `make test`) or
``thorough`` (many, and different ones in every run).
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"dev": 25, "ci": 100, "thorough": 2_000}
_CHOSEN = os.environ.get("NESTOR_TEST_PROFILE", "dev")
THOROUGH = _CHOSEN == "thorough"

for _name, _number in _EXAMPLES.items():
    # No deadline and no check for slow generation: both depend on the speed of the machine.
    settings.register_profile(_name, max_examples=_number, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(_CHOSEN)


def examples(share: float) -> settings:
    """Settings with a share of the profile's number of examples, for examples that take tens of milliseconds."""
    return settings(max_examples=max(1, round(share * _EXAMPLES[_CHOSEN])))
