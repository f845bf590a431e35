"""tree.py: what tidy reads: the sources of a tree, their comments apart from their code, and their functions."""
import bisect
import re

PRODUCT = ("proto", "embedding", "dense", "server", "worker", "deploy")
PLANTED = "tests/tidy/bad/"  # breaks the rules on purpose
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
BODY = re.compile(r"^\{\n.*?^\}", re.S | re.M)
NAME = re.compile(r"(?!__attribute__|TARGET)\b([A-Za-z_]\w*)\s*\(")


def blank(text):
    """The same lines and columns with nothing in them."""
    return re.sub(r"[^\n]", " ", text)


class Function:
    def __init__(self, name, signature, start, end):
        self.name, self.signature, self.start, self.end = name, signature, start, end


class Source:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.folder, _, base = path.rpartition("/")
        self.stem = base.rsplit(".", 1)[0]
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.comments = [(m.start(), m[0]) for m in TOKEN.finditer(text) if m[0][0] == "/"]
        # bare: without comments; code: without the insides of strings too
        self.bare = TOKEN.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0], text)
        self.code = TOKEN.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0][0] + blank(m[0][1:-1]) + m[0][-1], text)
        self.found = None

    def line(self, position):
        return bisect.bisect_right(self.starts, position)

    def functions(self):
        """Definitions; their braces stand in column 0."""
        if self.found is None:
            self.found = []
            for m in BODY.finditer(self.code):
                before = re.split(r"^#.*$|[;{}]|\n\s*\n", self.code[max(0, m.start() - 1500):m.start()], flags=re.M)[-1]
                named = NAME.search(before)
                if named and "=" not in before:
                    name = named[1]
                    if name.isupper():  # START_TEST(name)
                        name = before[named.end():].split(",")[0].strip(" )\n")
                    self.found.append(Function(name, before, m.start(), m.end()))
        return self.found


class Tree:
    def __init__(self, root):
        self.root = root
        self.sources = {}
        for folder in PRODUCT + ("tests",):
            for kind in ("*.[ch]", "*.cu"):
                for file in sorted((root / folder).rglob(kind)):
                    path = file.relative_to(root).as_posix()
                    if not path.startswith(PLANTED):
                        self.sources[path] = Source(path, file.read_text(encoding="utf-8"))

    def files(self, kind):
        """Those of the tree; what is built beside them comes and goes while other tests run."""
        inside = [top.rglob(kind) for top in sorted(self.root.iterdir()) if top.is_dir() and not re.match(r"\.|build", top.name)]
        return sorted([*self.root.glob(kind), *(file for found in inside for file in found)])

    def product(self):
        return [s for p, s in self.sources.items() if not p.startswith("tests/")]
