#!/usr/bin/env python3
"""walk.py BUILD: the walk of proto/wire/README.md ("a message of your own") on a copy of the tree, kept under BUILD: its blocks are put where it says,
no other file is touched, and what comes of it is compiled and asked (walk.c)."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("proto", "deploy/reference", "server/coord", "worker/data/kafka", "tests/sim", "tests/wire")
FILES_MOST = 4


def walk():
    """The section's code blocks and its rows."""
    text = (ROOT / "proto/wire/README.md").read_text(encoding="utf-8").split("## A message of your own")[1]
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.S | re.M)
    rows = re.findall(r"`(X\(.*?\))`", text)
    assert len(blocks) == 3 and len(rows) == 3, "the walk has three blocks and three rows"
    return blocks, rows


def row_into(text, table, row):
    """At the end of the list that `#define TABLE(X)` begins."""
    begin = re.search(rf"#define {table}\(X[,)]", text).start()
    end = begin + re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", text[begin:]).end()
    return text[:end - 1] + f" \\\n    {row}\n" + text[end:]


def before(text, mark, block):
    assert text.count(mark) == 1, f"{mark!r} is there once"
    return text.replace(mark, block + "\n" + mark)


def changed(blocks, rows):
    """Path -> its new text, of the files that the walk touches."""
    wire, coord = (ROOT / p for p in ("proto/wire/wire.h", "server/coord/dispatch.c"))
    lists = before(wire.read_text(encoding="utf-8"), "/* X(NAME, wire number,", blocks[0])
    handler = before(coord.read_text(encoding="utf-8"), "/* ---- dispatch ---", blocks[1])
    taken = re.findall(r"^    X\([A-Z_]+, (\d+), \d, \d\)", lists, re.M)
    allow = row_into((ROOT / "proto/wire/allow.h").read_text(encoding="utf-8"), "WIRE_ALLOW_MAP", rows[1])
    row = rows[0].replace(", N,", f", {max(map(int, taken)) + 1},")
    return {"proto/wire/wire.h": row_into(lists, "WIRE_MAP", row),
            "proto/wire/allow.h": allow, "server/coord/dispatch.c": row_into(handler, "DISPATCH_MAP", rows[2]),
            "tests/wire/walk_call.h": blocks[2]}


def put(path, text):
    """Left alone where it says the same: then it is not compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def copy(tree, touched):
    kept = set()
    for source in [p for f in FOLDERS for p in (ROOT / f).rglob("*") if p.suffix in (".c", ".h", ".in", ".awk", ".proto")]:
        name = source.relative_to(ROOT).as_posix()
        put(tree / name, touched.get(name) or source.read_text(encoding="utf-8"))
        kept.add(name)
    for name in touched.keys() - kept:
        put(tree / name, touched[name])
    for old in [p for p in tree.rglob("*.[ch]") if p.relative_to(tree).as_posix() not in kept | touched.keys()]:
        old.unlink()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    tree, made = build / "walk/tree", build / "walk/build"
    touched = changed(*walk())
    assert len(touched) <= FILES_MOST, f"the walk touches {', '.join(touched)}"
    copy(tree, touched)
    # The house's own rules, with the program of the walk in the place of all others.
    text = re.sub(r"^shoal_room\([^)]*\)", lambda m: " ".join(m[0].split()), (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), flags=re.M)
    rooms = ("shoal_base", "shoal_job", "shoal_metric", "shoal_meter", "shoal_net", r"shoal_coord\w*")
    keep = [line for line in text.split("\n") if not re.match(r"shoal_room\(|shoal_program\(|add_subdirectory\(dense|target_link_libraries\(shoal_worker|add_library\(shoal_worker", line)
            or re.match(rf"shoal_room\(({'|'.join(rooms)}) ", line)]
    text = re.sub(r"# libshoal: .*?pkgconfig\)\n", "", "\n".join(keep).split("if(SHOAL_TESTS)")[0], flags=re.S)  # a library of the worker's rooms
    text += "file(GLOB sim tests/sim/sim*.c)\nadd_executable(walk tests/wire/walk.c ${sim})\ntarget_link_libraries(walk PRIVATE shoal_coord)\n"
    put(tree / "CMakeLists.txt", text)
    cache = dict(line.split(":", 1) for line in (build / "CMakeCache.txt").read_text().split("\n") if re.match(r"CMAKE_(C_COMPILER|C_COMPILER_LAUNCHER|BUILD_TYPE|GENERATOR):", line))
    said = {name: value.split("=", 1)[1] for name, value in cache.items()}
    options = [f"-D{name}={value}" for name, value in said.items() if name != "CMAKE_GENERATOR"]
    run = [["cmake", "-G", said["CMAKE_GENERATOR"], "-S", str(tree), "-B", str(made), *options],
           ["cmake", "--build", str(made), "--target", "walk"], [str(made / "bin/walk")]]
    for command in run:
        done = subprocess.run(command, capture_output=True, text=True)
        print(done.stdout[-4000:] + done.stderr if done.returncode else done.stdout[-200:])
        if done.returncode:
            sys.exit(f"{' '.join(command)}: status {done.returncode}")


if __name__ == "__main__":
    main()
