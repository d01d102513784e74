"""Reads `plan.json` on every rank and runs it. Imports no compiler stage.

`launch.run_plan` starts the ranks, `worker` is what each of them runs, and `load.load_pipeline` builds the sharded
pipeline inside a process group.
"""
