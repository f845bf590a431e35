#!/usr/bin/env python3
"""test_pages: the commands that the pages on rows in and out and on keys by name print, run as they are printed; only the words in capitals, and names of
files, are replaced. A printed command that no case knows is a failure."""
from fleet import *
from test_import import digest, floats, job_of, npy, row, struct, tsv, vectors

MANUAL = pathlib.Path(__file__).parents[2] / "deploy/manual"
PAGES = {"coming-from.md": None, "export.md": None, "run.md": ("shoal import ", "shoal export ", "shoal keys "), "fleet.md": ("shoal export ",)}


def printed(page):
    """Its commands, without the notes beside them."""
    wanted = PAGES[page] or ("shoal ",)
    lines = re.findall(r"^    (shoal .*)$", (MANUAL / page).read_text(encoding="utf-8"), re.M)
    return [re.split(r" {3,}| # ", line)[0].rstrip() for line in lines if line.startswith(wanted)]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (MANUAL / page).read_text(encoding="utf-8"), re.S | re.M)


class Reader:
    """Types the commands of the pages."""

    def __init__(self, space, fleet):
        self.space, self.fleet = space, fleet
        self.left = [(page, line) for page in PAGES for line in printed(page)]
        self.said = ""

    def types(self, page, line, **words):
        """The next command with this text; words: what stands for each word in capitals."""
        self.left.remove((page, line))
        for word, text in {**words, "EP": self.fleet.endpoint}.items():
            line = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", str(text), line)
        got = subprocess.run(line.replace("shoal ", f"{SHOAL} ", 1), shell=True, cwd=self.space.path, capture_output=True, text=True, timeout=120, check=False,
                             env={**os.environ, "SHOAL_COORDINATOR": self.fleet.endpoint})
        assert got.returncode == 0, (page, line, got.stdout[-2000:], got.stderr[-2000:])
        self.said = got.stdout + got.stderr
        return self.said


def commands_work_as_printed(space):
    job = job_of(space, **{"checkpoint.dir": str(space / "made"), "checkpoint.at_end": True})
    tsv(space / "users.tsv", [f"u{i}" for i in range(300)], vectors(300))
    (space / "names").write_text("u1\nu2\n")
    (space / "list").write_text("user:u3\nuser:u4\n")
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        here = Reader(space, fleet)
        fleet.worker("w", job)
        said = here.types("coming-from.md", "shoal import TABLE FILE --field NAME --job JOB.yaml", TABLE="emb", FILE="users.tsv", NAME="user", **{"JOB.yaml": job})
        assert "300 rows: 300 new" in said, said
        fleet.running.pop("w").wait(30)
        fleet.worker("w", job)
        here.types("coming-from.md", "shoal submit JOB.yaml --start-from fleet", **{"JOB.yaml": job})
        fleet.running.pop("w").wait(30)
        [older] = [p for p in (space / "made").iterdir() if p.name.isdigit()]

        here.types("run.md", "shoal import TABLE FILE|FOLDER --field NAME", TABLE="emb", **{"FILE|FOLDER": "users.tsv"}, NAME="user")
        assert "300 replaced" in here.said, here.said
        for line, words in (("shoal keys allow ... TABLE --keys FILE", {"FILE": "list"}), ("shoal keys block ... TABLE --keys FILE", {"FILE": "list"}),
                            ("shoal keys reset ... TABLE --keys FILE", {"FILE": "list"}), ("shoal keys list  ... TABLE", {}),
                            ("shoal keys allow emb --field C1 --values users.txt --coordinator EP", {"C1": "user", "users.txt": "names"}),
                            ("shoal keys list emb --coordinator EP", {}),
                            ("shoal keys block emb --field C1 --value VALUE --coordinator EP", {"C1": "user", "VALUE": "u1"})):
            here.types("run.md", line, **{"...": f"--coordinator {fleet.endpoint}"}, TABLE="emb", **words)
        assert row(fleet, "user", "u1")["named"] == "blocked" and row(fleet, "user", "u2")["named"] == "allowed"

        got = shoal("checkpoint", "create", "newer", "--coordinator", fleet.endpoint, "--json")
        newer = json.loads(got.stdout)["path"]
        here.types("run.md", "shoal export WHERE [TABLE]... --out FOLDER", WHERE=newer, FOLDER="one", **{"[TABLE]...": "emb"})
        here.types("export.md", "shoal export WHERE --out FOLDER", WHERE=newer, FOLDER="out")
        here.types("export.md", "shoal export WHERE emb --format safetensors --state --out FOLDER", WHERE=newer, FOLDER="safe")
        here.types("export.md", "shoal export WHERE --onnx --out FOLDER", WHERE=newer, FOLDER="onnx")
        here.types("export.md", "shoal export WHERE --format tsv --since OLDER --out FOLDER", WHERE=newer, OLDER=older, FOLDER="since")
        assert (space / "onnx/model.onnx").stat().st_size > 0
        assert (space / "since/emb.erased.tsv").exists() and (space / "out/emb.keys.npy").exists() and not (space / "one/dense_stats.hidden.0.mean.npy").exists()
        here.types("fleet.md", "shoal export DIR/NAME TABLE --out FOLDER --missing-ok", **{"DIR/NAME": newer}, TABLE="emb", FOLDER="some")
        here.types("fleet.md", "shoal export DIR/000007 --out FOLDER", **{"DIR/000007": older}, FOLDER="old")
        assert not here.left, f"no case types {here.left}"

        # the sentences of the pages: a folder comes back, and a difference
        before = digest(fleet)
        for folder in ("safe", "since"):
            got = shoal("import", "emb", space / folder, "--coordinator", fleet.endpoint)
            assert got.returncode == 0, got
        assert digest(fleet)["rows"] == before["rows"]
        python_works_as_printed(space, fleet)


def python_works_as_printed(space, fleet):
    """The page's two readers find the weights that `inspect` shows."""
    weights, key = (got := row(fleet, "user", "u5"))["weights"][1:], int(got["key"], 16)
    by_numpy, by_struct, _ = python_blocks("export.md")  # the third: test_onnx
    (space / "safe/../out/model.safetensors").write_bytes((space / "safe/model.safetensors").read_bytes())
    known = {"key": key}
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
        there = os.getcwd()
        os.chdir(space.path)
        exec(by_numpy, known)  # pylint: disable=exec-used # what the page prints
        os.chdir(there)
        assert list(map(float, known["vectors"][known["at"]])) == weights
    there = os.getcwd()
    os.chdir(space.path)
    exec(by_struct, known)  # pylint: disable=exec-used
    os.chdir(there)
    assert weights in [list(v) for v in known["vectors"]]


if __name__ == "__main__":
    main([commands_work_as_printed])
