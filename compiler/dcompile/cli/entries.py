"""Taking an entry out of a YAML text, putting one in, or both, so that every other character stays as it is.

Where that cannot be done without touching a comment, nothing is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import yaml

from dcompile.core.diagnostics import Path

Edit = tuple[int, int, str]
"""From one character to another: the new text."""

_COMMA = re.compile(r"\s*,\s*\Z")
_PLAIN = re.compile(r"[\w./+-]+( [\w./+-]+)*\Z")
_NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")


class Entries:
    """The entries of a recipe's text, by their paths."""

    def __init__(self, text: str) -> None:
        """Read where each entry stands.

        Raises:
            ValueError: where the text is not YAML.
        """
        self.text = text
        try:
            self.root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError) as error:
            raise ValueError("the text is not YAML") from error

    def take_out(self, path: Path, keep: Path = ()) -> list[Edit] | None:
        """The edit that removes an entry, and the mappings above it that would be left empty.

        Args:
            keep: a mapping that stays, with all above it.
        """
        for whole in self._emptied(path, keep):
            edit = self._cut(whole)
            if edit is not None:
                return [edit]
        return None

    def put_in(self, path: Path, value: str, *, is_first: bool = False) -> list[Edit] | None:
        """The edit that adds an entry to the mapping that is nearest to it and there.

        Args:
            value: the entry's value on one line, as it is written in a block.
        """
        found = self._anchor(path)
        if found is None:
            return None
        mapping, rest = found
        if (mapping.flow_style or len(rest) > 1) and not _is_safe_inside(value):
            return None
        entry = _entry(rest, value)
        if mapping.flow_style:
            return self._into_flow(mapping, entry, is_first)
        return self._into_block(mapping, entry, is_first)

    def move(self, path: Path, to: Path) -> list[Edit] | None:
        """The edits that take an entry elsewhere, under the last key of the new path."""
        found, anchor = self._find(path), self._anchor(to)
        if found is None or anchor is None:
            return None
        mapping, i = found
        value = self._text_of(mapping.value[i][1])
        if value is None:
            return None
        keep = to[: len(to) - len(anchor[1])]
        for whole in self._emptied(path, keep):
            if whole[:-1] == keep:  # it stays in the same mapping: the new entry takes the old one's place
                stretch = self._stretch(whole)
                inside = anchor[0].flow_style or len(anchor[1]) > 1
                if stretch is None or (inside and not _is_safe_inside(value)):
                    return None
                return [(*stretch, _entry(anchor[1], value))]
        out, into = self.take_out(path, keep), self.put_in(to, value)
        return None if out is None or into is None else [*out, *into]

    def shown(self, path: Path) -> str:
        """An entry as it is written, on one line."""
        stretch = self._stretch(path)
        return "" if stretch is None else " ".join(self.text[slice(*stretch)].split())

    def _find(self, path: Path) -> tuple[yaml.MappingNode, int] | None:
        """The mapping in which an entry is written, and its number there."""
        node = self._node(path[:-1])
        if not path or not isinstance(node, yaml.MappingNode):
            return None
        at = [i for i, (key, _) in enumerate(node.value) if key.value == path[-1]]
        return (node, at[0]) if len(at) == 1 else None

    def _node(self, path: Path) -> yaml.Node | None:
        node = self.root
        for part in path:
            if isinstance(node, yaml.MappingNode):
                node = next((value for key, value in node.value if key.value == part), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
            else:
                return None
        return node

    def _anchor(self, path: Path) -> tuple[yaml.MappingNode, Path] | None:
        """The lowest mapping above a path that is there, and what of the path has to be written in it."""
        for size in range(len(path) - 1, -1, -1):
            node = self._node(path[:size])
            if node is None:
                continue
            if not isinstance(node, yaml.MappingNode) or self._find(path[: size + 1]) is not None:
                return None
            return node, path[size:]
        return None

    def _emptied(self, path: Path, keep: Path) -> list[Path]:
        """An entry and those above it that hold nothing else, the highest first."""
        found = [path]
        while len(path) > 1:
            path = path[:-1]
            node = self._node(path)
            if not isinstance(node, yaml.MappingNode) or len(node.value) > 1:
                break
            if not isinstance(path[-1], str) or path[-1] == "auto" or keep[: len(path)] == path:
                break
            found.append(path)
        return found[::-1]

    def _stretch(self, path: Path) -> tuple[int, int] | None:
        """Where an entry starts and ends, if no comment stands in it."""
        found = self._find(path)
        if found is None:
            return None
        key, value = found[0].value[found[1]]
        start, end = key.start_mark.index, self._end(value)
        return None if end is None or "#" in self.text[start:end] else (start, end)

    def _end(self, node: yaml.Node) -> int | None:
        """Where a value ends; a block ends with its last value. None for texts in `|` and `>`."""
        if isinstance(node, yaml.ScalarNode):
            return None if node.style in ("|", ">") else int(node.end_mark.index)
        if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
            return int(node.end_mark.index)
        last = node.value[-1]
        return self._end(last[1] if isinstance(node, yaml.MappingNode) else last)

    def _text_of(self, node: yaml.Node) -> str | None:
        """A value as it is written, if that is on one line and more than nothing."""
        end = self._end(node)
        text = "" if end is None else self.text[node.start_mark.index : end]
        is_block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        return None if not text or is_block or "\n" in text or "#" in text else text

    def _cut(self, path: Path) -> Edit | None:
        found, stretch = self._find(path), self._stretch(path)
        if found is None or stretch is None:
            return None
        (mapping, i), (start, end) = found, stretch
        if not mapping.flow_style:
            return self._cut_lines(start, end) if len(mapping.value) > 1 else None
        if len(mapping.value) == 1:
            return (start, end, "")
        if i + 1 < len(mapping.value):
            after = mapping.value[i + 1][0].start_mark.index
            return (start, after, "") if _COMMA.match(self.text[end:after]) else None
        before = self._end(mapping.value[i - 1][1])
        return None if before is None or not _COMMA.match(self.text[before:start]) else (before, end, "")

    def _cut_lines(self, start: int, end: int) -> Edit | None:
        """Whole lines, if nothing else stands on them and no suppression is about them."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", end) + 1 or len(self.text)
        if self.text[first:start].strip() or self.text[end:last].strip():
            return None
        above = self.text[:first].rstrip().rpartition("\n")[2]
        return None if above.lstrip().startswith("#") and "dcompile:" in above else (first, last, "")

    def _into_flow(self, mapping: yaml.MappingNode, entry: str, is_first: bool) -> list[Edit] | None:
        if not mapping.value:
            at = mapping.start_mark.index + 1
            return [(at, at, entry)]
        if is_first:
            at = mapping.value[0][0].start_mark.index
            return [(at, at, f"{entry}, ")]
        end = self._end(mapping.value[-1][1])
        return None if end is None else [(end, end, f", {entry}")]

    def _into_block(self, mapping: yaml.MappingNode, entry: str, is_first: bool) -> list[Edit] | None:
        key = mapping.value[0][0]
        first = self.text.rfind("\n", 0, key.start_mark.index) + 1
        end = self._end(mapping.value[-1][1])
        if end is None:
            return None
        line = " " * key.start_mark.column + entry
        new_line = "\r\n" if "\r\n" in self.text else "\n"
        if is_first:
            return None if self.text[first : key.start_mark.index].strip() else [(first, first, line + new_line)]
        at = self.text.find("\n", end) + 1
        if not at:
            return [(len(self.text), len(self.text), new_line + line)]
        return [(at, at, line + new_line)]


def _is_safe_inside(value: str) -> bool:
    """Whether a value means the same between braces."""
    return value[:1] in "{['\"" or _PLAIN.match(value) is not None


def _entry(path: Sequence[str | int], value: str) -> str:
    """`vae: {tiling: true}` for the rest of a path."""
    for part in reversed(path[1:]):
        value = f"{{{_key(part)}: {value}}}"
    return f"{_key(path[0])}: {value}"


def _key(part: str | int) -> str:
    return str(part) if _NAME.match(str(part)) else json.dumps(part)
