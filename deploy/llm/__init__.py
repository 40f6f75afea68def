"""The language model that plans: its files made ready for llama.cpp, and llama.cpp's server on a CPU.

Needs ``requirements/llm.txt`` (``make llm``). Modules import ``gguf`` and ``xllamacpp`` where they use them, so that
the command line loads without.
"""
