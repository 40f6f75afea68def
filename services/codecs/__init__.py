r"""Conversion of plans to and from the notations of other tools.

========== ====== ====== ==========================================================================================
notation   encode decode  not supported
========== ====== ====== ==========================================================================================
nestful    yes    yes    two answers of one name
openai     yes    yes    two answers of one name
seal       yes    yes    step names, answers, loops, conditions, references deeper than one response field
arazzo     yes    no     loops, conditions, forward references (it is an export)
========== ====== ====== ==========================================================================================

``decode(encode(plan))`` equals ``canonical(plan)`` if the notation can express the plan. Otherwise ``encode`` raises
:class:`CodecError`, unless its docstring says that it leaves the part out.

**Escaping.** In some notations a reference is a string (``"$var1.code$"``, ``"API_call_0"``). There, a literal string
that looks like a reference, with or without leading backslashes, gets one more backslash: the text ``"$var1.code$"``
becomes ``"\$var1.code$"``. Decoding removes exactly one backslash. No other string is changed.
"""

from services.codecs.text import CodecError, canonical

__all__ = ["CodecError", "canonical"]
