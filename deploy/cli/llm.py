"""``nestor llm``: prepares and serves the language model on this machine. Without ``make llm`` it exits and says so."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from deploy.llm.errors import LlmError

llm = typer.Typer(no_args_is_help=True, help="Prepare the language model's files, and serve it on a CPU.")

_FOLDER = Path("var/llm")
_Adapter = Annotated[
    Path | None,
    typer.Option(
        help="Folder with adapter_config.json and adapter_model.safetensors, or with a whole model. "
        "[the one promoted in REGISTRY]"
    ),
]
_Registry = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a registry.json, as `nestor train llm` writes it. [NESTOR_LLM_REGISTRY; var/models if a model "
        "was promoted there; the shipped one]"
    ),
]
_Base = Annotated[
    Path | None,
    typer.Option(
        help="The GGUF file that the model was trained on. [as registered, or SmolLM2-135M-Instruct]", dir_okay=False
    ),
]
_Folder = Annotated[Path, typer.Option(help="Folder of the models.", file_okay=False)]
_Kind = Annotated[str, typer.Option("--type", help="Number type of the merged model's layers: Q8_0, Q4_0, F16, ...")]


@llm.command()
def install(
    adapter: _Adapter = None,
    registry: _Registry = None,
    base: _Base = None,
    kind: _Kind = "Q8_0",
    folder: _Folder = _FOLDER,
    name: Annotated[str | None, typer.Option(help="A model of REGISTRY. [the one promoted in it]")] = None,
) -> None:
    """Download the base model and merge the adapter into it. Does nothing if both are up to date.

    A REGISTRY's adapter must have been trained on this very base. `nestor serve --llm` and `nestor llm serve` take the
    promoted model by themselves, from the file that is installed here if it was made from that model. To serve another
    one, set NESTOR_LLM_MODEL to its file.
    """
    if adapter is not None and name is not None:
        raise typer.BadParameter("give either --adapter or --name")
    with exit_on_llm_error():
        from deploy.llm.install import install, registered_adapter
        from deploy.llm.promoted import registry_to_read

        if adapter is None:
            found = registered_adapter(registry_to_read(registry), base, name)
            adapter, base = found.folder, found.base()
        install(folder, adapter, kind, typer.echo, base)


@llm.command("base")
def fetch(
    folder: _Folder = _FOLDER,
) -> None:
    """Download only the base model, to finetune it, and print its path."""
    with exit_on_llm_error(needs_llm=False):
        from deploy.llm.install import fetch_base

        typer.echo(fetch_base(folder, lambda line: typer.echo(line, err=True)))


@llm.command()
def convert(
    base: Annotated[Path, typer.Option(help="The base model, a GGUF file.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The GGUF file to write.", dir_okay=False)],
    adapter: _Adapter = None,
    registry: _Registry = None,
    kind: _Kind = "Q8_0",
    lora: Annotated[
        bool, typer.Option("--lora", help="Write only the adapter, which llama.cpp adds to the base at load time.")
    ] = False,
) -> None:
    """Merge a base model and an adapter that `peft` saved into one GGUF file, or convert a whole model."""
    with exit_on_llm_error():
        from deploy.llm.adapter import read_adapter
        from deploy.llm.gguf_files import write_lora
        from deploy.llm.install import registered_adapter
        from deploy.llm.promoted import registry_to_read
        from deploy.llm.trained import write_planner

        place = adapter or registered_adapter(registry_to_read(registry)).folder
        if lora:
            write_lora(base, read_adapter(place), out)
        else:
            write_planner(base, place, out, kind)
    typer.echo(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


@llm.command()
def serve(
    name: Annotated[
        str | None, typer.Argument(help="A model of REGISTRY. [NESTOR_LLM_MODEL, or the promoted one]")
    ] = None,
    registry: _Registry = None,
    base: _Base = None,
    kind: _Kind = "Q8_0",
    folder: _Folder = _FOLDER,
) -> None:
    """Serve a model with llama.cpp, an OpenAI-compatible API, until Ctrl-C. Settings: `NESTOR_LLM_*`.

    With NAME it is that model of REGISTRY, with REGISTRY alone the one promoted there. Its files are checked, and
    `registered-NAME.gguf` is written in FOLDER unless it is up to date. Otherwise it is the file NESTOR_LLM_MODEL, or,
    if that is unset, the model that is promoted.
    """
    if name is None and registry is None and base is not None:
        raise typer.BadParameter("--base goes with NAME or --registry")
    with exit_on_llm_error():
        from deploy.llm.install import install, registered_adapter
        from deploy.llm.promoted import registry_to_read
        from deploy.llm.server import main

        if name is not None or registry is not None:
            found = registered_adapter(registry_to_read(registry), base, name)
            place = found.folder
            merged = install(folder, place, kind, typer.echo, found.base(), f"registered-{place.name}.gguf")
            os.environ["NESTOR_LLM_MODEL"] = str(merged)
        raise typer.Exit(main([]))


@contextmanager
def exit_on_llm_error(needs_llm: bool = True) -> Iterator[None]:
    """Turn errors of the model's files, its libraries or its server into one line and an exit status."""
    if needs_llm and (missing := [name for name in ("gguf", "xllamacpp") if find_spec(name) is None]):
        typer.echo(f"{' and '.join(missing)} must be installed for this: make llm", err=True)
        raise typer.Exit(1)
    try:
        yield
    except LlmError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
