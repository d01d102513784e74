"""Stage 3: names in the recipe to what is known about models and hardware."""
