"""Rules about: advice. The catalogue is `rules/catalog.py`."""
