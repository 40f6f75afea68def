"""Errors of the model's files and its server. Each message is written for the person at the terminal."""


class LlmError(Exception):
    """An error that the user of the command can fix; the message says how."""


class ModelFileError(LlmError):
    """A file of a model or an adapter is missing, damaged, or has an unsupported format."""


class ModelServerError(LlmError):
    """The model's server did not start, or does not answer."""
