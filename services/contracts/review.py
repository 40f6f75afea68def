"""What of a change to an API wants somebody who looks at it, whoever asks for the change."""

from typing import Literal

from services.contracts.base import ApiId, Contract


class SensitiveChange(Contract):
    """That calls of an API which is there would go elsewhere, do something else, or present another credential."""

    api: ApiId
    what: Literal["host", "effect", "credentials"]
    before: str
    after: str
