"""Answers in a sentence: a language model writes words around slots, and only words that something vouches for."""
