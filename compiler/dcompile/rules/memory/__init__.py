"""Rules about: memory. The catalogue is `rules/catalog.py`."""
