"""plants.py: the faults of tests/plants: every patch applies to the tree, and has a row in the table."""
from tree import PRODUCT

RULES = ("plants",)


class Stale(Exception):
    """A patch that does not apply."""


def hunks(text):
    """(path, old lines, new lines) of each hunk of a patch. Line numbers do not count."""
    path, found = None, []
    for line in text.splitlines():
        if line.startswith("--- a/"):
            path = line[len("--- a/"):]
        elif line.startswith("@@"):
            found.append((path, [], []))
        elif found and not line.startswith("+++ b/"):
            for side, kinds in ((1, " -"), (2, " +")):
                if (line or " ")[0] in kinds:
                    found[-1][side].append(line[1:])
    return found


def places(lines, part):
    return [i for i in range(len(lines) - len(part) + 1) if lines[i:i + len(part)] == part]


def replaced(lines, old, new):
    """The file's lines after one hunk, and the number of its places: 1, or the lines are None. If the whole hunk is nowhere, its lines of
    context do not count, from the outside in."""
    old, new = list(old), list(new)
    while True:
        at = places(lines, old)
        if len(at) == 1:
            return lines[:at[0]] + new + lines[at[0] + len(old):], 1
        ends = [end for end in (0, -1) if old and new and old[end] == new[end]]
        if at or not ends or len(old) == len(ends):
            return None, len(at)
        for end in ends:
            del old[end], new[end]


def sources(root):
    return [file for folder in PRODUCT for file in sorted((root / folder).rglob("*.c"))]


def applied(root, patch, follow=False):
    """Path -> (text, text with the fault). `follow`: the lines of a hunk may be in another file by now."""
    made = {}
    for path, old, new in hunks(patch.read_text()):
        def lines_of(file):
            return made[file][1] if file in made else (root / file).read_text().split("\n") if (root / file).is_file() else []
        lines, count = replaced(lines_of(path), old, new)
        if count == 0:
            others = [p.relative_to(root).as_posix() for p in sources(root)]
            others = [p for p in others if replaced(lines_of(p), old, new)[1] == 1]
            if follow and len(others) == 1:
                path, (lines, count) = others[0], replaced(lines_of(others[0]), old, new)
        if count != 1:
            first = next((a for a, b in zip(old, [*new, None]) if a != b), old[-1]).strip()
            where = f"are now in {others[0]}: --renew {patch.stem} writes that path" if count == 0 and len(others) == 1 else \
                f"are {'in no place' if count == 0 else f'in {count} places'}: write the patch for the code of today"
            raise Stale(f"{patch.name} does not apply to {path}: its lines around `{first}` {where}")
        made.setdefault(path, [(root / path).read_text(), None])[1] = lines
    return {path: (before, "\n".join(lines)) for path, (before, lines) in made.items()}


def table(folder):
    """Rows of the table: name, program, variables."""
    return [line.split() for line in (folder / "table").read_text().splitlines() if line and not line.startswith("#")]


def faults(root, folder):
    """(name, what is wrong) of each patch that does not apply, and of each name with a row or a patch alone."""
    named, patches = {row[0] for row in table(folder)}, {patch.stem: patch for patch in folder.glob("*.patch")}
    found = [(name, f"{name}.patch has no row in the table" if name in patches else f"there is no {name}.patch") for name in sorted(named ^ set(patches))]
    for name, patch in sorted(patches.items()):
        try:
            made = applied(root, patch)
        except Stale as stale:
            found.append((name, str(stale)))
            continue
        if not made or any(before == after or not path.endswith((".c", ".py")) for path, (before, after) in made.items()):
            found.append((name, f"{patch.name} changes nothing, or another file than a .c or .py"))
    return found


def check(tree, breach):
    folder = tree.root / "tests/plants"
    for name, text in faults(tree.root, folder) if folder.is_dir() else ():
        breach("plants", f"tests/plants/{name}.patch", 1, text)
