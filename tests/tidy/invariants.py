"""invariants.py: a numbered invariant of a head comment names what holds it.

     *  1. A generation is never used twice. [assert: segment_make]
     *  2. A torn tail ends the replay. [test: journal_torn_tail]
     *  3. A message has a row. [static]

assert: in these functions an assert cites the number, `SHOAL_ASSERT(g > last); // 1`, or from another module the file too,
"journal.c, 1". test: these cases, or programs of tests/, exist. static: a _Static_assert of the same file cites the number.
"""
import pathlib
import re

RULES = ("invariant", "held")
ITEM = re.compile(r"^ \*? {0,3}(\d+)\. ")
HOLDER = re.compile(r"\[(assert|test|static)(?:: ([^\]]*))?\]")
ASSERT = re.compile(r"\bSHOAL_(?:ASSERT|VERIFY\w*)\s*\(")


def items(source):
    """(line, number, text) of the numbered sentences in comments at file scope that count 1., 2. and on."""
    for start, comment in source.comments:
        if start and source.text[start - 1] != "\n":
            continue
        found, open_item = [], None
        for offset, line in enumerate(comment.split("\n")):
            m = ITEM.match(re.sub(r"^/\*", " *", line))
            if m:
                open_item = [source.line(start) + offset, int(m[1]), line[m.end():]]
                found.append(open_item)
            elif not line.strip(" */"):
                open_item = None
            elif open_item:
                open_item[2] += " " + line.strip(" */")
        if {1, 2} <= {number for _, number, _ in found}:
            yield from found


def module_of(path):
    folder, _, base = path.rpartition("/")
    return re.sub(r"_(inner|state)$", "", base.rsplit(".", 1)[0])


def cites(source, start, number, where):
    """Whether the comments on a statement's lines, or directly above, name the number (and the file, from elsewhere)."""
    first = source.line(start)
    last = source.line(source.code.index(";", start))
    while first > 1 and not source.code.split("\n")[first - 2].strip() and source.text.split("\n")[first - 2].strip():
        first -= 1
    near = " ".join(c for s, c in source.comments if first <= source.line(s) <= last)
    base = where.path.rpartition("/")[2]
    if re.search(rf"\b{re.escape(base)}(?:, \d+)*, {number}\b", near):
        return True
    return module_of(source.path) == module_of(where.path) and re.search(rf"(?<![\w.]){number}(?!\w)", near) is not None


def asserted(tree, name, number, where):
    for source in tree.product():
        for function in source.functions():
            if function.name == name:
                for m in ASSERT.finditer(source.code, function.start, function.end):
                    if cites(source, m.start(), number, where):
                        return True
    return False


def tests_of(tree):
    """Names of cases and programs of tests/."""
    names = set()
    folder = tree.root / "tests"
    for file in [*folder.rglob("*.c"), *folder.rglob("*.py")]:
        if "tidy" not in file.relative_to(folder).parts:
            names.add(file.stem)
            names.update(re.findall(r"^(?:START_TEST\(|def )(\w+)", file.read_text(encoding="utf-8"), re.M))
    return names


def check(tree, breach):
    names = tests_of(tree)
    for source in tree.product():
        for line, number, text in items(source):
            holders = HOLDER.findall(text)
            if not holders:
                breach("invariant", source.path, line, f"{number}. names what holds it: [assert: function], [test: case] or [static]")
            for kind, list_of in holders:
                check_holders(tree, source, line, number, kind, [n.strip() for n in list_of.split(",")], names, breach)


def check_holders(tree, source, line, number, kind, list_of, names, breach):
    if kind == "static":
        at = [m.start() for m in re.finditer(r"\b_Static_assert\b", source.code)]
        if not any(cites(source, start, number, source) for start in at):
            breach("held", source.path, line, f"{number}. no _Static_assert of this file cites it")
    for name in list_of if kind != "static" else ():
        if kind == "test" and name not in names:
            breach("held", source.path, line, f"{number}. there is no test {name}")
        if kind == "assert" and not asserted(tree, name, number, source):
            breach("held", source.path, line, f"{number}. no assert in {name} cites it")
