#!/usr/bin/env python3
"""figures: how large a tree is, and how well it is held, by folder. For reading; no test.

    figures.py ROOT [--rooms]      by top folder, or by room

lines are all lines; gen those that say they are generated; asserts SHOAL_ASSERT, NULL those of them that only compare with
NULL, VERIFY the costly ones, static _Static_assert; fn functions with a body; a/fn asserts and VERIFY a function; >100 lines
over 100 columns; <60 files under 60 lines.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True

from tree import Tree

HEAD = f"{'folder':26}{'files':>6}{'lines':>7}{'gen':>5}{'asserts':>8}{'NULL':>5}{'VERIFY':>7}{'static':>7}{'fn':>6}{'a/fn':>6}{'>100':>6}{'median':>7}{'max':>6}{'<60':>5}"
DEFINED = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", re.M)


def functions(tree):
    """Path -> number of functions: universal-ctags, or our own reading of braces."""
    counts = {source.path: len(source.functions()) for source in tree.sources.values()}
    if shutil.which("ctags"):
        paths = [source.path for source in tree.product()]
        said = subprocess.run(["ctags", "-x", "--_xformat=%F %n", "--kinds-C=f", "--kinds-C++=f", "--kinds-CUDA=f", "-L", "-"], cwd=tree.root,
                              input="\n".join(paths), capture_output=True, text=True)
        if said.returncode == 0:
            counts = {path: 0 for path in counts}
            for line in said.stdout.splitlines():
                counts[line.split()[0]] += 1
    return counts


def null_only(call):
    """SHOAL_ASSERT(p != NULL), of one or several."""
    inside = call[call.index("(") + 1:call.rindex(")")]
    return all(re.fullmatch(r"[^&|?]*[!=]= NULL\s*", part) for part in inside.split("&&"))


def row(name, sources, count):
    lines = [source.text.count("\n") for source in sources]
    code = [DEFINED.sub("", source.code) for source in sources]
    calls = [m[0] for text in code for m in re.finditer(r"\bSHOAL_ASSERT\s*\([^;]*;", text)]
    costly = sum(len(re.findall(r"\bSHOAL_VERIFY\w*\s*\(", text)) for text in code)
    static = sum(len(re.findall(r"\b_Static_assert\s*\(", source.code)) for source in sources)
    made = sum(n for source, n in zip(sources, lines) if re.search(r"\bgenerated\b.*\bdo not edit", source.text[:500], re.I | re.S))
    number = sum(count[source.path] for source in sources)
    wide = sum(len(line) > 100 for source in sources for line in source.text.split("\n"))
    density = (len(calls) + costly) / number if number else 0
    print(f"{name:26}{len(sources):6}{sum(lines):7}{made:5}{len(calls):8}{sum(map(null_only, calls)):5}{costly:7}{static:7}{number:6}{density:6.2f}{wide:6}"
          f"{statistics.median(lines):7.0f}{max(lines):6}{sum(n < 60 for n in lines):5}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("root")
    parser.add_argument("--rooms", action="store_true")
    given = parser.parse_args()
    tree = Tree(pathlib.Path(given.root).resolve())
    count = functions(tree)
    folders = {}
    for source in tree.product():
        folders.setdefault(source.folder if given.rooms else source.path.split("/")[0], []).append(source)
    print(HEAD)
    for folder, sources in folders.items():
        row(folder, sources, count)
    row("product", tree.product(), count)
    row("tests", [s for s in tree.sources.values() if s.path.startswith("tests/")], {p: len(s.functions()) for p, s in tree.sources.items()})


main()
