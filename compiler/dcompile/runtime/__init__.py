"""Reads `plan.json` on every rank and runs it. Imports no compiler stage."""
