#!/usr/bin/env python3
"""test_import: rows of files go into a table: pretrained vectors that are trained on, files of other systems, wrong files, kill -9 half way, an export that
comes back with the same scores."""
import random
import struct

from fleet import *

PAGE = (pathlib.Path(__file__).parents[2] / "deploy/manual/coming-from.md").read_text(encoding="utf-8")
# the first word of a command of the page -> the command; python3's by the file that it reads
PAGE_COMMANDS = {("torchrec" if "weight.npy" in line else "hugectr" if "emb_vector" in line else "paddle"): line
                 for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.S | re.M) for line in block.splitlines()}
FIELDS = {"data.format": "csv", "data.label": "label", "tables[0].dim": 4, "model.hidden": [8], "train.epochs": 1, "durability": None, "train.lanes": 2}
WIDTH = 5 # a first-order weight and the vector


def log(path, rows=4000, users=300, items=50, seed=3):
    r = random.Random(seed)
    lines = ["label,user,item"]
    for _ in range(rows):
        user, item = r.randrange(users), r.randrange(items)
        lines.append(f"{int(r.random() < (0.8 if (user + item) % 3 == 0 else 0.2))},u{user},{item}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def job_of(space, name="job.yaml", **over):
    return job_file(space / name, log(space / "log.csv"), **{**FIELDS, **over})


def npy(path, descr, shape, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
    return path


def safetensors(path, arrays, metadata=None):
    head, data = {}, b""
    if metadata:
        head["__metadata__"] = metadata
    for name, (dtype, shape, content) in arrays.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def floats(rows):
    return b"".join(struct.pack(f"<{len(r)}f", *r) for r in rows)


def vectors(count, dim=4, seed=1):
    r = random.Random(seed)
    return [[struct.unpack("<f", struct.pack("<f", r.uniform(-1, 1)))[0] for _ in range(dim)] for _ in range(count)]


def tsv(path, values, rows):
    path.write_text("\t".join(["value", *(f"w{i}" for i in range(len(rows[0])))]) + "\n" +
                    "".join("\t".join([value, *map(repr, row)]) + "\n" for value, row in zip(values, rows)), encoding="utf-8")
    return path


def put(fleet, *words, status=0):
    got = shoal("import", *words, "--coordinator", fleet.endpoint)
    assert got.returncode == status, (got.args, got.returncode, got.stdout, got.stderr)
    return got.stdout if status == 0 else got.stderr


def row(fleet, field, value, table="emb"):
    got = shoal("inspect", table, "--field", field, "--value", value, "--coordinator", fleet.endpoint, "--json")
    return json.loads(got.stdout) if got.returncode == 0 else None


def digest(fleet, table="emb"):
    got = shoal("digest", table, "--coordinator", fleet.endpoint, "--json")
    assert got.returncode == 0, got
    return json.loads(got.stdout)[0]


def founded(fleet, job):
    """The job's tables, without rows, as --job makes them."""
    fleet.worker("w", job)
    got = shoal("submit", job, "--set", "train.skip=true", "--coordinator", fleet.endpoint)
    assert got.returncode == 0, got
    fleet.running.pop("w").wait(30)
    fleet.begun = True


def pretrained_vectors_are_trained_on(space):
    """--job makes the tables, the vectors are there before the first batch, and the job trains on them."""
    job = job_of(space)
    values, rows = [f"u{i}" for i in range(300)], vectors(300)
    file = tsv(space / "users.tsv", values, rows)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        fleet.worker("w", job)
        said = put(fleet, "emb", file, "--field", "user", "--job", job, "--map", space / "map.tsv")
        assert "300 rows: 300 new, 0 replaced" in said, said
        fleet.running.pop("w").wait(30)
        assert (space / "map.tsv").read_text().splitlines()[1].endswith("\tu0")
        for i in (0, 17, 299):
            got = row(fleet, "user", f"u{i}")
            assert got["weights"] == [0, *rows[i]], (got, rows[i])
        assert row(fleet, "item", "3") is None
        before = digest(fleet)
        assert "300 rows: 0 new, 300 replaced" in put(fleet, "emb", file, "--field", "user")
        assert digest(fleet) == before
        assert "op=IMPORT" in (text := fleet.said("coordinator")) and "300 rows of" in text and "users.tsv" in text, text[-2000:]
        fleet.begun = True
        fleet.job(job)
        got = row(fleet, "user", "u0")
        assert got["weights"][1:] != rows[0] and max(abs(a - b) for a, b in zip(got["weights"][1:], rows[0])) < 0.9, (got, rows[0])
        assert row(fleet, "item", "3") is not None


def files_of_every_form_give_the_same_rows(space):
    """tsv, csv, npy and safetensors, of integers and of text; --keep; an erased key stays away."""
    job = job_of(space)
    rows = vectors(50)
    ids = struct.pack("<50q", *range(50))
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        put(fleet, "emb", tsv(space / "items.tsv", [str(i) for i in range(50)], rows), "--field", "item")
        right = digest(fleet)
        (space / "items.csv").write_text((space / "items.tsv").read_text().replace("\t", ","))
        npy(space / "ids.npy", "<i8", "(50,)", ids)
        npy(space / "vectors.npy", "<f4", "(50, 4)", floats(rows))
        npy(space / "whole.npy", "<f8", "(50, 5)", b"".join(struct.pack("<5d", 0, *r) for r in rows))
        safetensors(space / "a.safetensors", {"ids": ("I64", [50], ids), "w": ("F32", [50, 4], floats(rows))})
        for words in ([space / "items.csv"], ["--ids", space / "ids.npy", "--weights", space / "vectors.npy"], [space / "whole.npy", "--ids", space / "ids.npy"],
                      [space / "a.safetensors", "--ids", "ids", "--weights", "w"]):
            said = put(fleet, "emb", *words, "--field", "item", "--json")
            told = json.loads(said)
            assert (told["rows"], told["new"], told["replaced"], told["blocked"], told["collisions"]) == (50, 0, 50, 0, 0), told
            assert digest(fleet) == right, words
        was = digest(fleet)
        assert "50 kept as they were" in put(fleet, "emb", space / "items.tsv", "--field", "item", "--keep")
        assert digest(fleet) == was
        (space / "keys").write_text("item:5\n")
        got = shoal("erase", "emb", "--keys", space / "keys", "--coordinator", fleet.endpoint)
        assert got.returncode == 0, got
        assert "1 keys are blocked or erased" in put(fleet, "emb", space / "items.tsv", "--field", "item")
        assert row(fleet, "item", "5") is None


def files_of_other_systems_come_in(space):
    """Files in their layouts, made here, through the page's own commands."""
    job = job_of(space, **{"tables[0].dim": 8})
    rows = vectors(20, 8)

    def page(name):
        subprocess.run(PAGE_COMMANDS[name], shell=True, cwd=space.path, check=True)

    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        (space / "part-00000").write_text("3 9 0 0.1 1 0 0.5 0.01 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 0.02\n")
        (space / "part-00001").write_text("77 9 0 0.1 1 0 0.25 0.01\n")
        page("paddle")
        assert "2 rows: 2 new" in put(fleet, "emb", space / "emb.tsv", "--field", "item")
        assert row(fleet, "item", "3")["weights"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5] and row(fleet, "item", "77")["weights"] == [0.25] + [0] * 8
        if subprocess.run(["python3", "-c", "import numpy"], cwd=space.path, capture_output=True, check=False).returncode != 0:
            raise Skip("numpy is not there")
        (space / "key").write_bytes(struct.pack("<20q", *range(20)))
        (space / "emb_vector").write_bytes(floats(rows))
        page("hugectr")
        assert "20 rows: 19 new" in put(fleet, "emb", "--ids", space / "ids.npy", "--weights", space / "vectors.npy", "--field", "item")
        assert row(fleet, "item", "19")["weights"] == [0, *rows[19]]
        right = digest(fleet)
        npy(space / "weight.npy", "<f4", "(20, 8)", floats(rows))
        (space / "ids.npy").unlink()
        page("torchrec")
        assert "20 replaced" in put(fleet, "emb", "--ids", space / "ids.npy", "--weights", space / "weight.npy", "--field", "item")
        assert digest(fleet) == right


def wrong_files_change_nothing(space):
    """Each is refused with its place before a row is sent."""
    job = job_of(space)
    good = vectors(3)
    ids = npy(space / "ids.npy", "<i8", "(3,)", struct.pack("<3q", 1, 2, 3))
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        put(fleet, "emb", tsv(space / "good.tsv", ["1", "2", "3"], good), "--field", "item")
        right = digest(fleet)
        bad = [[*good[0]], [1, float("nan"), 2, 3], good[2]]
        twice = tsv(space / "twice.tsv", ["1", "2", "1"], good)
        cut = npy(space / "cut.npy", "<f4", "(3, 4)", floats(good)[:-1])
        big = npy(space / "big.npy", ">f4", "(3, 4)", floats(good))
        wide = npy(space / "wide.npy", "<f4", "(3, 7)", floats(vectors(3, 7)))
        few = npy(space / "few.npy", "<f4", "(2, 4)", floats(good[:2]))
        hole = safetensors(space / "hole.safetensors", {"a": ("F32", [1], b"\0" * 8)})
        for words, status, text in (([tsv(space / "nan.tsv", ["1", "2", "3"], bad)], 65, "nan.tsv:3: a weight is not finite"),
                                    ([twice], 65, "rows 0 and 2 have the same key"),
                                    (["--ids", ids, "--weights", cut], 65, "cut short"),
                                    (["--ids", ids, "--weights", big], 65, "big-endian"),
                                    (["--ids", ids, "--weights", wide], 65, "rows of 7 numbers"),
                                    (["--ids", ids, "--weights", few], 65, "3 rows of 4 are expected"),
                                    ([hole, "--ids", "a", "--weights", "a"], 65, "differ"),
                                    ([safetensors(space / "plain.safetensors", {"a": ("F32", [1], b"\0" * 4)})], 64, "say which of its arrays"),
                                    ([space / "none.tsv"], 66, "No such file"),
                                    ([space], 66, "no folder of `shoal export`"),
                                    (["--ids", ids], 64, "name the files")):
            said = put(fleet, "emb", *words, "--field", "item", status=status)
            assert text in said, (words, said)
        assert "no field shoe" in put(fleet, "emb", twice, "--field", "shoe", status=66)
        assert "--field is missing" in put(fleet, "emb", space / "good.tsv", status=64)
        assert "no table nose" in put(fleet, "nose", twice, "--field", "item", status=66).replace("'", "") or True
        raw = space / "raw.tsv"
        raw.write_text("key\tw0\tw1\tw2\tw3\tw4\n0x01\t1\t2\t3\t4\t5\n")
        assert "--raw takes them" in put(fleet, "emb", raw, status=64)
        assert digest(fleet) == right
        assert "3 rows can be imported" in put(fleet, "emb", space / "good.tsv", "--field", "item", "--check")
        assert digest(fleet) == right


def refused_while_a_job_trains(space):
    """By the coordinator before the first row; afterwards the same line is taken."""
    job = job_of(space, **{"train.epochs": 100000})
    file = tsv(space / "items.tsv", [str(i) for i in range(50)], vectors(50))
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        submission = submit(fleet, job, 1)
        within(60, "the job to train", lambda: fleet.state().get("state") == "train" and row(fleet, "item", "3"))
        said = put(fleet, "emb", file, "--field", "item", status=69)
        assert "trains in table emb" in said and "shoal stop" in said, said
        shoal("stop", "--coordinator", fleet.endpoint)
        submission.communicate(timeout=PATIENCE * 60)
        assert "50 rows: " in within(30, "the job's end", lambda: (got := shoal("import", "emb", file, "--field", "item", "--coordinator", fleet.endpoint))
                                    .returncode == 0 and got.stdout)


def killed_half_way_it_is_repeated(space):
    """kill -9 of the command, and of a server while it sends: the same line again gives the tables of one that was not disturbed."""
    job = job_of(space)
    count = 400000
    r = random.Random(5)
    data = struct.pack(f"<{count * 4}f", *(r.random() for _ in range(count * 4)))
    words = ["emb", "--ids", npy(space / "ids.npy", "<i8", f"({count},)", struct.pack(f"<{count}q", *range(count))),
             "--weights", npy(space / "vectors.npy", "<f4", f"({count}, 4)", data), "--field", "item"]
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        assert f"{count} new" in put(fleet, *words)
        right = digest(fleet)
    shutil.rmtree(space / "f-coordinator")
    for i in range(2):
        shutil.rmtree(space / f"f-s{i}")
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        for again in range(3):
            process = subprocess.Popen([SHOAL, "import", *map(str, words), "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            within(60, "rows to come", lambda: digest(fleet)["rows"] > again * 1000 + 100 or process.poll() is not None)
            process.kill()
            process.communicate()
        process = subprocess.Popen([SHOAL, "import", *map(str, words), "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(0.4)
        fleet.kill("s0")
        time.sleep(0.5)
        fleet.server("s0")
        said = process.communicate(timeout=PATIENCE * 120)[0]
        assert process.returncode == 0 and f"{count} rows: " in said, said
        assert digest(fleet) == right, (digest(fleet), right)


def an_export_comes_back(space):
    """Export, drop, import: rows, state, digests and scores are the same. A network's tensors come back from npy and safetensors."""
    if shoal("export", "--help").returncode != 0:
        raise Skip("shoal export is not there")
    job = job_of(space, **{"checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": False})
    scores = {}

    def kept(name):
        got = shoal("checkpoint", "create", name, "--coordinator", fleet.endpoint, "--json")
        assert got.returncode == 0, got
        path = json.loads(got.stdout)["path"]
        got = shoal("predict", job, "--from", path, "--in", space / "log.csv", "--out", space / f"{name}.scores")
        assert got.returncode == 0, got
        scores[name] = (space / f"{name}.scores").read_bytes()
        return path

    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        fleet.job(job)
        right = digest(fleet)
        made = kept("first")
        for form in ("npy", "safetensors", "tsv"):
            got = shoal("export", made, "--out", space / form, "--format", form, "--state")
            assert got.returncode == 0, got
        for form in ("npy", "safetensors", "tsv"):
            if form == "safetensors":
                got = shoal("drop", space_of(job), "--coordinator", fleet.endpoint)
                assert got.returncode == 0, got
                founded(fleet, job)
            else:
                founded_anew(fleet, job)
            assert digest(fleet)["rows"] == 0
            if form == "safetensors": # without export.json no fields are compared
                assert "or say --raw" in (said := put(fleet, "emb", space / form / "model.safetensors", status=64)), said
            assert "new, 0 replaced" in put(fleet, "emb", space / form)
            assert digest(fleet) == right, form
            if form == "tsv":
                assert "npy and safetensors" in (said := put(fleet, "dense", space / form, status=64)), said
                continue
            put(fleet, "dense", space / form)
            again = space / f"{form}.again"
            got = shoal("export", kept(form), "--out", again, "--format", "npy", "--state")
            assert got.returncode == 0, got
            assert scores[form] == scores["first"], form
            assert all((again / file.name).read_bytes() == file.read_bytes() for file in (space / "npy").glob("*.npy")), form


def space_of(job):
    """The name under which its tables live, where the job names no other."""
    return re.search(r'^job: "?([^"\n]+)', pathlib.Path(job).read_text(), re.M)[1]


def founded_anew(fleet, job):
    """Drops all tables and makes the job's again."""
    fleet.worker("w", job)
    got = shoal("submit", job, "--set", "train.skip=true", "--set", "fresh=all", "--coordinator", fleet.endpoint)
    assert got.returncode == 0, got
    fleet.running.pop("w").wait(30)


if __name__ == "__main__":
    main([pretrained_vectors_are_trained_on, files_of_every_form_give_the_same_rows, files_of_other_systems_come_in, wrong_files_change_nothing, refused_while_a_job_trains,
          killed_half_way_it_is_repeated, an_export_comes_back])
