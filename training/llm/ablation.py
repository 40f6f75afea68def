"""The properties of TPTU-v2's data (3.3). An ablation removes each of them separately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from training.llm.recipe import DataRecipe

WHOLE: Final = "all properties"
PROPERTIES: Final = (
    "real requests",
    "prompt diversity",
    "instruction diversity",
    "output diversity",
    "masking",
    "off-topic requests",
)


def variants(recipe: DataRecipe) -> Mapping[str, DataRecipe]:
    """The unchanged recipe, named :data:`WHOLE`, and the recipe without each property, by the property's name."""
    without = (
        _each_folder(recipe, recorded=0),
        _properties(recipe, shuffle=False, siblings=False),
        _properties(_each_folder(recipe, turns=1), turns=1, apart=0.0, reworded=0.0),
        recipe.model_copy(update={"most_calls": 1}),
        _properties(recipe, masked=0.0),
        _properties(recipe.model_copy(update={"least_calls": 1}), off_topic=0.0),
    )
    return {WHOLE: recipe} | dict(zip(PROPERTIES, without, strict=True))


def _properties(recipe: DataRecipe, **changed: Any) -> DataRecipe:
    return recipe.model_copy(update={"properties": recipe.properties.model_copy(update=changed)})


def _each_folder(recipe: DataRecipe, **changed: Any) -> DataRecipe:
    folders = {name: one.model_copy(update=changed) for name, one in recipe.folders.items()}
    return recipe.model_copy(update={"folders": folders, "others": recipe.others.model_copy(update=changed)})
