"""Trains the language model: conversations built from recorded and generated requests, and the finetuner."""
