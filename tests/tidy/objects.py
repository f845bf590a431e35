"""objects.py: what the compiler made of the product: symbols by nm; names, their headers and who asks for them; circles of calls inside a
room."""
import json
import os
import re
import subprocess

from rooms import room_of
from tree import PRODUCT

RULES = ("names", "declared", "asked", "circles")
CIRCLE_MOST = 8
DEFINES = "TDBRCVWG"
# Asked for by name and not through a header: the system's main, a module's door (dlsym), what RocksDB's own code calls.
ASKED = re.compile(r"main|shoal_backend_v\d+|shoal_cuda_\w+|_ZN7rocksdb\w+")
CARD = re.compile(r"dense/cuda/device_(?!host)")  # built where there is nvcc, and so not everywhere
PREFIXED = {"dense/cuda": "cuda", "embedding": "engine", **{f"server/coord{room}": "coord" for room in ("", "/store", "/fleet", "/core", "/work", "/keep", "/figures", "/job")}}  # their names may begin with the folder's word: coord_flow_step, cuda_copy, engine_copy_read


class Object:
    def __init__(self, path):
        self.path, self.defined, self.undefined = path, set(), set()


class Objects:
    """The product's objects of a build, one for each source."""

    def __init__(self, root, build):
        files = {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            made = re.search(r"\s-o\s+(\S+)", entry["command"])
            file = os.path.join(entry["directory"], made[1]) if made else ""
            if path.startswith(tuple(f + "/" for f in PRODUCT)) and path not in files and not CARD.match(path):
                files[path] = file
        self.missing = [path for path, file in files.items() if not os.path.exists(file)]
        self.all = self.read({path: file for path, file in files.items() if path not in self.missing})
        self.defined = {}
        for one in self.all:
            for symbol in one.defined:
                self.defined.setdefault(symbol, []).append(one.path)

    @staticmethod
    def read(files):
        by_file = {file: Object(path) for path, file in files.items()}
        said = subprocess.run(["nm", "-gA", *by_file], capture_output=True, text=True, check=True).stdout if files else ""
        for line in said.split("\n"):
            m = re.fullmatch(r"(.*?):\s*[0-9a-f]*\s*([A-Za-z]) (\S+)", line)
            if m and not m[3].startswith("__"):  # the compiler's and sanitizers' own
                one = by_file[m[1]]
                (one.defined if m[2] in DEFINES else one.undefined).add(m[3])
        return list(by_file.values())


def declarations(tree):
    """Name -> product headers that declare it as a function or a variable at file scope."""
    found = {}
    for header in tree.product():
        if not header.path.endswith(".h"):
            continue
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", header.code, flags=re.M)
        text = re.sub(r'extern\s+"\s*"\s*\{', "", text)
        flat, depth = [], 0
        for part in re.split(r"([{}])", text):
            depth += {"{": 1, "}": -1}.get(part, 0)
            flat.append(part if depth <= 0 and part != "}" else ";" if part == "{" else "")
        for statement in "".join(flat).split(";"):
            if re.search(r"\b(typedef|static)\b", statement):
                continue
            m = re.search(r"\b([a-z]\w*)\s*\((?!\*)", statement) or re.search(r"\bextern\b.*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*$", statement, re.S)
            if m:
                found.setdefault(m[1], set()).add(header.path)
    return found


def listed(tree):
    """Patterns of names that a list in a header declares, a row each (`void optimizer_##name##_start(`) -> that header."""
    found = {}
    for header in tree.product():
        for define in re.findall(r"^#define (?:[^\n]*\\\n)*[^\n]*", header.code, re.M) if header.path.endswith(".h") else ():
            for name in re.findall(r"\b([a-z]+_##\w+(?:##\w+)?)(?=\(|;)", define):
                found[re.compile(re.sub(r"##\w+?(?:##|$)", r"\\w+", name))] = header.path
    return found


def stems(path):
    """Beginnings that names of a header may have: mark.h declares mark_* and marks_*."""
    folder, _, base = path.rpartition("/")
    stem = re.sub(r"_(inner|state)$", "", base.rsplit(".", 1)[0])
    return [stem, stem[:-1] if stem.endswith("s") else stem + "s", *([PREFIXED[folder]] if folder in PREFIXED else [])]


def askers(tree, objects):
    """Name -> files whose objects ask for it, and those that say it where this build does not: under a macro, for a card, in a test."""
    found = {}
    for source in tree.sources.values():
        if source.path.startswith("tests/") or not source.path.endswith(".h"):
            for name in set(re.findall(r"\b[a-z]\w*", source.code)):
                found.setdefault(name, set()).add(source.path)
    for one in objects.all:
        for symbol in one.undefined:
            found.setdefault(symbol, set()).add(one.path)
    return found


def check(tree, objects, breach):
    headers, lists, asking = declarations(tree), listed(tree), askers(tree, objects)
    for symbol, paths in sorted(objects.defined.items()):
        places = sorted(headers.get(symbol) or {header for name, header in lists.items() if name.fullmatch(symbol)})
        if ASKED.fullmatch(symbol):
            continue
        if not asking.get(symbol, set()) - set(paths):
            breach("asked", paths[0], 1, f"no other file asks for {symbol}: make it static, or let it go")
        if len(places) != 1:
            breach("declared", paths[0], 1, f"{symbol} is declared in {', '.join(places) or 'no header'}")
        elif not any(symbol == stem or symbol.startswith(stem + "_") for stem in stems(places[0])):
            breach("names", places[0], 1, f"{symbol} does not begin with {stems(places[0])[0]}_")
    for circle in circles(objects):
        if len(circle) > CIRCLE_MOST:
            breach("circles", room_of(circle[0]), 1, f"{len(circle)} objects call each other in a circle: {', '.join(circle)}")


def circles(objects):
    """Objects of one room that reach each other by calls: lists of paths, the longest first."""
    calls = {}
    for one in objects.all:
        near = {p for s in one.undefined for p in objects.defined.get(s, ()) if room_of(p) == room_of(one.path)}
        calls.setdefault(one.path, set()).update(near)
    reached = {}
    for path in calls:
        seen, todo = set(), [path]
        while todo:
            for near in calls[todo.pop()] - seen:
                seen.add(near)
                todo.append(near)
        reached[path] = seen
    found = {tuple(sorted(q for q in reached[p] if p in reached[q])) for p in calls if p in reached[p]}
    return sorted((list(c) for c in found if len(c) > 1), key=lambda c: (-len(c), c))


def arrows(objects, house):
    """Of the objects below a folder: how many there are, how many call which, and the share of all possible arrows that is."""
    inside = [one for one in objects.all if one.path.startswith(house + "/")]
    calls = {(one.path, p) for one in inside for s in one.undefined for p in objects.defined.get(s, ()) if p.startswith(house + "/") and p != one.path}
    return len(inside), len(calls), len(calls) / (len(inside) * (len(inside) - 1))
