#!/usr/bin/env python3
"""test_fleet_names: what a fleet's tables call their fields holds for every job and every command, whatever the job files say, and outlives the coordinator's folder."""
from fleet import *

MODEL = {"model.kind": "fm", "model.hidden": None}  # no tensor of it stands by the input's columns


def log(path, columns, rows=1500):
    draw, lines = random.Random(3), []
    for _ in range(rows):
        a, b, c = draw.randrange(30), draw.randrange(20), draw.randrange(9)
        row = {"label": int(draw.random() < 0.2 + 0.3 * (b % 2) + 0.2 * (c % 3 == 0)), "a": f"x{a}", "b": f"x{b}", "c": f"x{c}"}
        lines.append(",".join(str(row[name]) for name in columns))
    path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return path


def job(space, name, columns, **over):
    return job_file(space / f"{name}.yaml", log(space / f"{name}.csv", ["label", *columns]), **{
        "data.format": "csv", "data.label": "label", "data.shuffle": False, "train.consistency": "bsp", "train.lanes": 1, "train.batch": 100, **MODEL, **over})


def row(fleet, *words):
    """The row that a command shows; None: there is none."""
    got = shoal("inspect", "emb", *words, "--json", "--coordinator", fleet.endpoint)
    assert got.returncode in (0, 66), got
    return json.loads(got.stdout) if got.returncode == 0 else None


def names_of_a_job_file_are_the_tables_own(space):
    """The second job's file begins with b: its place in the file is the number of a."""
    first, second = job(space, "first", ["a", "b", "c"]), job(space, "second", ["b", "c"])
    with Fleet(space, "f").up() as fleet:
        fleet.job(first)
        fleet.job(second)
        rows = {n: row(fleet, f"{i}:x3") for i, n in enumerate("abc")}
        assert len({r["key"] for r in rows.values()}) == 3
        for asked in (("--job", second), ("--job", first), ()):
            for name, i in (("a", 0), ("b", 1), ("c", 2)):
                assert row(fleet, "--field", name, "--value", "x3", *asked) == rows[name], (asked, name)
                assert row(fleet, f"{i}:x3", *asked) == rows[name], (asked, i)
        told = shoal("inspect", "emb", "c:x3", "--coordinator", fleet.endpoint, "--job", second).stdout
        assert "field 2 (c)" in told, told
        shown = shoal("tables", "emb", "--coordinator", fleet.endpoint, "--job", second).stdout
        assert all(any(line.split()[:2] == [str(i), n] for line in shown.splitlines()) for i, n in enumerate("abc")), shown
        none = shoal("inspect", "emb", "d:x3", "--coordinator", fleet.endpoint)
        assert none.returncode == 66 and "the tables have no field d; their fields are: b, c, a" in none.stderr, none
        gone = shoal("erase", "emb", "--field", "c", "--value", "x3", "--job", second, "--coordinator", fleet.endpoint)
        assert gone.returncode == 0, gone
        assert row(fleet, "2:x3") is None and row(fleet, "0:x3") == rows["a"] and row(fleet, "1:x3") == rows["b"]


def buckets_are_read_by_the_job_that_made_them(space):
    """Here, and by a file of the user's whose paths hold, unless it means something else by the field."""
    over = {"data.columns": [{"name": "c", "type": "number"}], "features.number": "bucket"}
    first = job(space, "first", ["b", "a"])
    path = space / "first.csv"
    path.write_text("\n".join(["label,b,c", *(f"{i % 2},x{i % 7},{i % 40}" for i in range(1500))]) + "\n", encoding="utf-8")
    job_file(first, path, **{"data.format": "csv", "data.label": "label", "train.batch": 100, **MODEL, **over})
    with Fleet(space, "f").up() as fleet:
        fleet.job(first)
        at = row(fleet, "--field", "c", "--value", "9")
        assert at is not None and at["field"] == 1 and row(fleet, "c:12") == at != row(fleet, "c:3")
        copy = path.rename(space / "moved.csv")
        assert row(fleet, "c:9") == at  # names make up for the file
        mine = job_file(space / "mine.yaml", copy, **{"data.format": "csv", "data.label": "label", **MODEL, **over})
        assert row(fleet, "c:9", "--job", mine) == at
        other = job_file(space / "other.yaml", copy, **{"data.format": "csv", "data.label": "label", **MODEL})
        refused = shoal("inspect", "emb", "c:9", "--coordinator", fleet.endpoint, "--job", other)
        assert refused.returncode == 78 and "field c is category in the job file, in the tables it is bucket" in refused.stderr, refused


def lost_coordinator_reads_rows_as_they_were_meant(space):
    """Its folder is lost between two jobs, the second of which has no a: the servers tell it the names. One whose names are damaged says what to do, and that helps."""
    first, second = job(space, "first", ["a", "b", "c"]), job(space, "second", ["b", "c"])
    with Fleet(space, "calm").up() as fleet:
        fleet.job(first)
        whole = fleet.job(second)
    with Fleet(space, "f").up() as fleet:
        fleet.job(first)
        rows = {n: row(fleet, f"{i}:x3") for i, n in enumerate("ab")}
        fleet.stop("coordinator")
        shutil.rmtree(fleet.folder("coordinator"))
        fleet.coordinator()
        fleet.taken_over()
        assert fleet.job(second) == whole
        assert row(fleet, "a:x3") == row(fleet, "0:x3") == rows["a"] and row(fleet, "b:x3")["key"] == rows["b"]["key"]
        fleet.stop("s0")
        names = fleet.folder("s0") / "shard-0/names"
        kept = names.read_bytes()
        names.write_bytes(kept[:-1] + b"?")
        server = fleet.server("s0")
        assert server.wait(30) == 74, fleet.said("s0")
        assert f"{names} is damaged" in fleet.said("s0") and "move it away, and the coordinator" in fleet.said("s0"), fleet.said("s0")
        names.rename(space / "aside")
        fleet.stop("s0")
        fleet.server("s0")
        fleet.fits()
        within(10, "the names to be told again", lambda: names.exists() and names.read_bytes() == kept)


def nobody_guesses(space):
    """An older release's servers keep no names; without the coordinator's folder no process can tell them."""
    first = job(space, "first", ["a", "b", "c"])
    with Fleet(space, "f").up() as fleet:
        fleet.job(first)
        fleet.stop()
        for i in range(2):
            (fleet.folder(f"s{i}") / "shard-0/names").unlink()
        shutil.rmtree(fleet.folder("coordinator"))
        fleet.up()
        fleet.taken_over()
        got = shoal("submit", first, "--coordinator", fleet.endpoint, "--start-from", "fleet")
        assert got.returncode == 78 and "neither this coordinator nor a server knows what the fields of the tables are called" in got.stderr, got


def drop(fleet, what):
    return shoal("drop", what, "--coordinator", fleet.endpoint)


def dropped_field_leaves_no_trace(space):
    """Its rows go, the others' stay; its number is another's later. What the job has is not dropped. A server that dies on the way gets the rest."""
    first, second = job(space, "first", ["a", "b", "c"]), job(space, "second", ["b", "c"])
    with Fleet(space, "f").up() as fleet:
        assert drop(fleet, "emb/a").returncode in (66, 69)
        fleet.job(first)
        lived = drop(fleet, "emb/a")
        assert lived.returncode == 73 and "emb/a is one of the last job's" in lived.stderr and "fresh: [a]" in lived.stderr, lived
        fleet.job(second)
        rows = {n: row(fleet, f"{i}:x3") for i, n in enumerate("abc")}
        none = drop(fleet, "emb/d")
        assert none.returncode == 66 and "there is no emb/d here: what it does not have any more is emb/a" in none.stderr, none
        for wrong, status, why in (("emb", 66, "there is no space emb here, but e2e"), ("s/emb/a", 66, "there is no space s here, but e2e"),
                                   ("s/emb/a/b", 64, "has four parts"), ("emb/", 64, "is no SPACE, TABLE/FIELD")):
            got = drop(fleet, wrong)
            assert got.returncode == status and why in got.stderr, got
        fleet.stop("s1")
        half = drop(fleet, "emb/a")  # the other server drops its rows at once, and this one is waited for, for a while
        assert half.returncode == 69 and "server s1 is not heard any more: say it again when it is back" in half.stderr, half
        assert "server s1 is away" in drop(fleet, "emb/a").stderr
        fleet.server("s1")
        fleet.fits()
        got = drop(fleet, "emb/a")
        rest = got.stdout.removeprefix("emb/a: ").removesuffix(" rows dropped\n")
        assert got.returncode == 0 and 0 < int(rest) < 30, got
        assert row(fleet, "0:x3") is None and [row(fleet, f"{i}:x3") for i in (1, 2)] == [rows["b"], rows["c"]]
        assert drop(fleet, "emb/a").returncode == 66
        for who in ("s0", "coordinator"):  # journal and store forget nothing of it
            fleet.running[who].kill()
            fleet.running.pop(who).wait()
        fleet.coordinator()
        fleet.server("s0")
        fleet.fits()
        assert row(fleet, "0:x3") is None and row(fleet, "1:x3") == rows["b"]
        assert "a" not in shoal("tables", "emb", "--coordinator", fleet.endpoint).stdout.split()
        fleet.job(first)
        assert row(fleet, "a:x3")["field"] == 3 and row(fleet, "0:x3") is None  # it is new


def fields_of_a_fleet_begin_anew(space):
    """`start_from: fleet` with `fresh` is what a checkpoint with the same `fresh` is on new servers; and stays so when a server dies."""
    first = job(space, "first", ["a", "b", "c"], **{"checkpoint.dir": str(space / "kept")})
    for fresh in ("[a]", "[b, dense]"):
        with Fleet(space, f"f{fresh[1]}").up() as fleet, Fleet(space, f"g{fresh[1]}").up() as other:
            fleet.job(first)
            made = shoal("checkpoint", "create", "--coordinator", fleet.endpoint, "--json")
            assert made.returncode == 0, made
            at = json.loads(made.stdout)["path"]
            anew = other.job(first, "--start-from", at, "--set", f"fresh={fresh}")
            goes_on = other.job(first, "--start-from", "fleet")
            assert fleet.job(first, "--start-from", "fleet", "--set", f"fresh={fresh}") == anew, fresh
            fleet.running["s0"].kill()
            fleet.running.pop("s0").wait()
            fleet.server("s0")
            fleet.fits()
            assert fleet.job(first, "--start-from", "fleet") == goes_on, fresh


def tables_are_read_and_kept_whatever_job_comes(space):
    """Yesterday's rows are there; the next job waits for its workers, is stopped before it had any, or fails in its input: the tables are read, scored and
    checkpointed all the same, by a coordinator that has started again too. A job begins with such a checkpoint, and none goes on with it."""
    kept = {"checkpoint.dir": str(space / "kept")}
    first = job(space, "first", ["a", "b", "c"], **kept)
    missing = job_file(space / "missing.yaml", space / "missing.csv", **{"data.format": "csv", "data.label": "label", **MODEL, **kept})
    made = []

    def holds(fleet, name):
        for words in (("tables", "--json"), ("inspect", "emb", "0:x3")):
            got = shoal(*words, "--coordinator", fleet.endpoint)
            assert got.returncode == 0, got
        got = shoal("digest", "--coordinator", fleet.endpoint, "emb")
        assert got.returncode == 0 and got.stdout == held, (name, got, held)
        got = shoal("predict", first, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / "first.csv", "--out", space / f"{name}.scores")
        assert got.returncode == 0, (name, got)
        assert (space / f"{name}.scores").read_bytes() == (space / "done.scores").read_bytes(), name
        got = shoal("checkpoint", "create", name, "--coordinator", fleet.endpoint, "--json")
        assert got.returncode == 0, (name, got)
        made.append(json.loads(got.stdout)["path"])

    with Fleet(space, "f").up() as fleet:
        got = shoal("digest", "--coordinator", fleet.endpoint, "--json")
        assert got.returncode == 0 and json.loads(got.stdout) == [], got  # there was never any
        fleet.job(first)
        held = shoal("digest", "--coordinator", fleet.endpoint, "emb").stdout
        assert "emb" in held
        holds(fleet, "done")
        waits = subprocess.Popen([SHOAL, "submit", first, "--coordinator", fleet.endpoint, "--start-from", "fleet", "--workers", "2"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        within(10, "the job to wait", lambda: fleet.state().get("state") == "waiting")
        holds(fleet, "waits")
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0 and waits.wait(30) != 0
        holds(fleet, "stopped")
        fleet.start("worker", "train", "--config", missing, "--coordinator", fleet.endpoint, program="shoal-worker")
        got = shoal("submit", missing, "--coordinator", fleet.endpoint, "--start-from", "fleet")
        assert got.returncode != 0 and "missing.csv" in got.stderr, got
        del fleet.running["worker"]
        holds(fleet, "failed")
        fleet.stop("coordinator")
        fleet.coordinator()
        fleet.fits()
        holds(fleet, "again")
        assert fleet.doctor().returncode == 0
        fleet.job(first)
    listed = shoal("checkpoint", "list", space / "kept").stdout
    assert listed.count("tables alone") == 4 and listed.count("epoch 1") == 1, listed
    for path in made:
        assert shoal("checkpoint", "verify", path).returncode == 0, path
    with Fleet(space, "g").up() as other:
        within(15, "the servers to come", lambda: shoal("doctor", "--cluster", "--coordinator", other.endpoint).returncode in (0, 69) and other.state().get("servers"))
        other.start("worker", "train", "--config", first, "--coordinator", other.endpoint, program="shoal-worker")
        got = shoal("checkpoint", "restore", made[-1], "--coordinator", other.endpoint)
        assert got.returncode == 78 and "--start-from" in got.stderr and "train.skip=true" in got.stderr, got
        got = shoal("submit", first, "--coordinator", other.endpoint, "--start-from", made[-1], "--set", "train.skip=true")
        assert got.returncode == 0, got
        assert shoal("digest", "--coordinator", other.endpoint, "emb").stdout == held


if __name__ == "__main__":
    main([tables_are_read_and_kept_whatever_job_comes, names_of_a_job_file_are_the_tables_own, buckets_are_read_by_the_job_that_made_them, lost_coordinator_reads_rows_as_they_were_meant,
          nobody_guesses, dropped_field_leaves_no_trace,
          fields_of_a_fleet_begin_anew])
