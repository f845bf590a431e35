"""docs.py: pages: no file named that is not there, and functions where a page says that they are: `journal_append` (embedding/journal/journal.c)."""
import fnmatch
import re

from rooms import DOORS

RULES = ("gone", "pointed")
FILE = re.compile(r"(?<![\w<])[\w/{},*.-]*[\w}*]\.(?:\{[chu,]+\}|cu|[ch])\b")
POINTED = re.compile(r"((?:`\w+`[^`(|\n]*)+)\(([\w/*{},]+\.c)\)")
# Made by a reader who follows the page.
EXAMPLES = re.compile(r".*(deep_crossing|opt_momentum|read_words|own_(model|optimizer|format))\.c")


def pages(tree):
    return {p.relative_to(tree.root).as_posix(): p.read_text(encoding="utf-8") for p in tree.files("*.md")
            if not p.relative_to(tree.root).as_posix().startswith((".", "tests/tidy/bad/", "tests/gpu/RESULTS"))}


def spread(name):
    """{a,b}.c -> a.c b.c"""
    m = re.search(r"\{([^{}]*)\}", name)
    return [one for part in m[1].split(",") for one in spread(name[:m.start()] + part + name[m.end():])] if m else [name]


def foreign(name):
    return EXAMPLES.fullmatch(name) or any(re.fullmatch(pattern, name) for pattern in DOORS)


def exists(name, paths):
    return any(fnmatch.fnmatch(path, "*/" + name) or fnmatch.fnmatch(path, name) for path in paths)


def check(tree, breach):
    found = pages(tree)
    for page, text in found.items():
        for m in FILE.finditer(text):
            for name in spread(m[0]):
                if not foreign(name) and not exists(name.lstrip("./"), tree.sources):
                    breach("gone", page, text.count("\n", 0, m.start()) + 1, f"{name} is not there")
        check_pointed(tree, page, text, breach)


def check_pointed(tree, page, text, breach):
    for m in POINTED.finditer(text):
        files = [path for name in spread(m[2]) for path in tree.sources if fnmatch.fnmatch(path, name) or fnmatch.fnmatch(path, "*/" + name)]
        there = {f.name for path in files for f in tree.sources[path].functions()}
        for name in re.findall(r"`(\w+)`", m[1]):
            if name not in there:
                breach("pointed", page, text.count("\n", 0, m.start()) + 1, f"{name} is not a function of {m[2]}")
