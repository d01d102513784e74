"""Stage 2: `Document` to `Recipe`."""
