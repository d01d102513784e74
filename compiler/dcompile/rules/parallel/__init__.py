"""Rules about: parallel. The catalogue is `rules/catalog.py`."""
