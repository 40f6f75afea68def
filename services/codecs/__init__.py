r"""Plans in other people's notations, and back.

========== ====== ====== ==========================================================================================
notation   encode decode  what it cannot say
========== ====== ====== ==========================================================================================
nestful    yes    yes    two answers of one name
openai     yes    yes    two answers of one name
seal       yes    yes    step names, answers, loops, conditions, references deeper than one response field
arazzo     yes    no     loops, conditions, forward references (it is an export)
========== ====== ====== ==========================================================================================

``decode(encode(plan))`` is ``canonical(plan)`` in all that a notation can say; what it cannot say, ``encode`` refuses
with a :class:`CodecError` unless its own docstring says that it is left out.

**Escaping.** In the notations where a reference is a string (``"$var1.code$"``, ``"API_call_0"``), a literal string
that reads like a reference is written with a backslash before it, and so is one that is already written that way:
``"$var1.code$"`` the text becomes ``"\$var1.code$"``. Decoding takes exactly one backslash off. No other string is
changed.
"""

from services.codecs.text import CodecError, canonical

__all__ = ["CodecError", "canonical"]
