#!/usr/bin/env python3
"""test_many: three models of 26 tables on one fleet, as Criteo's 26 fields want them, so that tables have numbers from 64 on: none loses a row
to another, whatever is done with them."""
from fleet import *

FIELDS = 26
NAMES = ("alpha", "beta", "gamma")


def job(space, which):
    """A table for each field; dims and columns tell the models apart."""
    draw, columns = random.Random(which), [f"c{i}" for i in range(FIELDS)]
    lines = [",".join(["label", *columns])]
    lines += [",".join([str(draw.randrange(2)), *(f"x{draw.randrange(20 + i)}" for i in range(FIELDS))]) for _ in range(600)]
    log = space / f"{NAMES[which]}.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tables = {"tables[0].name": None, "tables[0].dim": None, "tables[0].tablets": None, "tables[0].optimizer.kind": None, "tables[0].optimizer.lr": None,
              "tables": [{"name": f"t{i}", "fields": [f"c{i}"], "dim": 2 + which, "tablets": 64, "optimizer": {"kind": "adagrad", "lr": 0.05}}
                         for i in range(FIELDS)]}
    return job_file(space / f"{NAMES[which]}.yaml", log, **{
        "job": NAMES[which], "data.format": "csv", "data.label": "label", "data.shuffle": False, "train.consistency": "bsp", "train.lanes": 1,
        "train.batch": 100, "model.kind": "fm", "model.hidden": None, "checkpoint.dir": str(space / "kept"), **tables})


def run(fleet, path, *words):
    """Trains a job to its end."""
    worker = fleet.start("worker", "train", "--config", path, "--coordinator", fleet.endpoint, program="shoal-worker")
    got = shoal("submit", path, "--coordinator", fleet.endpoint, *words)
    assert got.returncode == 0, got
    assert worker.wait(60) == 0
    del fleet.running["worker"]


def look(fleet, verb, *words):
    got = shoal(verb, *words, "--coordinator", fleet.endpoint)
    assert got.returncode == 0, got
    return got.stdout


def digest(fleet, name):
    return look(fleet, "digest", "--space", name)


def trained(space, fleet):
    """Trains all three; their digests."""
    (space / "kept").mkdir(exist_ok=True)
    for which in range(3):
        run(fleet, job(space, which))
    kept = {name: digest(fleet, name) for name in NAMES}
    assert len(set(kept.values())) == 3 and all(text.count("t25") == 1 for text in kept.values()), kept
    return kept


def same(fleet, kept, *names):
    for name in names or NAMES:
        assert digest(fleet, name) == kept[name], name


def none_loses_a_row_to_another(space):
    """All processes are killed; one is dropped and trained again, one restored; the coordinator's folder is lost."""
    with Fleet(space, "f").up() as fleet:
        kept = trained(space, fleet)
        for who in ("s0", "coordinator", "s1"):
            fleet.kill(who)
            fleet.coordinator() if who == "coordinator" else fleet.server(who)
        fleet.fits()
        same(fleet, kept)
        look(fleet, "checkpoint", "create", "noon", "--space", "gamma")
        assert shoal("digest", "--from", space / "kept/noon").stdout == kept["gamma"]
        got = shoal("export", space / "kept/noon", "--out", space / "out", "--format", "tsv")
        assert got.returncode == 0, got
        look(fleet, "drop", "beta")
        same(fleet, kept, "alpha", "gamma")
        look(fleet, "drop", "gamma")
        same(fleet, kept, "alpha")
        run(fleet, space / "beta.yaml")
        run(fleet, space / "gamma.yaml", "--start-from", space / "kept/noon", "--set", "train.skip=true")
        same(fleet, kept)
        fleet.stop("coordinator")
        shutil.rmtree(fleet.folder("coordinator"))
        fleet.coordinator()
        fleet.taken_over()
        for name in NAMES:  # the schemas are in the job's text, which the store had
            run(fleet, space / f"{name}.yaml", "--start-from", "fleet", "--set", "train.skip=true")
        same(fleet, kept)
        rows = space / "rows.tsv"
        rows.write_text("value\tw0\tw1\tw2\tw3\tw4\n" + "".join(f"x{i}\t" + "\t".join(["0.5"] * 5) + "\n" for i in range(5)))
        said = look(fleet, "import", "t25", rows, "--field", "c25", "--space", "gamma")
        assert "5 rows: 0 new, 5 replaced" in said, said
        same(fleet, kept, "alpha", "beta")
        assert digest(fleet, "gamma") != kept["gamma"]


def copies_have_the_last_tables(space):
    """The server that leads is killed: its follower has all three models."""
    with Fleet(space, "r") as fleet:
        fleet.coordinator("--set", "replicas=2", shards=1)
        for who in ("s0", "s1"):
            fleet.server(who)
        within(30, "both copies", lambda: fleet.state().get("cluster", {}).get("copies"))
        kept = trained(space, fleet)
        in_sync = lambda: all(c["in_sync"] for s in fleet.state()["cluster"]["copies"] for c in s["copies"])
        within(30, "both copies in sync", in_sync)
        leader = next(c["name"] for s in fleet.state()["cluster"]["copies"] for c in s["copies"] if c.get("leads"))
        fleet.kill(leader)
        within(60, "the other copy to lead", lambda: shoal("digest", "--space", "gamma", "--coordinator", fleet.endpoint).returncode == 0)
        same(fleet, kept)


def tablets_of_the_last_tables_move(space):
    with Fleet(space, "m").up() as fleet:
        kept = trained(space, fleet)
        fleet.server("s2")
        within(20, "s2 to wait", lambda: shoal("add", "s2", "--coordinator", fleet.endpoint).returncode == 0)
        for words in (("rebalance",), ("drain", "s0")):
            within(30, f"{words[0]} to begin", lambda: shoal(*words, "--coordinator", fleet.endpoint).returncode == 0)
            time.sleep(0.5)  # the text of the status may be older than the order
            within(120, "the plan's end", lambda: "moves" not in fleet.state().get("cluster", {"moves": None}))
            same(fleet, kept)


if __name__ == "__main__":
    main([none_loses_a_row_to_another, copies_have_the_last_tables, tablets_of_the_last_tables_move])
