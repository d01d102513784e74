"""The process that `facts/probe.py` starts: a class and its config on stdin, its entry of `classes.json` on stdout.

`null` where diffusers has no such class.
"""

from __future__ import annotations

import json
import sys

import diffusers

from dcompile.facts.generate import describe_entry

if __name__ == "__main__":
    question = json.load(sys.stdin)
    is_there = hasattr(diffusers, question["class"])
    json.dump(describe_entry(question["class"], question["config"]) if is_there else None, sys.stdout)
