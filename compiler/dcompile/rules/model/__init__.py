"""Rules about: model. The catalogue is `rules/catalog.py`."""
