"""Stage 7: `Program` to files."""
