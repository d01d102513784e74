"""Stage 1: text to `Document`, plain values and a table of positions."""
