"""Memory of the process."""

import ctypes


def trim_memory() -> None:
    """Return free memory to the operating system. Call it after work that needed much memory for a short time.

    glibc keeps memory that its threads have freed, hundreds of megabytes after a large import. On systems without
    glibc this does nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
