"""Settings of the language model's server; environment variables start with ``NESTOR_LLM_``."""

import os
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from deploy.llm.errors import LlmError

FOLDER = Path("var/llm")
MERGED_NAME = "planner.gguf"
REGISTRY = Path("var/models")
"""Where `nestor train` promotes models."""
MODEL_NAME = "nestor-planner"
"""The model's name in requests, for llama.cpp and vLLM."""
_USEFUL_THREADS = 8
"""A model this small is no faster with more."""


def usable_threads() -> int:
    """Number of processors that this process may use, up to the number that still makes the model faster."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _USEFUL_THREADS)


class LlmSettings(BaseSettings):
    """How llama.cpp serves the model."""

    model_config = SettingsConfigDict(env_prefix="NESTOR_LLM_", extra="forbid", frozen=True)

    model: Path | None = Field(
        default=None, description="The model's GGUF file; unset: it is made from the model that the registry promotes."
    )
    registry: Path | None = Field(
        default=None,
        description="Folder of the `registry.json` whose promoted model is served; unset: `var/models` if a model was "
        "promoted there, else that of the model that ships.",
    )
    lora: Path | None = Field(
        default=None, description="A LoRA GGUF that is added to the model as it is loaded; a merged model needs none."
    )
    name: str = Field(default=MODEL_NAME, min_length=1, max_length=200, description="What the server calls the model.")
    host: str = Field(default="127.0.0.1", description="Address to listen on. Beyond loopback, set an API key.")
    port: int = Field(default=8100, ge=0, le=65_535, description="Port to listen on; 0: a free one.")
    api_key: SecretStr | None = Field(
        default=None, description="Bearer token that requests must send; unset: the server is open."
    )
    threads: int = Field(default_factory=usable_threads, ge=1, le=256, description="Threads that compute.")
    context: int = Field(
        default=4_096, ge=256, le=131_072, description="Longest prompt and answer together, in tokens."
    )
    parallel: int = Field(
        default=2, ge=1, le=64, description="Requests computed at once; more wait. Each takes memory for its context."
    )


def settings_from_environment() -> LlmSettings:
    """Read the settings from the environment. Raises LlmError that names the invalid variables."""
    try:
        return LlmSettings()
    except ValidationError as error:
        wrong = [f"NESTOR_LLM_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise LlmError("\n".join(wrong)) from None
