"""Changes to an API that a person must review, regardless of who requests them."""

from typing import Literal

from pydantic import Field

from services.contracts.base import ApiId, Contract


class SensitiveChange(Contract):
    """A change after which calls of an existing API go elsewhere, do something else, or present another credential.

    So is an added API that would send its calls or a credential where no API of its provider ever sent them.
    """

    api: ApiId
    what: Literal["host", "effect", "credentials"]
    before: str
    after: str


class Affected(Contract):
    """A demonstration, or a run that waits for an approval, whose plan calls an API that would change or go."""

    kind: Literal["demo", "run"]
    id: str
    query: str = Field(
        description="The beginning of the request. For a run it is empty if the caller may not read runs."
    )
    api: ApiId
    breaks: bool = Field(
        description="True: its plan can no longer be proved. False: it may still be valid and should be reviewed."
    )
    reason: str
