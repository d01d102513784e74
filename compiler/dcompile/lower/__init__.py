"""Stage 6: `Plan` to `Program`."""
