"""The persistent cache: an optimisation only, which may be deleted, spoilt or read-only without changing a result.

Nothing here imports more than the interpreter has loaded already: an unchanged check is answered from here.
"""
