"""Peaks and fit: pure functions."""
