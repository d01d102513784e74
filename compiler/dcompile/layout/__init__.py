"""Shard arithmetic and bytes: pure functions."""
