"""What can go wrong with the model's files and its server, each with a message for the person at the terminal."""


class LlmError(Exception):
    """Something that the person who started the command can put right; the message says how."""


class ModelFileError(LlmError):
    """A model's or an adapter's file is missing, damaged, or of another kind."""


class ModelServerError(LlmError):
    """The model's server did not start, or does not answer."""
