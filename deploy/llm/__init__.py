"""The language model that plans: prepares its files for llama.cpp, and runs llama.cpp's server on a CPU.

Needs ``requirements/llm.txt`` (``make llm``). Modules import ``gguf`` and ``xllamacpp`` inside functions, so that the
command line loads without them.
"""
