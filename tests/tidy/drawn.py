"""drawn.py: forty numbered invariants, drawn by lot over all rooms, are broken on purpose in some table of `struct broken` (tests/lib/broken.h).

The lot is the hash of an invariant's house, file and number, so that nobody chooses and a room's lot does not hang on another's.
"""
import hashlib
import re

import invariants

RULES = ("drawn",)
HOUSES = {"embedding/engine": 8, "embedding": 10, "server": 10, "proto": 5, "worker": 5, "dense": 2}  # a room's rank: its longest row
ROW = re.compile(r'\{\s*(?:"([\w/.]+\.(?:c|h|cu))"|(\w+)),\s*(\d+),\s*\w+,')
DEFINE = re.compile(r'^#define (\w+) "([\w/.]+)"', re.M)


def house(path):
    return max((h for h in HOUSES if path.startswith(h + "/")), key=len, default=None)


def drawn(tree):
    """House -> its (path, line, number, functions that assert it), by lot."""
    found = {h: [] for h in HOUSES}
    for source in tree.product():
        for line, number, text in invariants.items(source):
            functions = [n.strip() for kind, names in invariants.HOLDER.findall(text) if kind == "assert" for n in names.split(",")]
            if functions and house(source.path):
                lot = hashlib.sha256(f"{source.path}:{number}".encode()).hexdigest()
                found[house(source.path)].append((lot, source.path, line, number, functions))
    return {h: [one[1:] for one in sorted(all_)[:HOUSES[h]]] for h, all_ in found.items()}


def rows(root):
    """(file of the assert, number) of every row of a struct broken list."""
    found = set()
    for file in (root / "tests").rglob("test_*broken*.c"):
        text = file.read_text(encoding="utf-8")
        named = dict(DEFINE.findall(text))
        found.update((m[1] or named.get(m[2]), int(m[3])) for m in ROW.finditer(text))
    return found


def check(tree, breach):
    broken = rows(tree.root)
    where = {}
    for source in tree.product():
        for function in source.functions():
            where.setdefault(function.name, set()).add(source.path)
    for name, lot in drawn(tree).items():
        for path, line, number, functions in lot:
            if not any((file, number) in broken for f in functions for file in where.get(f, ())):
                breach("drawn", path, line, f"{number}. is drawn, and no test breaks it: a row for {', '.join(functions)} in a test_*broken*.c")
