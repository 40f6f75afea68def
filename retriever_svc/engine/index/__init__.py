"""Vector search behind one interface: ``protocol`` defines it, the other modules implement it."""
