"""``nestor eval bodies``: can the body of a writing operation be built from a request that says all it needs?"""
