"""The oracle: random recipes, the checker's verdict on each, and what the runtime really does with them.

`README.md` in this folder says how it is run and what it found. `ask.py` is where a recipe gets its outcome.
"""
