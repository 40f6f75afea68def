"""Vector search behind one seam: ``protocol`` is the seam, the other modules are what stands behind it."""
