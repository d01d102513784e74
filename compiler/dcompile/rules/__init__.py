"""Stage 4: a recipe and its facts to diagnostics."""
