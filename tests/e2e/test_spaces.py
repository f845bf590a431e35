#!/usr/bin/env python3
"""test_spaces: several models on one fleet: each has its tables, names and digest, whatever is done with the others."""
from fleet import *

MODEL = {"model.kind": "fm", "model.hidden": None}


def log(path, columns, rows=1500):
    draw, lines = random.Random(len(columns)), []
    for _ in range(rows):
        row = {name: f"x{draw.randrange(30 + i)}" for i, name in enumerate(columns)}
        lines.append(",".join([str(draw.randrange(2)), *row.values()]))
    path.write_text("\n".join([",".join(["label", *columns]), *lines]) + "\n", encoding="utf-8")
    return path


def job(space, name, columns, **over):
    """A job of another name, with other fields; all have a table `emb`."""
    return job_file(space / f"{name}.yaml", log(space / f"{name}.csv", columns), **{
        "job": name, "data.format": "csv", "data.label": "label", "data.shuffle": False, "train.consistency": "bsp", "train.lanes": 1,
        "train.batch": 100, **MODEL, **over})


def run(fleet, path, *words):
    """Trains a job to its end; what `shoal submit` said, and its digests."""
    worker = fleet.start("worker", "train", "--config", path, "--coordinator", fleet.endpoint, program="shoal-worker")
    got = shoal("submit", path, "--coordinator", fleet.endpoint, *words)
    assert got.returncode == 0, got
    assert worker.wait(PATIENCE * 30) == 0
    del fleet.running["worker"]
    return got.stdout, digests(json.loads((fleet.space / "report.json").read_text()))


def look(fleet, verb, *words, status=0):
    got = shoal(verb, *words, "--coordinator", fleet.endpoint)
    assert got.returncode == status, got
    return got.stderr if status else got.stdout


def digest(fleet, name):
    return look(fleet, "digest", "--space", name)


def models_stay_beside_one_another(space):
    """One is trained, then another, whose processes die; the first goes on as if it had been alone."""
    first, second = job(space, "first", "abc"), job(space, "second", ["d", "e"], **{"tables[0].dim": 7, "train.epochs": 3})
    with Fleet(space, "calm").up() as fleet:
        one = run(fleet, first)[1]
        two = run(fleet, first, "--start-from", "fleet")[1]
    with Fleet(space, "f").up() as fleet:
        said, digests_of = run(fleet, first)
        assert digests_of == one and "is new" not in said, said
        before = look(fleet, "digest")
        said = run(fleet, second)[0]
        assert "space second is new: its tables begin empty, beside those of first" in said, said
        other = digest(fleet, "second")
        assert digest(fleet, "first") == before and other != before
        assert "--space is missing" in look(fleet, "digest", status=64)
        assert "no space third" in look(fleet, "digest", "--space", "third", status=66)
        listed = look(fleet, "tables")
        assert "2 spaces" in listed and all(any(line.split()[:1] == [n] for line in listed.splitlines()) for n in ("first", "second")), listed
        assert "(a)" in look(fleet, "inspect", "emb", "a:x3", "--space", "first")
        assert "(d)" in look(fleet, "inspect", "emb", "d:x3", "--space", "second")
        assert "the tables have no field a" in look(fleet, "inspect", "emb", "a:x3", "--space", "second", status=66)
        for who in ("s0", "coordinator", "s1"):
            fleet.kill(who)
            fleet.coordinator() if who == "coordinator" else fleet.server(who)
        fleet.fits()
        assert digest(fleet, "first") == before and digest(fleet, "second") == other
        assert run(fleet, first, "--start-from", "fleet")[1] == two
        assert digest(fleet, "second") == other
        for name, path in (("first", first), ("second", second)):
            out = space / f"{name}.scores"
            got = shoal("predict", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / f"{name}.csv", "--out", out)
            assert got.returncode == 0 and len(out.read_text().splitlines()) == 1501, got
        refused = shoal("predict", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / "second.csv", "--set", "space=none")
        assert refused.returncode != 0 and "no space none" in refused.stderr, refused


def imported_rows_go_into_the_jobs_space(space):
    """--job is of a space that is not there yet: its table is made, and the other model's keeps its rows."""
    first, second = job(space, "first", "abc"), job(space, "second", "abc")
    rows = space / "rows.tsv"
    rows.write_text("value\t" + "\t".join(f"w{i}" for i in range(5)) + "\n" + "".join(f"x{i}\t" + "\t".join(["0.5"] * 5) + "\n" for i in range(5)))
    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        before = digest(fleet, "first")
        said = look(fleet, "import", "emb", rows, "--field", "a", "--job", second, "--space", "first", status=64)
        assert "is of space second" in said, said
        fleet.worker("w", second)
        said = look(fleet, "import", "emb", rows, "--field", "a", "--job", second)
        assert "5 rows: 5 new, 0 replaced" in said, said
        fleet.running.pop("w").wait(30)
        assert digest(fleet, "first") == before
        assert "5 rows: 0 new, 5 replaced" in look(fleet, "import", "emb", rows, "--field", "a", "--space", "second")
        assert digest(fleet, "first") == before


def the_last_space_is_not_read_for_another(space):
    """A model that was dropped is not read as the one that is left; while there is only one, a job of any name reads it."""
    first, second = job(space, "first", "abc"), job(space, "second", "abc")

    def scores(path):
        (space / "scores").unlink(missing_ok=True)
        return shoal("predict", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / "second.csv", "--out", space / "scores")

    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        got = scores(second)
        assert got.returncode == 0, got
        run(fleet, second)
        look(fleet, "drop", "first")
        got = scores(second)
        assert got.returncode == 0, got
        got = scores(first)
        assert got.returncode != 0 and "no space first here: the servers hold tables of second" in got.stderr, got


def what_becomes_of_a_space_is_said(space):
    first, second = job(space, "first", "abc"), job(space, "second", ["d", "e"])
    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        got = shoal("submit", second, "--coordinator", fleet.endpoint, "--start-from", "fleet")
        assert got.returncode == 66 and "space second has no tables here, but first" in got.stderr, got
        run(fleet, second)
        got = shoal("submit", first, "--coordinator", fleet.endpoint)
        assert got.returncode != 0 and "--set fresh=all drops them for good" in got.stderr, got
        assert "no space none" in look(fleet, "drop", "none", status=66)
        kept, before = digest(fleet, "second"), look(fleet, "tables", "emb", "--space", "first")
        assert " 0 rows" not in before
        assert "rows dropped" in look(fleet, "drop", "first")
        assert look(fleet, "digest") == kept and "no space first" in look(fleet, "digest", "--space", "first", status=66)
        fleet.kill("s0")
        fleet.server("s0")
        fleet.fits()
        assert look(fleet, "digest") == kept
        said, again = run(fleet, first)
        assert "space first is new" in said, said
        assert digest(fleet, "second") == kept and again


def taken(*folders):
    """Bytes on the disk below some folders; files with several names count once."""
    seen = {}
    for top in folders:
        for path in pathlib.Path(top).rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                at = path.lstat()
                seen[at.st_dev, at.st_ino] = at.st_blocks * 512
    return sum(seen.values())


def a_model_begins_anew_and_the_other_stays(space):
    """fresh: all drops the tables of one model: the other's digest stays, also after a kill, and it goes on as if it had been alone."""
    first, second = job(space, "first", "abc"), job(space, "second", ["d", "e"], **{"tables[0].dim": 7})
    with Fleet(space, "calm").up() as fleet:
        run(fleet, first)
        two = run(fleet, first, "--start-from", "fleet")[1]
    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        one, other = digest(fleet, "first"), run(fleet, second)[1]
        said, again = run(fleet, second, "--set", "fresh=all")
        assert again == other and "is new" not in said, said
        assert digest(fleet, "first") == one
        for who in ("s0", "coordinator", "s1"):
            fleet.kill(who)
            fleet.coordinator() if who == "coordinator" else fleet.server(who)
        fleet.fits()
        assert digest(fleet, "first") == one
        assert run(fleet, first, "--start-from", "fleet")[1] == two
        said = run(fleet, job(space, "third", "xyz"), "--set", "fresh=all")[0]
        assert "space third is new" in said and "first, second" in said, said


def a_dropped_model_gives_back_the_disk(space):
    """Its rows, images and records go; another model of another shape takes its places; the other model's digest stays."""
    big = job_file(space / "big.yaml", log(space / "big.csv", "abcdefgh", rows=1), **{
        "job": "big", "data.format": "csv", "data.label": "label", "train.consistency": "bsp", "train.lanes": 1, "train.batch": 1000, **MODEL,
        "tables[0].dim": 64, "train.epochs": 1})
    lines = [",".join([str(i % 2), *(f"x{8 * i + k}" for k in range(8))]) for i in range(12000)]
    (space / "big.csv").write_text("\n".join([",".join(["label", *"abcdefgh"]), *lines]) + "\n", encoding="utf-8")
    small, other = job(space, "small", "abc"), job(space, "other", ["d", "e"], **{"tables[0].dim": 7, "tables[0].tablets": 256})
    short = ("--set", "journal.max=16MiB", "--set", "journal.segment=4MiB")
    with Fleet(space, "f") as fleet:
        fleet.coordinator()
        for who in ("s0", "s1"):
            fleet.server(who, *short)
        servers = [fleet.folder("s0"), fleet.folder("s1")]
        run(fleet, small)
        before, kept = taken(*servers), digest(fleet, "small")
        run(fleet, big)
        full = taken(*servers)
        assert full > before + (40 << 20), (before, full)
        assert "rows dropped" in look(fleet, "drop", "big")
        got = within(30, "the disk to come back", lambda: (now := taken(*servers)) < before + (full - before) // 4 and now)
        print(f"    disk of two servers: {before >> 20} MiB, with the model {full >> 20} MiB, after its drop {got >> 20} MiB")
        assert digest(fleet, "small") == kept
        said = run(fleet, other)[0]
        assert "space other is new" in said, said
        for who in ("s0", "s1"):
            fleet.kill(who)
            fleet.server(who, *short)
        fleet.fits()
        assert digest(fleet, "small") == kept
        run(fleet, other, "--start-from", "fleet")
        assert digest(fleet, "small") == kept


def a_checkpoint_is_of_one_space(space):
    """It has none of the other model's rows, although both have a table emb; restored, it leaves the other as it is."""
    first = job(space, "first", "abc")
    second = job(space, "second", ["d", "e"], **{"checkpoint.dir": str(space / "kept")})
    (space / "kept").mkdir()
    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        run(fleet, second)
        one, two = digest(fleet, "first"), digest(fleet, "second")
        look(fleet, "checkpoint", "create", "noon", "--space", "second")
        assert shoal("digest", "--from", space / "kept/noon").stdout == two
        look(fleet, "drop", "second")
        said = run(fleet, second, "--start-from", space / "kept/noon", "--set", "train.skip=true")[0]
        assert "its tables begin with those of the checkpoint, beside those of first" in said, said
        assert digest(fleet, "second") == two and digest(fleet, "first") == one


def a_lost_coordinator_finds_all_models(space):
    first, second = job(space, "first", "abc"), job(space, "second", ["d", "e"])
    with Fleet(space, "f").up() as fleet:
        run(fleet, first)
        run(fleet, second)
        one, two = run(fleet, first, "--start-from", "fleet")[1], digest(fleet, "second")
    with Fleet(space, "g").up() as fleet:
        run(fleet, first)
        run(fleet, second)
        fleet.stop("coordinator")
        shutil.rmtree(fleet.folder("coordinator"))
        fleet.coordinator()
        fleet.taken_over()
        assert run(fleet, first, "--start-from", "fleet")[1] == one
        run(fleet, second, "--start-from", "fleet", "--set", "train.skip=true")
        assert digest(fleet, "second") == two


def listed(fleet):
    return json.loads(look(fleet, "jobs", "--json"))


def jobs_wait_for_their_turn(space):
    """Some are submitted while the first runs: they begin in order, also after the coordinator was killed. One is stopped before its turn, one is refused at it."""
    first, second = job(space, "first", "abc", **{"train.epochs": 100000}), job(space, "second", ["d", "e"])
    with Fleet(space, "f").up("--set", "jobs=1") as fleet:
        own = space / "worker.yaml"
        own.write_text(f"coordinator: {fleet.endpoint}\nbackend: cpu\nname: here\ncache: {space / 'cache'}\n")
        fleet.start("worker", "run", "--config", own, program="shoal-worker")
        look(fleet, "submit", first, "--no-wait")
        said = [look(fleet, "submit", path, *words, "--no-wait") for path, words in (
            (second, ()), (second, ("--start-from", "fleet")), (first, ("--set", "train.epochs=1")),
            (first, ("--start-from", "fleet", "--set", "train.epochs=1")))]
        assert all("it waits for its turn" in text for text in said) and "runs in space first" in said[2], said
        states = [line["state"] for line in listed(fleet)]
        assert states == ["running", *["submitted"] * 4], states
        follows = subprocess.Popen([SHOAL, "submit", second, "--start-from", "fleet", "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        within(10, "the sixth", lambda: len(listed(fleet)) == 6)
        stopped = listed(fleet)[2]["number"]
        assert "the job waits no more" in look(fleet, "stop", stopped)
        assert "job second has ended already, stopped: stopped by request" in look(fleet, "stop", stopped)
        assert "no job here has number 12" in look(fleet, "stop", 12, status=66)
        fleet.kill("coordinator")
        fleet.coordinator("--set", "jobs=1")
        within(20, "the job to go on", lambda: fleet.state().get("state") == "train")
        assert [line["state"] for line in listed(fleet)] == ["stopped", "running", *["submitted"] * 4], listed(fleet)
        look(fleet, "stop")
        within(60, "all to end", lambda: all(line["state"] not in ("running", "submitted") for line in listed(fleet)))
        ends = [(line["job"], line["state"]) for line in listed(fleet)]
        assert ends == [("second", "stopped"), ("first", "stopped"), ("second", "finished"), ("first", "failed"), ("first", "finished"),
                        ("second", "finished")], listed(fleet)
        assert "--set fresh=all drops them for good" in listed(fleet)[3]["reason"], listed(fleet)[3]
        text = follows.communicate(timeout=PATIENCE * 30)[0]
        assert follows.returncode == 0 and "examples a second" in text, text


if __name__ == "__main__":
    main([models_stay_beside_one_another, imported_rows_go_into_the_jobs_space, the_last_space_is_not_read_for_another, what_becomes_of_a_space_is_said, a_model_begins_anew_and_the_other_stays, a_dropped_model_gives_back_the_disk, a_checkpoint_is_of_one_space, a_lost_coordinator_finds_all_models, jobs_wait_for_their_turn])
