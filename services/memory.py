"""What a process holds on to."""

import ctypes


def give_back() -> None:
    """Return memory that is free to the system, after work that has needed much of it for a moment.

    glibc keeps what its threads have freed, hundreds of megabytes after a large import. Elsewhere this does nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
