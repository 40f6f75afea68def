"""Answers in a sentence: a language model writes words around slots; only words with a known source are accepted."""
