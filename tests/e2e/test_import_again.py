#!/usr/bin/env python3
"""test_import_again: an import that something happens to: a difference, a job or another import in between, a file that changes, kill -9 of every process."""
import os
import signal

from fleet import *
from test_import import digest, floats, founded, founded_anew, job_of, log, npy, put, row, space_of, struct, vectors

def rows():
    """How many rows an import has that must still go on when a case disturbs it."""
    return longer(400000)


def large(space, name="vectors"):
    """The words of an import that takes a while."""
    r = random.Random(5)
    data = struct.pack(f"<{rows() * 4}f", *(r.random() for _ in range(rows() * 4)))
    return ["emb", "--ids", npy(space / "ids.npy", "<i8", f"({rows()},)", struct.pack(f"<{rows()}q", *range(rows()))),
            "--weights", npy(space / f"{name}.npy", "<f4", f"({rows()}, 4)", data), "--field", "item"]


def begun(fleet, words, some=1000):
    """An import that has sent some rows, and not all."""
    before = digest(fleet)["rows"]
    process = subprocess.Popen([SHOAL, "import", *map(str, words), "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        now = digest(fleet)["rows"]
        if now > before + some:
            break
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    if process.poll() is not None or now == rows():
        process.kill()
        process.communicate()
        raise TooShort("the import was over before it was seen")
    return process


def goes_on(process):
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=PATIENCE * 120)[0]
    return process.returncode, said


def exported(where, out, *words):
    got = shoal("export", where, "emb", "--out", out, "--state", *words)
    assert got.returncode == 0, got
    return out


def made(fleet, name):
    got = shoal("checkpoint", "create", name, "--coordinator", fleet.endpoint, "--json")
    assert got.returncode == 0, got
    return json.loads(got.stdout)["path"]


def a_difference_gives_the_newer_rows(space):
    """Rows of the older export, then the difference: row by row what the newer one has, in each format; erased keys go, and a second time nothing changes."""
    job = job_of(space, **{"checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": False})
    later = job_file(space / "later.yaml", log(space / "later.csv", rows=1500, users=400, seed=4), **{
        "data.format": "csv", "data.label": "label", "tables[0].dim": 4, "model.hidden": [8], "train.epochs": 1, "durability": None, "train.lanes": 2,
        "checkpoint.dir": str(space / "checkpoints"), "checkpoint.at_end": False})
    lines = (space / "later.csv").read_text().splitlines()
    (space / "later.csv").write_text("\n".join(line for line in lines if not line.split(",")[1] in ("u7", "u8")) + "\n")
    (space / "keys").write_text("user:u7\nuser:u8\n")
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        fleet.job(job)
        older = made(fleet, "older")
        was = digest(fleet)
        for words in (["erase", "emb", "--keys", space / "keys"], ["keys", "reset", "emb", "--keys", space / "keys"]):
            got = shoal(*words, "--coordinator", fleet.endpoint)
            assert got.returncode == 0, got
        fleet.job(later)
        newer = made(fleet, "newer")
        right = digest(fleet)
        assert right != was and row(fleet, "user", "u7") is None and row(fleet, "user", "u399") is not None
        exported(newer, space / "right")
        for form in ("npy", "safetensors", "tsv"):
            exported(older, space / f"{form}.older", "--format", form)
            exported(newer, space / f"{form}.since", "--format", form, "--since", older)
        for form in ("npy", "safetensors", "tsv"):
            founded_anew(fleet, job)
            put(fleet, "emb", space / f"{form}.older")
            assert digest(fleet) == was, form
            assert "is a difference" in put(fleet, "emb", space / f"{form}.since", "--keep", status=64)
            assert digest(fleet) == was, form
            said = put(fleet, "emb", space / f"{form}.since")
            assert "2 keys are erased in the difference: 2 of them had a row" in said, said
            assert digest(fleet) == right, form
            told = json.loads(put(fleet, "emb", space / f"{form}.since", "--json"))
            assert (told["erased"], told["evicted"], told["new"]) == (2, 0, 0) and digest(fleet) == right, told
        again = exported(made(fleet, "again"), space / "again")
        for file in sorted((space / "right").glob("*.npy")):
            assert (again / file.name).read_bytes() == file.read_bytes(), file.name
        exported(newer, space / "nothing", "--since", newer)
        assert "0 rows: 0 new, 0 replaced\n0 keys are erased" in put(fleet, "emb", space / "nothing") and digest(fleet) == right


def a_job_between_is_noticed(space):
    """It empties the tables while the import sleeps: the import does not end well, and the same line again puts in every row."""
    job = job_of(space)
    words = large(space)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        process = begun(fleet, words)
        founded_anew(fleet, job)
        status, said = goes_on(process)
        assert status == 69 and "a job has begun in table emb" in said and "since this import began" in said and "the same line again" in said, (status, said)
        assert digest(fleet)["rows"] < rows()
        assert f"{rows()} rows: " in put(fleet, *words) and digest(fleet)["rows"] == rows()


def a_drop_between_stops_it(space):
    """The table is dropped while the import sleeps: it says so in the midst of its rows, and the same line again puts in every row."""
    job = job_of(space)
    words = large(space)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        process = begun(fleet, words)
        got = shoal("drop", f"{space_of(job)}/emb", "--coordinator", fleet.endpoint)
        assert got.returncode == 0, got
        time.sleep(2.1)
        status, said = goes_on(process)
        assert status == 69 and "its rows were dropped" in said, (status, said)
        sent = int(re.search(r"(\d+) of \d+ rows were sent", said)[1])
        assert sent < rows(), said
        assert f"{rows()} rows: " in put(fleet, *words) and digest(fleet)["rows"] == rows()


def a_second_import_is_noticed(space):
    """The first one of two into one table learns that its rows may not be the last."""
    job = job_of(space)
    words = large(space)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        process = begun(fleet, words)
        npy(space / "few.npy", "<i8", "(3,)", struct.pack("<3q", 1, 2, 3))
        put(fleet, "emb", "--ids", space / "few.npy", "--weights", npy(space / "three.npy", "<f4", "(3, 4)", floats(vectors(3))), "--field", "item")
        status, said = goes_on(process)
        assert status == 69 and "another import has begun in table emb" in said, (status, said)


def a_file_that_changes_is_noticed(space):
    """Between the reading that checks it and the one that sends it: a number, and its end."""
    job = job_of(space)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        words = large(space)
        process = begun(fleet, words)
        with open(space / "vectors.npy", "r+b") as f:
            f.seek(-4, os.SEEK_END)
            f.write(struct.pack("<f", 0.25))
        status, said = goes_on(process)
        assert status == 65 and "has changed since its rows were checked" in said, (status, said)
        founded_anew(fleet, job)
        process = begun(fleet, large(space, "shorter"))
        os.truncate(space / "shorter.npy", 4096)
        status, said = goes_on(process)
        assert status == 65 and "became shorter while it was read" in said, (status, said)
        assert f"{rows()} rows: " in put(fleet, *words) and digest(fleet)["rows"] == rows()


def whatever_dies_it_is_repeated(space):
    """kill -9 of the command, of each server and of the coordinator in the middle: the same line again gives the tables of an import that was left alone."""
    job = job_of(space)
    words = large(space)
    with Fleet(space, "f").up() as fleet:
        fleet.fits()
        founded(fleet, job)
        put(fleet, *words)
        right = digest(fleet)
        for who in ("s0", "s1", "coordinator", "command"):
            founded_anew(fleet, job)
            process = begun(fleet, words)
            if who == "command":
                process.kill()
                process.communicate()
            else:
                fleet.kill(who)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.5)
                fleet.coordinator() if who == "coordinator" else fleet.server(who)
                status, said = goes_on(process)
                assert status == 0 and f"{rows()} rows: " in said, (who, status, said)
                fleet.fits()
                assert digest(fleet) == right, who
            assert f"{rows()} rows: " in put(fleet, *words) and digest(fleet) == right, who


if __name__ == "__main__":
    main([a_difference_gives_the_newer_rows, a_job_between_is_noticed, a_drop_between_stops_it, a_second_import_is_noticed, a_file_that_changes_is_noticed, whatever_dies_it_is_repeated])
