"""The recipe of a data set: which folders, how many requests of each, and the properties of the conversations."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evals.data import DataError, explain
from training.llm.conversations import Properties

GENERAL = "general"
"""The recipe of the shipped adapter."""

Count = Annotated[int, Field(ge=0)]


class FolderRecipe(BaseModel):
    """What to take from a folder.

    Attributes:
        recorded: maximum number of recorded requests; None: all, 0: only the catalogue is read.
        nested: maximum of those whose calls take fields of others; None: all.
        flat: maximum of the others; None: all.
        rounds: number of conversations that each recorded request is in.
        turns: maximum number of requests in a conversation.
        made: number of requests generated for its catalogue.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recorded: Count | None = None
    nested: Count | None = None
    flat: Count | None = None
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    turns: Annotated[int, Field(ge=1, le=20)] = 4
    made: Count = 300


class DataRecipe(BaseModel):
    """What determines a data set, besides the folders' content.

    Attributes:
        seed: of the requests' order.
        made_seed: of the generated requests.
        properties: of the conversations; each of TPTU-v2's can be switched off. A folder's ``turns`` overrides theirs.
        folders: by name, in the order in which they are read.
        others: for folders that are not named.
        hold_out_apis: share of each catalogue's APIs that are never shown. All their requests are held out.
        query_chars: longer requests are left out.
        calls_chars: requests with longer calls are left out.
        least_calls: requests with fewer calls are left out; 1 leaves out those that nothing solves.
        most_calls: requests with more calls are left out; None: no limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 7
    made_seed: int = 11
    properties: Properties = Properties()
    folders: dict[str, FolderRecipe] = {}
    others: FolderRecipe = FolderRecipe()
    hold_out_apis: Annotated[float, Field(ge=0, lt=1)] = 0.0
    query_chars: Annotated[int, Field(ge=50)] = 1_200
    calls_chars: Annotated[int, Field(ge=50)] = 2_400
    least_calls: Count = 0
    most_calls: Annotated[int, Field(ge=1)] | None = None

    def of(self, name: str) -> FolderRecipe:
        """What to take from the folder with this name."""
        return self.folders.get(name, self.others)


def read_data_recipe(named: str | None) -> DataRecipe:
    """A shipped recipe by name, or one in a JSON file; None: the defaults.

    Raises:
        DataError: there is no such recipe, or the file is not valid.
    """
    if named is None:
        return DataRecipe()
    shipped = files("training.llm") / "recipes" / f"{named}.json"
    try:
        text = shipped.read_bytes() if named.isidentifier() and shipped.is_file() else Path(named).read_bytes()
        return DataRecipe.model_validate_json(text)
    except ValidationError as error:
        raise DataError(f"{named}: {explain(error)}") from None
    except OSError as error:
        raise DataError(f"{named} is no recipe that ships ({GENERAL}), nor a file: {error.strerror}") from None
