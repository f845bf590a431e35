#!/usr/bin/env python3
"""figures: how large a tree is and how it reads, by folder. deploy/test prints them; no figure fails a test.

    figures.py ROOT [--rooms]             by top folder, or by room
    figures.py --control                  exit 0 only when each figure counts a sample as it should
    figures.py ROOT --places KIND [--in DIR]
                                          each place that a figure counts, as path:line: text; KIND is who, begins or ternaries

lines      all lines of the C and CUDA sources
tokens     a token is a run of letters, digits and _, a string or character literal, or any other character that is
           neither blank nor part of a comment: `a->b += 2;` has 8. Sources that the build generates are not in the tree
           and are not counted.
fn, a/fn   functions with a body, and assertions a function
median     lines of the middle file
who        who, whom, whoever, nobody, somebody and anybody in 1,000 words of comments and pages (*.md)
begins     the share of comments, in per cent, that begin with Of, What, Whether, Likewise or Those
?:         ternaries in 1,000 lines
"""
import argparse
import collections
import pathlib
import re
import signal
import statistics
import sys

sys.dont_write_bytecode = True

import docs
from tree import Source, Tree

ANCHORS = {"who": "0-0.3", "begins": "<1.1", "?:": "1.2-5.9"}  # dqlite, libuv, nng and valkey
WIDTHS = {"files": 6, "lines": 8, "tokens": 10, "fn": 7, "a/fn": 6, "median": 8, "max": 6, "who": 8, "begins": 8, "?:": 9}
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\w+|[^\w\s]')
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
WHO = re.compile(r"\b(?:who|whom|whoever|nobody|somebody|anybody)\b", re.I)
BEGINS = re.compile(r"(?:of|what|whether|likewise|those)\b", re.I)
# What stands before the first word of a comment: its sign, the name of the file, a number of a list.
BEFORE = re.compile(r"(?:/\*+|//)[\s*]*(?:[\w.{},/]+\.(?:[chu,{}]+): )?(?:\d+\. )?")


def places(source, kind):
    """Positions in a source of what a figure counts."""
    if kind == "ternaries":
        return [m.start() for m in re.finditer(r"\?", source.code)]
    if kind == "begins":
        return [start for start, text in source.comments if BEGINS.match(text, BEFORE.match(text).end())]
    return [start + m.start() for start, text in source.comments for m in WHO.finditer(text)]


class Row:
    def __init__(self):
        self.lines, self.count = [], collections.Counter()

    def add_source(self, source):
        self.lines.append(source.text.count("\n"))
        self.count.update(
            tokens=len(TOKEN.findall(source.bare)),
            functions=len(source.functions()),
            asserts=len(re.findall(r"(?<!define )\bSHOAL_(?:VERIFY_)?ASSERT\s*\(", source.code)),
            words=sum(len(WORD.findall(text)) for _, text in source.comments),
            comments=len(source.comments),
            **{kind: len(places(source, kind)) for kind in ("who", "begins", "ternaries")})

    def add_page(self, text):
        self.count.update(words=len(WORD.findall(text)), who=len(WHO.findall(text)))

    def show(self, name):
        n = self.count
        lines = sum(self.lines)
        values = {"files": len(self.lines), "lines": lines, "tokens": n["tokens"], "fn": n["functions"],
                  "a/fn": f"{n['asserts'] / max(1, n['functions']):.2f}",
                  "median": f"{statistics.median(self.lines or [0]):.0f}", "max": max(self.lines, default=0),
                  "who": f"{1000 * n['who'] / max(1, n['words']):.1f}",
                  "begins": f"{100 * n['begins'] / max(1, n['comments']):.1f}%",
                  "?:": f"{1000 * n['ternaries'] / max(1, lines):.1f}"}
        print_row(name, values)


def print_row(name, values):
    print(f"{name:26}" + "".join(f"{values.get(column, ''):>{width}}" for column, width in WIDTHS.items()))


def top(path):
    return path.split("/")[0] if "/" in path else "(root)"


def show_table(tree, pages, folder_of):
    rows = collections.defaultdict(Row)
    for source in tree.sources.values():
        total = "tests" if source.path.startswith("tests/") else "product"
        for name in {folder_of(source.path), total}:
            rows[name].add_source(source)
    for path, text in pages.items():
        total = top(path) if top(path) in ("tests", "(root)") else "product"
        for name in {folder_of(path), total}:
            rows[name].add_page(text)
    totals = ("product", "tests", "(root)")
    print_row("folder", {column: column for column in WIDTHS})
    print_row("other projects", ANCHORS)
    for name in sorted(rows.keys() - {*totals}) + [name for name in totals if name in rows]:
        rows[name].show(name)


def show_places(tree, pages, kind, folder):
    def inside(path):
        return not folder or f"{path}/".startswith(folder.strip("/") + "/")

    for source in filter(lambda source: inside(source.path), tree.sources.values()):
        for position in places(source, kind):
            print_place(source.path, source.text, position)
    for path, text in pages.items():
        for m in WHO.finditer(text) if kind == "who" and inside(path) else ():
            print_place(path, text, m.start())


def print_place(path, text, position):
    end = text.find("\n", position)
    line = text[text.rfind("\n", 0, position) + 1:end if end >= 0 else len(text)]
    print(f"{path}:{text.count(chr(10), 0, position) + 1}: {line.strip()}")


SAMPLE = '''/* sample.c: of a file, for who reads it */
static int pick(int n) /* 1. Whether any */
{
    SHOAL_ASSERT(n > 0);
    return n > 1 ? '?' : x->y; // "nobody"
}
'''


def control():
    row = Row()
    row.add_source(Source("proto/sample.c", SAMPLE))
    row.add_page("Somebody reads a page")
    expected = {"tokens": 28, "functions": 1, "asserts": 1, "words": 16, "comments": 3, "who": 3, "begins": 2, "ternaries": 1}
    if row.count != expected or row.lines != [6]:
        print(f"figures control: {dict(row.count)}, {expected} expected; {row.lines}")
        return 1
    return 0


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # | head
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--rooms", action="store_true")
    parser.add_argument("--places", choices=("who", "begins", "ternaries"))
    parser.add_argument("--in", dest="folder", default="")
    given = parser.parse_args()
    if given.control:
        return control()
    if given.root is None:
        parser.error("which tree?")
    tree = Tree(pathlib.Path(given.root).resolve())
    pages = docs.pages(tree)
    if given.places:
        show_places(tree, pages, given.places, given.folder)
    else:
        show_table(tree, pages, (lambda path: path.rpartition("/")[0] or "(root)") if given.rooms else top)
    return 0


sys.exit(main())
