#!/usr/bin/env python3
"""test_changes: what a job may change against the one before it, by each way to go on: right by its figures, or refused by the name of what
differs. The manual's table (deploy/manual/job.md, "What may change") is CELLS."""
from fleet import Fleet, shoal
from lib import *
from test_names import INPUT, log

FIELDS = ["user", "item", "city", "age"]
GOES = ""  # it goes on, and its figures are looked at; all else is part of the refusal
# change: keys of the job, `resume`, `start_from` a checkpoint, the same with these `fresh`, `start_from: fleet`
CELLS = {
    "field added": ({"features.fields": [*FIELDS, "hour"]}, "features.fields is", "hidden.0.weight is 8x17 input, it was 8x13", INPUT, "hidden.0.weight is 8x17"),
    "field dropped": ({"features.fields": ["user", "item", "age"]}, "features.fields is", "hidden.0.weight is 8x9 input, it was 8x13", INPUT, "hidden.0.weight is 8x9"),
    "field renamed": ({"features.fields": ["user", "item", "town", "age"]}, "features.fields is", "of other columns", INPUT, "of other columns"),
    "fields reordered": ({"features.fields": ["age", "city", "item", "user"]}, "features.fields is", GOES, None, GOES),
    "hidden widened": ({"model.hidden": [16]}, "model.hidden is 16", "hidden.0.weight is 16x13 input, it was 8x13",
                       ["hidden.0.weight", "hidden.0.bias", "hidden.head"], "hidden.0.weight is 16x13"),
    "layer added": ({"model.hidden": [8, 4]}, "model.hidden is 8, 4", "hidden.1.weight is new", ["hidden.1.weight", "hidden.1.bias", "hidden.head"], "hidden.1.weight is new"),
    "model changed": ({"model.kind": "wide_deep"}, "model.kind is wide_deep", "model.kind is wide_deep, it was deepfm", ["dense"], "model.kind is wide_deep, it was deepfm"),
    "dim": ({"tables[0].dim": 8}, "tables[0].dim is 8", "hidden.0.weight is 8x25 input", None, "hidden.0.weight is 8x25"),
    "optimizer": ({"tables[0].optimizer.kind": "ftrl"}, GOES, GOES, None, "exists here as emb with another schema"),
    "value type": ({"tables[0].values": "bf16"}, GOES, GOES, None, "exists here as emb with another schema"),
    "missing words": ({"data.missing": ["NA"]}, "data.missing is NA", 'data.missing is ["NA"], it was []', ["data.missing"], "data.missing is"),
    "label words": ({"data.label_positive": ["1"]}, "data.label_positive is 1", 'data.label_positive is ["1"], it was []', ["data.label_positive"], GOES),  # a job that only reads
    "loss": ({"model.loss": "mse"}, "model.loss is mse", "model.loss makes label 1 a number", ["model.loss"], "model.loss makes label 1 a number"),
    "whole": ({"data.columns": [{"name": "age", "type": "number"}, {"name": "user", "whole": True}]}, "data.columns, number 1", "field user has whole: true, it had not",
              ["user"], "field user has whole: true"),
    "rate": ({"tables[0].optimizer.lr": 0.01, "dense_optimizer.lr": 0.002}, GOES, GOES, None, GOES),
    "rules": ({"tables[0].admit.min_count": 2, "tables[0].clamp": 0.5}, GOES, GOES, None, GOES),
    "statistics": ({"tables[0].admit.min_score": 2}, GOES, GOES, None, "stats is 0, not 1; `shoal checkpoint create`"),
}


def prepared(space):
    """A log with all columns, the city under two names, and the job that all others differ from."""
    path = log(space / "log.csv", ["label", "user", "item", "city", "age", "hour"], 600)
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head + ",town"] + [line + "," + line.split(",")[3] for line in lines]) + "\n", encoding="utf-8")


def job(space, name, **over):
    keys = {"data.format": "csv", "data.label": "label", "data.shuffle": False, "data.test": str(space / "log.csv"), "train.consistency": "bsp", "train.lanes": 1,
            "train.batch": 100, "checkpoint.at_end": True, "model.hidden": [8], "data.columns": [{"name": "age", "type": "number"}], "features.fields": FIELDS}
    return job_file(space / f"{name}.yaml", space / "log.csv", **{**keys, **over})


def scores(space, run, path):
    got = shoal("predict", path, "--from", run, "--in", space / "log.csv", "--set", "fresh=[]")
    assert got.returncode == 0, got
    return [float(line) for line in got.stdout.splitlines()[1:]]


def judged(cell, says, status, text):
    assert (status == 0) == (says == GOES) and (says == GOES or status in (70, 78) and says in text), (cell, says, status, text)


def checkpoints_take_what_fits(space):
    """resume, start_from, and start_from with what begins anew. What goes on has learnt: better than the first day's model on the same log."""
    prepared(space)
    first = run_job(job(space, "first", **{"checkpoint.every_batches": 2, "checkpoint.keep": 0}), space / "first")
    made = sorted((space / "first/checkpoints").iterdir())
    assert len(made) >= 2, made
    for change, (keys, resume, start, fresh, _) in CELLS.items():
        ways = [("resume", resume, keys, made[0]), ("start-from", start, keys, made[-1])]
        ways += [("start-from", GOES, {**keys, "fresh": fresh}, made[-1])] if fresh else []
        for n, (way, says, over, at) in enumerate(ways):
            name = f"{change.replace(' ', '-')}-{n}"
            run = Run(job(space, name, **over), space / name, 1, 1, [f"--{way}", str(at)])
            judged((change, way), says, run.wait(100), run.output())
            if says == GOES and way == "start-from" and not fresh:
                report = run.report()
                assert report["test"]["logloss"] < first["test"]["logloss"] + 0.02, (change, report["test"], first["test"])
            shutil.rmtree(space / name, ignore_errors=True)


def a_fleet_takes_what_fits(space):
    """Several jobs one after the other on the same servers: a refused one leaves the tables unchanged."""
    prepared(space)
    with Fleet(space, "a", 1).up() as fleet:
        alone = {"checkpoint.at_end": None}
        was = fleet.job(job(space, "first", **alone))
        for change, (keys, _, _, _, says) in CELLS.items():
            path = job(space, change.replace(" ", "-"), **keys, **alone, **{"train.skip": True})
            worker = fleet.start("worker", "train", "--config", path, "--coordinator", fleet.endpoint, program="shoal-worker")
            got = shoal("submit", path, "--coordinator", fleet.endpoint, "--start-from", "fleet")
            worker.terminate()
            worker.wait(30)
            del fleet.running["worker"]
            judged((change, "fleet"), says, got.returncode, got.stdout + got.stderr)
            if says == GOES:
                assert digests(json.loads((space / "report.json").read_text())) == was, change
        again = job(space, "again", **alone, **{"train.skip": True})
        assert fleet.job(again, "--start-from", "fleet") == was


def other_rates_and_rules_count_from_then_on(space):
    """The next job on a fleet, comes to the very rows that it has from a checkpoint on new servers; killed, they still have them."""
    prepared(space)
    run_job(job(space, "first"), space / "first")
    made = max((space / "first/checkpoints").iterdir())
    keys = {**CELLS["rate"][0], **CELLS["rules"][0]}
    right = digests(run_job(job(space, "other", **keys), space / "other", 1, 1, ["--start-from", str(made)]))
    alone = {"checkpoint.at_end": None}
    assert right != digests(run_job(job(space, "same"), space / "same", 1, 1, ["--start-from", str(made)]))
    with Fleet(space, "a", 2).up() as fleet:
        fleet.job(job(space, "first", **alone))
        assert fleet.job(job(space, "other", **keys, **alone), "--start-from", "fleet") == right
        for who in ("s0", "s1"):
            fleet.running[who].kill()
            fleet.running.pop(who).wait(30)
            fleet.server(who)
        fleet.fits()
        assert fleet.job(job(space, "again", **alone, **{"train.skip": True}), "--start-from", "fleet") == right


def a_stopped_job_and_a_restart_lose_no_names(space):
    """The next job is not numbered anew over the rows of the one before, though its own job had failed."""
    prepared(space)
    alone = {"checkpoint.at_end": None}
    with Fleet(space, "a", 1).up() as fleet:
        was, report = fleet.job(job(space, "first", **alone)), json.loads((space / "report.json").read_text())
        assert shoal("submit", job(space, "second", **alone), "--coordinator", fleet.endpoint, "--start-from", "fleet", "--no-wait").returncode == 0
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
        fleet.stop("coordinator")
        fleet.coordinator()
        fleet.fits()
        turned = job(space, "turned", **CELLS["fields reordered"][0], **alone, **{"train.skip": True})
        assert fleet.job(turned, "--start-from", "fleet") == was
        assert abs(json.loads((space / "report.json").read_text())["test"]["logloss"] - report["test"]["logloss"]) < 1e-12


def what_is_fresh_begins_anew_in_a_fleet(space):
    """As from the checkpoint with the same `fresh`, on new servers."""
    prepared(space)
    run_job(job(space, "first"), space / "first")
    made = max((space / "first/checkpoints").iterdir())
    alone = {"checkpoint.at_end": None}
    for change in ("field dropped", "hidden widened", "layer added", "model changed"):
        name, (keys, _, _, fresh, _) = change.replace(" ", "-"), CELLS[change]
        anew = {**keys, "fresh": fresh}
        right = digests(run_job(job(space, name, **anew), space / name, 1, 1, ["--start-from", str(made)]))
        with Fleet(space, name, 1).up() as fleet:
            fleet.job(job(space, "alone", **alone))
            assert fleet.job(job(space, name, **anew, **alone), "--start-from", "fleet") == right, change


def a_fleet_is_translated_by_way_of_a_checkpoint(space):
    """A change that `start_from: fleet` refuses because of the schema works through `shoal checkpoint create` and `fresh: [all]`, as for new servers."""
    prepared(space)
    alone = {"checkpoint.at_end": None, "checkpoint.dir": str(space / "checkpoints")}
    with Fleet(space, "a", 1).up() as fleet:
        fleet.job(job(space, "first", **alone))
        made = shoal("checkpoint", "create", "day1", "--coordinator", fleet.endpoint)
        assert made.returncode == 0, made
        at = space / "checkpoints/day1"
        for change in ("optimizer", "value type", "another model"):
            keys = CELLS[change][0] if change in CELLS else {"model.kind": "dcnv2", "fresh": ["dense"]}
            path = job(space, change.replace(" ", "-"), **keys, **alone, **{"train.skip": True})
            alike = run_job(path, space / f"{change}-alike", 1, 1, ["--start-from", str(at)])
            worker = fleet.start("worker", "train", "--config", path, "--coordinator", fleet.endpoint, program="shoal-worker")
            got = shoal("submit", path, "--coordinator", fleet.endpoint, "--start-from", at)
            worker.terminate()
            worker.wait(30)
            assert got.returncode == 70 and "another schema" in got.stdout + got.stderr, got
            assert fleet.job(path, "--start-from", at, "--set", "fresh=" + json.dumps(["all", *keys.get("fresh", [])])) == digests(alike), change


def rows_of(space, where):
    """By key: weights, and the optimizer's state, of adagrad a number a weight."""
    out = space / f"rows-{time.monotonic_ns()}"
    got = shoal("export", where, "emb", "--format", "tsv", "--state", "--out", out)
    assert got.returncode == 0, got
    lines = [line.split("\t") for line in (out / "emb.tsv").read_text().splitlines()]
    names, rows = lines[0], {line[0] + line[1]: [float(x) for x, name in zip(line, lines[0]) if name[0] in "ws" and name[1:].isdigit()] for line in lines[1:]}
    assert len(names) > 2 and len(rows) > 100, names
    return {key: (row[:len(row) // 2], row[len(row) // 2:]) for key, row in rows.items()}


def rows_go_by_their_parts(space):
    """deepfm has a first-order weight and 3 numbers a row, dcnv2 4 numbers: as many floats, and other rows."""
    prepared(space)
    looks = {"train.skip": True, "fresh": ["dense"]}
    def goes(name, start, status, **over):
        run = Run(job(space, name, **looks, **over), space / name, 1, 1, ["--start-from", str(start)])
        assert run.wait(100) == status, (name, run.output())
        return run.output() + run.logs()
    deep = run_job(job(space, "deep", **{"tables[0].dim": 3}), space / "deep")
    was = rows_of(space, space / "deep")
    said = goes("wider", space / "deep", 70, **{"model.kind": "dcnv2", "tables[0].dim": 4})
    assert "vectors of 3 numbers in the checkpoint and of 4 in the job" in said and 'fresh: ["emb:*"]' in said, said
    goes("cross", space / "deep", 0, **{"model.kind": "dcnv2", "tables[0].dim": 3})
    cross = rows_of(space, space / "cross")
    assert cross == {key: (w[1:], s[1:]) for key, (w, s) in was.items()}
    notes = " ".join(json.loads((space / "cross/report.json").read_text())["notes"])
    assert "first-order weights are dropped" in notes and "; table dense: its rows are left out" in notes and "?" not in notes, notes
    run_job(job(space, "plain", **{"model.kind": "dcnv2", "tables[0].dim": 3}), space / "plain")
    goes("back", space / "plain", 0, **{"tables[0].dim": 3})
    back = rows_of(space, space / "back")
    assert {key: (w[1:], s[1:]) for key, (w, s) in back.items()} == rows_of(space, space / "plain")
    assert all((w[0], s[0]) == (0, 0) for w, s in back.values())  # 0: where adagrad's sums begin
    looks["fresh"] = ["dense", "emb:*"]  # as the refusal says
    goes("anew", space / "deep", 0, **{"model.kind": "dcnv2", "tables[0].dim": 4})
    assert json.loads((space / "anew/report.json").read_text())["tables"][0]["rows"] == 0 < deep["tables"][0]["rows"]


if __name__ == "__main__":
    main([rows_go_by_their_parts, checkpoints_take_what_fits, a_fleet_takes_what_fits, other_rates_and_rules_count_from_then_on,
          what_is_fresh_begins_anew_in_a_fleet, a_fleet_is_translated_by_way_of_a_checkpoint,
          a_stopped_job_and_a_restart_lose_no_names])
