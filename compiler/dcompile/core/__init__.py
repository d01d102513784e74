"""Codes, diagnostics, spans and units: knows no stage."""
