"""broken.py: the invariants that tests/tidy/broken lists are there, and each is broken on purpose in some table of `struct broken`
(tests/lib/broken.h): an assert that never fails holds nothing."""
import re

import invariants

RULES = ("broken",)
LIST = "tests/tidy/broken"
ROW = re.compile(r'\{\s*(?:"([\w/.]+\.(?:c|h|cu))"|(\w+)),\s*(\d+),\s*\w+,')
DEFINE = re.compile(r'^#define (\w+) "([\w/.]+)"', re.M)


def listed(root):
    """(line of the list, file of the head comment, number)"""
    for number, line in enumerate((root / LIST).read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            path, item = line.split()
            yield number, path, int(item)


def rows(root):
    """(file of the assert, number) of every row of a struct broken list."""
    found = set()
    for file in (root / "tests").rglob("test_*broken*.c"):
        text = file.read_text(encoding="utf-8")
        named = dict(DEFINE.findall(text))
        found.update((m[1] or named.get(m[2]), int(m[3])) for m in ROW.finditer(text))
    return found


def asserting(tree):
    """(file of the head comment, number) -> functions that assert it."""
    return {(source.path, number): [n.strip() for kind, names in invariants.HOLDER.findall(text) if kind == "assert" for n in names.split(",")]
            for source in tree.product() for _, number, text in invariants.items(source)}


def check(tree, breach):
    found, held, where = rows(tree.root), asserting(tree), {}
    for source in tree.product():
        for function in source.functions():
            where.setdefault(function.name, set()).add(source.path)
    for line, path, number in listed(tree.root):
        functions = held.get((path, number))
        if not functions:
            breach("broken", LIST, line, f"{path} has no invariant {number} that an assert holds")
        elif not any((file, number) in found for f in functions for file in where.get(f, ())):
            breach("broken", LIST, line, f"no test breaks {path}, {number}: a row for {', '.join(functions)} in a test_*broken*.c")
