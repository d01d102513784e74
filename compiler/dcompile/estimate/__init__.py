"""Seconds of a step and of a job: pure functions over recipe, facts and layout. Every constant is in `hardware/`."""
