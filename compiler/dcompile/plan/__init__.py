"""Stage 5: `CheckedRecipe` to `Plan`."""
