"""``nestor eval bodies``: can Nestor build the body of a write operation from a request that gives all its values?"""
