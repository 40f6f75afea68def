"""The recipe of a data set: which folders, how many requests of each, what the conversations are like."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evals.data import DataError, explain
from training.llm.conversations import Properties

GENERAL = "general"
"""The recipe of the adapter that ships."""

Count = Annotated[int, Field(ge=0)]


class FolderRecipe(BaseModel):
    """What is taken of a folder.

    Attributes:
        recorded: recorded requests at most; None: all, 0: only its catalogue is read.
        nested: of those whose calls take fields of others, at most; None: as many as there are.
        flat: of the others, likewise.
        rounds: conversations that each recorded request is in.
        turns: requests in a conversation at most.
        made: requests made up over its catalogue.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recorded: Count | None = None
    nested: Count | None = None
    flat: Count | None = None
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    turns: Annotated[int, Field(ge=1, le=20)] = 4
    made: Count = 300


class DataRecipe(BaseModel):
    """What decides a data set, besides the folders' content.

    Attributes:
        seed: of the requests' order.
        made_seed: of the requests that are made up.
        properties: of the conversations; each of TPTU-v2's can be switched off. A folder's ``turns`` counts.
        folders: by their names, in the order in which they are read.
        others: of folders that are not named.
        hold_out_apis: share of each catalogue's APIs that are never shown, and whose requests are all held out.
        query_chars: longer requests are left out.
        calls_chars: likewise those with longer calls.
        least_calls: likewise those with fewer calls; 1: those that nothing solves.
        most_calls: likewise those with more calls; None: none is left out for that.
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
        """What is taken of the folder of that name."""
        return self.folders.get(name, self.others)


def read_data_recipe(named: str | None) -> DataRecipe:
    """A recipe that ships, by its name, or one in a JSON file; None: the defaults.

    Raises:
        DataError: there is none of that name, or the file names something else.
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
