"""Files that were made to hurt: for each a name and the files of a folder, `r.yaml` first."""

from __future__ import annotations

import json
from collections.abc import Callable

HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
RUN = "run: {prompts: [a], height: 1024, width: 1024}\n"
KIB = 1024
Files = dict[str, str | bytes]


def _recipe(*lines: str, head: str = HEAD, run: str = RUN) -> Files:
    return {"r.yaml": head + run + "\n".join(lines) + "\n"}


def _chain(length: int, *, wide: int = 0) -> Files:
    body = "".join(f"  k{index}: {index}\n" for index in range(wide))
    args = f"run:\n  args:\n{body.replace('  k', '    k')}" if wide else ""
    files: Files = {f"b{index}.yaml": f"extends: b{index + 1}.yaml\n" + args for index in range(length)}
    return {"r.yaml": "extends: b0.yaml\n" + HEAD + args, **files, f"b{length}.yaml": HEAD}


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    return "\n".join(lines) + "\n"


def _devices(count: int) -> str:
    return "{" + ", ".join(f"c{index}: {index}" for index in range(count)) + "}"


HUGE = "9" * 400
HOSTILE: dict[str, Callable[[], Files]] = {
    "flow-nesting": lambda: {"r.yaml": "a: " + "[" * 100_000},
    "flow-nesting-closed": lambda: {"r.yaml": "a: " + "[" * 100_000 + "]" * 100_000},
    "map-nesting": lambda: {"r.yaml": "{a: " * 100_000},
    "block-nesting": lambda: {"r.yaml": "- " * 100_000},
    "complex-key-nesting": lambda: {"r.yaml": "? " * 500_000},
    "deep-indent": lambda: {"r.yaml": "".join(" " * level + "a:\n" for level in range(1_400))},
    "nested-open-quotes": lambda: {"r.yaml": "a: " + "['" * 100_000},
    "alias-bomb": lambda: {"r.yaml": _bomb()},
    "alias-chain": lambda: {"r.yaml": "a0: &a0 x\n" + "".join(f"a{i}: &a{i} *a{i - 1}\n" for i in range(1, 20_000))},
    "many-aliases": lambda: {"r.yaml": "a: &a x\nb: [" + "*a, " * 200_000 + "*a]\n"},
    "many-anchors": lambda: {"r.yaml": "".join(f"k{i}: &a{i} 1\n" for i in range(60_000))},
    "merge-keys": lambda: {"r.yaml": "a: {x: 1}\n" + "<<: {a: 1}\n" * 80_000},
    "many-tags": lambda: {"r.yaml": "a: [" + "!x 1, " * 150_000 + "]\n"},
    "many-documents": lambda: {"r.yaml": "---\na: 1\n" * 100_000},
    "duplicate-keys": lambda: {"r.yaml": "a: 1\n" * 200_000},
    "duplicate-long-keys": lambda: {"r.yaml": ("k" * 1_000 + ": 1\n") * 1_000},
    "distinct-keys": lambda: {"r.yaml": HEAD + "".join(f"k{index}: 1\n" for index in range(80_000))},
    "unknown-keys": lambda: {"r.yaml": HEAD + "run:\n" + "".join(f"  stepz{index}: 1\n" for index in range(19_000))},
    "unknown-components": lambda: _recipe("components:", *(f"  transforme{i}: null" for i in range(19_000))),
    "unknown-arguments": lambda: {
        "r.yaml": HEAD + "run:\n  prompts: [a]\n  args:\n" + "".join(f"    a{i}: 1\n" for i in range(19_000)),
    },
    "long-key": lambda: {"r.yaml": HEAD + "k" * 1_000_000 + ": 1\n"},
    "long-complex-key": lambda: {"r.yaml": HEAD + "? " + "k" * 1_000_000 + "\n: 1\n"},
    "long-unknown-keys": lambda: {"r.yaml": HEAD + "run:\n" + "".join(f"  {'k' * 900}{i}: 1\n" for i in range(1_100))},
    "long-scalar": lambda: {"r.yaml": HEAD + "name: " + "x" * 1_000_000 + "\n"},
    "long-quoted": lambda: {"r.yaml": HEAD + 'name: "' + "\\u0041" * 170_000 + '"\n'},
    "open-quote": lambda: {"r.yaml": HEAD + "name: '" + "\n\n" * 500_000},
    "folded": lambda: {"r.yaml": HEAD + "name: >\n" + " x\n" * 340_000},
    "long-digits": lambda: {"r.yaml": HEAD + "run: {seed: " + "9" * 1_000_000 + "}\n"},
    "long-hex": lambda: {"r.yaml": HEAD + "run: {seed: 0x" + "f" * 1_000_000 + "}\n"},
    "long-underscores": lambda: {"r.yaml": HEAD + "run: {seed: 1" + "_" * 1_000_000 + "}\n"},
    "long-zeros": lambda: {"r.yaml": HEAD + "run: {seed: " + "0" * 1_000_000 + "1}\n"},
    "long-exponent": lambda: {"r.yaml": HEAD + "run: {guidance: 1e" + "9" * 1_000_000 + "}\n"},
    "long-fraction": lambda: {"r.yaml": HEAD + "run: {guidance: 0." + "1" * 1_000_000 + "}\n"},
    "long-size": lambda: _recipe("devices: {kind: cuda, memory: " + "9" * 1_000_000 + "GiB}"),
    "long-size-dots": lambda: _recipe("devices: {kind: cuda, memory: 1" + ".1" * 400_000 + "}"),
    "many-sizes": lambda: _recipe("devices: {gpus: [" + "1GiB, " * 150_000 + "]}"),
    "tabs": lambda: {"r.yaml": "a: \t\n" * 200_000},
    "tab-comments": lambda: {"r.yaml": "a: # " + "\t#" * 400_000},
    "hashes": lambda: {"r.yaml": "a: '\t" + " #" * 400_000 + "'\t\n"},
    "tabs-in-quotes": lambda: {"r.yaml": "'" + "\n\t" * 300_000},
    "brackets-in-text": lambda: {"r.yaml": HEAD + "name: '" + "[{" * 400_000 + "'\n"},
    "conflict-markers": lambda: {"r.yaml": "<<<<<<< a\n" * 100_000},
    "almost-conflicts": lambda: {"r.yaml": "=======\n" * 130_000},
    "control-characters": lambda: {"r.yaml": "a: " + "\x01" * 1_000_000},
    "not-utf8": lambda: {"r.yaml": b"a: " + b"\xc3\x28" * 500_000},
    "utf16": lambda: {"r.yaml": ("a: 1\n" * 100_000).encode("utf-16")},
    "zeros": lambda: {"r.yaml": b"\0" * 1_000_000},
    "spaces": lambda: {"r.yaml": " " * 1_000_000},
    "newlines": lambda: {"r.yaml": "\n" * 1_000_000},
    "returns": lambda: {"r.yaml": "a: 1\r" * 200_000},
    "dashes": lambda: {"r.yaml": "-" * 1_000_000},
    "colons": lambda: {"r.yaml": ":" * 1_000_000},
    "colons-spaced": lambda: {"r.yaml": "a: x: " * 170_000},
    "percent": lambda: {"r.yaml": "%" * 1_000_000},
    "directives": lambda: {"r.yaml": "%TAG ! tag:x,2000:\n" * 50_000 + "---\na: 1\n"},
    "templates": lambda: {"r.yaml": "a: [" + "{{ x }}, " * 100_000 + "]\n"},
    "complex-keys": lambda: {"r.yaml": "? [a]\n: 1\n" * 100_000},
    "one-byte-too-many": lambda: {"r.yaml": HEAD + "# " + "x" * (1 << 20)},
    "hundred-megabytes": lambda: {"r.yaml": b"#" * 100_000_000},
    "tokens": lambda: {"r.yaml": HEAD + "run:\n  prompts:\n" + ("    - hf_" + "a1" * 15 + "\n") * 19_000},
    "almost-tokens": lambda: {"r.yaml": HEAD + "name: " + "hf_" * 340_000 + "\n"},
    "almost-keys": lambda: {"r.yaml": HEAD + "name: " + "sk-" * 340_000 + "\n"},
    "variables": lambda: {"r.yaml": HEAD + "output: {dir: '" + "${A:-}" * 170_000 + "'}\n"},
    "open-variables": lambda: {"r.yaml": HEAD + "output: {dir: '" + "${A:-" * 200_000 + "'}\n"},
    "many-variables": lambda: _recipe("components:", *(f"  c{i}: {{path: '${{X{i}}}'}}" for i in range(6_000))),
    "wrong-variables": lambda: _recipe("devices:", "  gpus:", *("    - ${X}" for _ in range(19_000))),
    "extends-self": lambda: {"r.yaml": "extends: r.yaml\n"},
    "extends-chain": lambda: _chain(15),
    "extends-long-chain": lambda: _chain(5_000),
    "extends-wide-chain": lambda: _chain(15, wide=19_000),
    "extends-diamond": lambda: {
        "r.yaml": "extends: a.yaml\n" + HEAD,
        "a.yaml": "extends: r.yaml\n",
    },
    "extends-long-name": lambda: {"r.yaml": "extends: '" + "x" * 900_000 + ".yaml'\n" + HEAD},
    "extends-long-path": lambda: {"r.yaml": "extends: '" + "a/" * 400_000 + "x.yaml'\n" + HEAD},
    "extends-nul": lambda: {"r.yaml": 'extends: "a\\x00.yaml"\n' + HEAD},
    "devices-file": lambda: {**_recipe("devices: d.yaml"), "d.yaml": "".join(f"k{i}: 1\n" for i in range(19_000))},
    "prompts": lambda: {"r.yaml": HEAD + "run:\n  prompts:\n" + "    - a red fox in the snow\n" * 19_900},
    "long-prompts": lambda: {"r.yaml": HEAD + "run:\n  prompts:\n" + ("    - " + "fox " * 20_000 + "\n") * 12},
    "images-per-prompt": lambda: _recipe(run="run: {prompts: [a], images_per_prompt: 1000000000}\n"),
    "images-and-prompts": lambda: {
        "r.yaml": HEAD + "run:\n  images_per_prompt: 1000\n  prompts:\n" + "    - a\n" * 19_900,
    },
    "most-pictures": lambda: _recipe(run="run: {prompts: [a], images_per_prompt: 100000}\n"),
    "prompt-file": lambda: {**_recipe(run="run: {prompts: p.txt}\n"), "p.txt": "a fox\n" * 49_000},
    "prompt-file-long": lambda: {**_recipe(run="run: {prompts: p.txt}\n"), "p.txt": "a\n" * 30_000_000},
    "prompt-file-one-line": lambda: {**_recipe(run="run: {prompts: p.txt}\n"), "p.txt": "a" * 60_000_000},
    "prompt-file-too-large": lambda: {**_recipe(run="run: {prompts: p.txt}\n"), "p.txt": b"a" * (65 << 20)},
    "prompt-jsonl-deep": lambda: {**_recipe(run="run: {prompts: p.jsonl}\n"), "p.jsonl": "[" * 1_000_000},
    "prompt-jsonl-wide": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": json.dumps({"prompt": "a", **{f"k{i}": i for i in range(100_000)}}),
    },
    "prompt-jsonl-digits": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": '{"prompt": "a", "seed": ' + "9" * 1_000_000 + "}",
    },
    "prompt-jsonl-many": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": "".join(f'{{"prompt": "a", "height": {16 * (i + 1)}}}\n' for i in range(49_000)),
    },
    "prompt-jsonl-empty-rows": lambda: {**_recipe(run="run: {prompts: p.jsonl}\n"), "p.jsonl": "{}\n" * 20_000_000},
    "prompt-csv-columns": lambda: {
        **_recipe(run="run: {prompts: p.csv}\n"),
        "p.csv": "prompt," + ",".join(f"k{i}" for i in range(100_000)) + "\na" + ",1" * 100_000 + "\n",
    },
    "prompt-csv-many": lambda: {
        **_recipe(run="run: {prompts: p.csv}\n"),
        "p.csv": "prompt,seed,height,steps\n" + "a,1,1024,3\n" * 49_000,
    },
    "prompt-csv-quote": lambda: {**_recipe(run="run: {prompts: p.csv}\n"), "p.csv": 'prompt\n"' + "a\n" * 20_000_000},
    "prompt-csv-same-columns": lambda: {
        **_recipe(run="run: {prompts: p.csv}\n"),
        "p.csv": "prompt" + ",prompt" * 100_000 + "\n" + ("a" + ",a" * 100_000 + "\n") * 20,
    },
    "prompt-txt-emoji": lambda: {
        **_recipe(run="run: {prompts: p.txt}\n"),
        "p.txt": ("\U0001f98a" * 80 + "\n") * 49_000,
    },
    "prompt-txt-long-lines": lambda: {
        **_recipe(run="run: {prompts: p.txt}\n"),
        "p.txt": ("\U0001f98a" + "fox " * 16_000 + "\n") * 520,
    },
    "prompt-jsonl-columns": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": (json.dumps({"prompt": "a", **{f"k{i}": i for i in range(99)}}) + "\n") * 5_000,
    },
    "prompt-jsonl-own-columns": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": "".join(
            json.dumps({"prompt": "a", **{f"k{j}": 1 for j in range(i * 99, i * 99 + 99)}}) + "\n" for i in range(5_000)
        ),
    },
    "prompt-jsonl-sizes": lambda: {
        **_recipe(
            "devices: {kind: cuda, memory: 80GiB, per_node: 6}",
            "parallel: {context: {ulysses: 3, ring: 2}}",
            run="run: {prompts: p.jsonl}\n",
        ),
        "p.jsonl": "".join(f'{{"prompt": "a", "height": {16 * i}, "width": 65521}}\n' for i in range(1, 501)),
    },
    "prompt-jsonl-nested": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": ('{"prompt": "a", "x": ' + "[" * 900 + "]" * 900 + "}\n") * 9_000,
    },
    "prompt-jsonl-broken": lambda: {**_recipe(run="run: {prompts: p.jsonl}\n"), "p.jsonl": '{"prompt": \n' * 2_500_000},
    "prompt-jsonl-slips": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": "".join(f'{{"prompt{i % 10}": 1, "steps": "{"9" * 60_000}"}}\n' for i in range(500)),
    },
    "prompt-jsonl-bad-sizes": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": "".join(f'{{"prompt": "a", "height": {i % 499 + 1}}}\n' for i in range(49_000)),
    },
    "prompt-csv-cells": lambda: {
        **_recipe(run="run: {prompts: p.csv}\n"),
        "p.csv": "prompt,seed\n" + "a,1,2,3\n" * 3_000_000,
    },
    "prompt-jsonl-infinite": lambda: {
        **_recipe(run="run: {prompts: p.jsonl}\n"),
        "p.jsonl": '{"prompt": "a", "guidance": 1e999}\n',
    },
    "folder-config": lambda: {**_recipe(head="version: 1\nmodel: {path: .}\n"), "model_index.json": "[" * 5_000_000},
    "folder-index": lambda: {
        **_recipe(head="version: 1\nmodel: {path: .}\n"),
        "model_index.json": json.dumps(
            {"_class_name": "FluxPipeline", **{f"c{i}": ["a", "b"] for i in range(200_000)}}
        ),
    },
    "folder-large": lambda: {
        **_recipe(head="version: 1\nmodel: {path: .}\n"),
        "model_index.json": '{"_class_name": "FluxPipeline", "x": [' + "1, " * 4_000_000 + "1]}",
    },
    "folder-digits": lambda: {
        **_recipe(head="version: 1\nmodel: {path: .}\n"),
        "model_index.json": '{"x": ' + "9" * 5_000_000 + "}",
    },
    "devices-and-nodes": lambda: _recipe(
        "devices: {gpu: l4, per_node: 1000000000, nodes: 1000000000}", "parallel: {data: 2}"
    ),
    "devices-many": lambda: _recipe("devices: {gpu: h100-sxm-80gb, per_node: 4096}", "parallel: {data: 4096}"),
    "devices-more": lambda: _recipe(
        "devices: {gpu: h100-sxm-80gb, per_node: 1000000000000000000}", "parallel: {data: 4096, tensor: 24}"
    ),
    "degrees": lambda: _recipe("parallel: {tensor: 1000000000000000000, data: 1000000000000000000}"),
    "degrees-most": lambda: _recipe(
        "devices: {kind: cpu}", "parallel: {data: 4096, context: {ulysses: 4096, ring: 4096, uneven: true}}"
    ),
    "degrees-legal": lambda: _recipe("devices: {kind: cpu}", "parallel: {data: 4096, tensor: 24}"),
    "seed": lambda: _recipe(run=f"run: {{prompts: [a], seed: {HUGE}}}\n"),
    "seeds": lambda: _recipe(run="run: {prompts: [a], seeds: [" + "1, " * 19_000 + "]}\n"),
    "huge-everything": lambda: _recipe(
        f"devices: {{per_node: {HUGE}, nodes: {HUGE}, ids: [{HUGE}]}}",
        f"parallel: {{device_map: {{transformer: {HUGE}}}}}",
        run=f"run: {{prompts: [a], height: {HUGE}, width: {HUGE}, steps: {HUGE}, guidance: {HUGE}}}\n",
    ),
    "width": lambda: _recipe(run="run: {prompts: [a], width: 1000000000000, height: 16}\n"),
    "width-and-height": lambda: _recipe(
        "devices: {kind: cuda, memory: 80GiB, per_node: 2}",
        "parallel: {context: {ulysses: 2}}",
        run=f"run: {{prompts: [a], width: {2**63 - 16}, height: {2**63 - 16}, steps: {2**63 - 1}}}\n",
    ),
    "odd-width": lambda: _recipe(
        "devices: {kind: cuda, memory: 80GiB, per_node: 24}",
        "parallel: {context: {ulysses: 24}}",
        run="run: {prompts: [a], width: 9223372036854775007, height: 9223372036854774991}\n",
    ),
    "prime-tokens": lambda: _recipe(
        "devices: {kind: cuda, memory: 80GiB, per_node: 12}",
        "parallel: {context: {ulysses: 3, ring: 4}}",
        run="run: {prompts: [a], width: 16000000000112, height: 16}\n",
    ),
    "frames": lambda: _recipe(
        "devices: {kind: cuda, memory: 80GiB, per_node: 12}",
        "parallel: {context: {ulysses: 12}}",
        head="version: 1\nmodel: {id: Wan-AI/Wan2.1-T2V-1.3B-Diffusers}\n",
        run="run: {prompts: [a], frames: 4000000000000000001, height: 480, width: 832}\n",
    ),
    "steps": lambda: _recipe(run="run: {prompts: [a], steps: 1000000000000000000, batch: 1000000000000000000}\n"),
    "text": lambda: _recipe(run="run: {prompts: [a], args: {max_sequence_length: 1000000000000000000}}\n"),
    "ids": lambda: _recipe("devices: {gpu: l4, ids: [" + ", ".join(str(i) for i in range(19_000)) + "]}"),
    "same-ids": lambda: _recipe("devices: {gpu: l4, ids: [" + "0, " * 19_000 + "]}"),
    "gpus": lambda: _recipe("devices: {gpus: [" + "l4, " * 19_000 + "]}", "parallel: {data: 4}"),
    "unknown-gpus": lambda: _recipe("devices: {gpus: [" + ", ".join(f"rtx-{i}" for i in range(19_000)) + "]}"),
    "long-gpu": lambda: _recipe("devices: {gpu: " + "h100-" * 190_000 + "}"),
    "long-model": lambda: _recipe(head="version: 1\nmodel: {id: " + "black-forest-labs/" * 50_000 + "}\n"),
    "long-pipeline": lambda: _recipe(head=HEAD.replace("}", ", pipeline: " + "FluxPipeline" * 80_000 + "}")),
    "long-dtype": lambda: _recipe(head=HEAD.replace("}", ", dtype: " + "bfloat16" * 100_000 + "}")),
    "long-path": lambda: _recipe(head="version: 1\nmodel: {path: " + "a/" * 400_000 + "}\n"),
    "long-attention": lambda: _recipe("components: {transformer: {attention: " + "native" * 100_000 + "}}"),
    "device-map": lambda: _recipe("devices: {gpu: l4, per_node: 8}", f"parallel: {{device_map: {_devices(19_000)}}}"),
    "device-map-list": lambda: _recipe(
        "devices: {gpu: l4, per_node: 8}",
        "parallel: {device_map: {transformer: [" + ", ".join(str(i) for i in range(19_000)) + "]}}",
    ),
    "device-map-all": lambda: _recipe(
        "devices: {kind: cpu}",
        "parallel: {device_map: {transformer: [" + ", ".join(str(i) for i in range(5_000)) + "]}}",
    ),
    "device-map-far": lambda: _recipe(
        "devices: {gpu: l4, per_node: 1000000000000000000}",
        "parallel: {device_map: {transformer: 999999999999999999}}",
    ),
    "balanced-many": lambda: _recipe("devices: {gpu: l4, per_node: 4096}", "parallel: {device_map: balanced}"),
    "balanced-gpus": lambda: _recipe(
        "devices: {gpus: [" + "l4, rtx-4090, " * 9_000 + "]}", "parallel: {device_map: balanced}"
    ),
    "adapters": lambda: _recipe(head=HEAD.replace("}", ", adapters: [" + "{path: a.safetensors}, " * 6_000 + "]}")),
    "requires": lambda: _recipe("requires:", *(f"  diffuser{i}: '>=0.42'" for i in range(19_000))),
    "requires-long": lambda: _recipe("requires: {diffusers: '" + ">=0.42," * 100_000 + ">=0'}"),
    "requires-digits": lambda: _recipe("requires: {diffusers: '>=" + "9" * 900_000 + "'}"),
    "requires-dots": lambda: _recipe("requires: {diffusers: '>=" + "1." * 400_000 + "x'}"),
    "output-name": lambda: _recipe("output: {name: '" + "{index}" * 100_000 + "'}"),
    "output-width": lambda: _recipe("output: {name: '{index:999999999d}'}"),
    "output-braces": lambda: _recipe("output: {name: '" + "{" * 900_000 + "'}"),
    "environment": lambda: _recipe("launch:", "  env:", *(f"    K{i}: x" for i in range(19_000))),
    "targets": lambda: _recipe("targets:", *(f"  k{i}: {{x: [1, 2, 3]}}" for i in range(3_000))),
    "parallel-components": lambda: _recipe(
        "parallel:", "  components:", *(f"    c{i}: {{device: {i}, tensor: 3}}" for i in range(6_000))
    ),
    "wrong-everywhere": lambda: _recipe(
        "components:", *(f"  c{i}: {{dtype: x, tiling: 3, q: 1}}" for i in range(4_900))
    ),
    "many-types": lambda: _recipe(run="run:\n  prompts: [" + "1, " * 19_000 + "]\n"),
    "suppressions": lambda: {"r.yaml": HEAD + RUN + "name: x  # dcompile: ignore " + "DC503, " * 140_000 + "-- x\n"},
    "suppression-lines": lambda: {"r.yaml": HEAD + RUN + "# dcompile: ignore DC503 -- x\n" * 30_000},
    "suppressions-spaces": lambda: {"r.yaml": HEAD + RUN + "# dcompile: ignore " + " " * 900_000 + "x\n"},
}
