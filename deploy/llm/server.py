"""llama.cpp's OpenAI-compatible server on a CPU: ``python -m deploy.llm.server``, settings from ``NESTOR_LLM_*``.

It ends on SIGINT and SIGTERM. With ``--while-stdin`` it also ends when its standard input closes, so that it never
outlives the process that started it, even if that one was killed. Prompts and answers are not logged.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from deploy.llm.errors import LlmError, ModelFileError, ModelServerError
from deploy.llm.gguf_files import read_model
from deploy.llm.promoted import model_to_serve
from deploy.llm.settings import LlmSettings, settings_from_environment

_SPINS = "1000"
"""How many times a thread polls for the others before it sleeps. By libgomp's default it spins for milliseconds. If
other processes use the same cores, it then occupies the core that the thread it waits for needs."""
_BATCH = 512
_CONNECTIONS = 32
_HTTP_TIMEOUT_S = 60


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal arrives. Returns the exit status if it cannot serve."""
    parser = argparse.ArgumentParser(prog="python -m deploy.llm.server", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--while-stdin", action="store_true", help="end where standard input ends")
    options = parser.parse_args(argv)
    signals = _signals()
    if options.while_stdin:
        threading.Thread(target=_exit_when_stdin_closes, daemon=True).start()
    try:
        serve(settings_from_environment(), signals)
    except LlmError as error:
        print(error, file=sys.stderr)
        return 1


def _signals() -> int:
    """A file descriptor that becomes readable once a signal arrives, in any thread and even before serving starts."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return readable


def _exit_now() -> NoReturn:
    """End the process at once, even while it computes.

    llama.cpp's own shutdown waits for the computation, and hangs if its server has only just started.
    """
    os._exit(0)


def _exit_when_stdin_closes() -> None:
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    _exit_now()


def serve(settings: LlmSettings, signals: int) -> NoReturn:
    """Serve the model until the file descriptor ``signals`` becomes readable.

    Raises:
        ModelFileError: the model is missing or damaged, or is not the registered one.
        ModelServerError: llama.cpp is not installed, or does not start with these settings.
    """
    model = model_to_serve(settings).file
    if not model.is_file():
        raise ModelFileError(
            f"there is no model at {model}: unset NESTOR_LLM_MODEL to serve the promoted one (`make llm` installs it)"
        )
    if settings.host not in ("127.0.0.1", "::1", "localhost") and settings.api_key is None:
        raise ModelServerError(f"listening on {settings.host} needs NESTOR_LLM_API_KEY")
    os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)  # read when the library below is loaded
    try:
        import xllamacpp
    except ImportError as error:
        hint = "apt-get install libgomp1" if "libgomp" in str(error) else "make llm"
        raise ModelServerError(f"llama.cpp cannot be loaded ({error}): {hint}") from None
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, settings, model))
    except RuntimeError:  # it gives no details: check the files to find the cause
        for path in filter(None, (model, settings.lora)):
            read_model(path)
        raise ModelServerError(
            f"llama.cpp does not start: is port {settings.port} taken, or does the LoRA belong to another model?"
        ) from None
    print(f"{settings.name} ({model}) is served on {server.listening_address}", flush=True)
    os.read(signals, 1)
    _exit_now()


def _parameters(xllamacpp: Any, settings: LlmSettings, model: Path) -> Any:
    """The settings as llama.cpp's parameters. The fixed values suit a small model and short answers."""
    given = xllamacpp.CommonParams()
    given.model.path = str(model)
    if settings.lora is not None:
        given.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(settings.lora), 1.0)]
    given.model_alias = {settings.name}
    given.hostnames, given.port = [settings.host], settings.port
    if settings.api_key is not None:
        given.api_keys = [settings.api_key.get_secret_value()]
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = settings.threads
    given.n_parallel, given.n_ctx = settings.parallel, settings.context * settings.parallel
    given.n_batch = given.n_ubatch = min(_BATCH, settings.context)
    # A slot keeps its last prompt, so a shared prefix is computed once. The additional prompt cache would take 8 GB.
    given.cache_prompt, given.cache_ram_mib = True, 0
    given.n_threads_http, given.timeout_read, given.timeout_write = _CONNECTIONS, _HTTP_TIMEOUT_S, _HTTP_TIMEOUT_S
    given.ui = given.endpoint_slots = given.endpoint_props = given.endpoint_metrics = False
    given.cors_origins = f"http://{settings.host}"  # no web page may use it
    given.verbosity = 0
    return given


if __name__ == "__main__":
    sys.exit(main())
