#!/usr/bin/env python3
"""test_tables: jobs with several tables: the same curve and rows as with one; three tables that differ in everything through kill, checkpoint
and restore, and what the commands show of them; other values; what is refused."""
import re
import struct
from collections import Counter

from lib import *
from test_checkpoint import started, stop
from test_fleet import Fleet, shoal

COLUMNS = [{"name": "click", "type": "label"}, {"name": "user"}, {"name": "item"}, {"name": "tags", "type": "multi", "pooling": "mean"},
           {"name": "weekday"}, {"name": "city"}]
COMMON = {"tablets": 64}
USER = {"name": "user", "dim": 8, "fields": ["user"], "values": "fp16", "init": {"kind": "normal", "scale": 0.02, "seed": 3},
        "optimizer": {"kind": "adam", "lr": 0.001}, "stats": True, "admit": {"min_count": 40}, **COMMON}
GOODS = {"name": "goods", "dim": 4, "fields": ["item", "tags"], "init": {"kind": "uniform", "scale": 0.01},
         "optimizer": {"kind": "adagrad", "lr": 0.05}, "stats": True, "rules": [{"field": "tags", "admit": {"none": True}}], **COMMON}
REST = {"name": "rest", "dim": 3, "values": "bf16", "init": {"kind": "constant", "scale": 0.125},
        "optimizer": {"kind": "ftrl", "lr": 0.05, "l1": 0.01}, **COMMON}
TABLES = [USER, GOODS, REST]
# Bytes of a row: key, weights (4 or 2 bytes each, then up to a word), state, statistics.
ROW_BYTES = {"user": 8 + 20 + 4 * (2 * 9 + 2) + 20, "goods": 8 + 4 * 5 + 4 * 5 + 20, "rest": 8 + 8 + 4 * 2 * 4}


def log_file(path, rows, seed=1):
    """Writes lines (click, user, item, tags, weekday, city); a click depends on user and item."""
    dice, lines = random.Random(seed), []
    for _ in range(rows):
        user, item = int(dice.paretovariate(0.6)) % 400, dice.randrange(50)
        tags = "|".join(f"t{dice.randrange(30)}" for _ in range(dice.randrange(1, 4)))
        lines.append((int(dice.random() < 0.15 + 0.7 * ((user + item) % 3 == 0)), f"u{user}", f"i{item}", tags, f"d{dice.randrange(7)}",
                      f"c{dice.randrange(12)}"))
    path.write_text("click,user,item,tags,weekday,city\n" + "".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return lines


def job(space, name, tables, **over):
    train = space / "train.csv"
    keys = {"tables[0].name": None, "tables[0].dim": None, "tables[0].tablets": None, "tables[0].optimizer.kind": None,
            "tables[0].optimizer.lr": None, "tables": tables, "data.format": "csv", "data.label": "click", "data.columns": COLUMNS,
            "model.kind": "wide_deep", "train.consistency": "bsp", "train.lanes": 3, "train.batch": 64, "model.norm": "batch", **over}
    return job_file(space / f"{name}.yaml", train, **keys)


def ask(*words):
    got = shoal(*words, "--json")
    assert got.returncode == 0, got
    return json.loads(got.stdout)


def inspect(run_dir, table, key, names):
    return ask("inspect", table, key, "--run-dir", run_dir, "--job", names)


def curve(report):
    return [(p["epoch"], p["examples"], p["logloss"]) for p in report["training"]]


# ---- one table or two -------------------------------------------------------------------------------------------


def one_table_or_two_train_alike(space):
    """A field's key has its number, and a row begins by seed and key: the same rows, wherever they lie, bit for bit."""
    log_file(space / "train.csv", 4000)
    alike = {"dim": 4, "optimizer": {"kind": "adagrad", "lr": 0.05}, "init": {"kind": "normal", "scale": 0.02, "seed": 5}, **COMMON}
    two = [{"name": "a", "fields": ["item", "city"], **alike}, {"name": "b", **alike}]
    for model, lanes in (("deepfm", 1), ("wide_deep", 3)):
        over = {"model.kind": model, "train.epochs": 3, "train.lanes": lanes, "train.task_batches": 2}
        shared = job(space, f"one-{model}", [{"name": "emb", **alike}], **over)
        divided = job(space, f"two-{model}", two, **over)
        one, other = run_job(shared, space / f"one-{model}", 2, 2), run_job(divided, space / f"two-{model}", 2, 2)
        assert lanes > 1 or curve(one) == curve(other)  # points of several lanes come in no order
        assert len(curve(one)) > 90
        a, b = digests(one), digests(other)
        assert a["dense"] == b["dense"] and a["dense_stats"] == b["dense_stats"], (a, b)
        assert a["emb"][0] == b["a"][0] + b["b"][0], (a, b)
        for table, key in (("b", "user:u1"), ("a", "city:c11"), ("b", "tags:t9")):
            row, same = inspect(space / f"one-{model}", "emb", key, shared), inspect(space / f"two-{model}", table, key, divided)
            for what in ("key", "field", "tablet", "weights", "state"):
                assert row[what] == same[what], (key, row, same)


# ---- three tables -----------------------------------------------------------------------------------------------


def checkpoint(run):
    """One that is made as soon as all servers are there."""
    create = lambda: (got := shoal("checkpoint", "create", "--run-dir", run.dir, "--json")).returncode == 0 and got
    return pathlib.Path(json.loads(until(run, "a checkpoint", create, pause=0.2).stdout)["path"])


def export(folder, table):
    """{key: (field, weights, state, statistics)}."""
    out = folder.parent / f"{folder.name}-{table}"
    got = shoal("export", folder, table, "--format", "tsv", "--out", out, "--state")
    assert got.returncode == 0, got
    names, *lines = [line.split("\t") for line in (out / f"{table}.tsv").read_text().splitlines()]
    width, state = (sum(n[0] == kind and n[1:].isdigit() for n in names) for kind in "ws")
    rows = {v[0]: [int(v[1])] + [single(x) for x in v[2:]] for v in lines}
    return {key: (v[0], v[1:1 + width], v[1 + width:1 + width + state], dict(zip(names[2 + width + state:], v[1 + width + state:])))
            for key, v in rows.items()}


def single(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


def values_of(lines, column):
    return Counter(value for line in lines for value in line[column].split("|"))


def three_tables_through_kill_checkpoint_and_restore(space):
    log_file(space / "train.csv", 4000)
    three = job(space, "three", TABLES, **{"train.epochs": longer(30)})
    calm = run_job(three, space / "calm", 2, 2)
    expected = digests(calm)
    assert list(expected) == ["user", "goods", "rest", "dense", "dense_stats"], expected
    run = Run(three, space / "killed", 2, 2)
    started(run)
    strike(run, "server-0")
    folder = checkpoint(run)
    still_going(run)
    listed = ask("checkpoint", "diff", folder, folder)["tables"]
    assert [t["name"] for t in listed] == list(expected), listed
    for table, fields, width, state, stats in (("user", {0}, 9, 2 * 9 + 2, 5), ("goods", {1}, 5, 5, 5), ("rest", {3, 4}, 4, 2 * 4, 0)):
        rows = export(folder, table).values()
        assert {field for field, *_ in rows} == fields
        assert {(len(w), len(s), len(t)) for _, w, s, t in rows} == {(width, state, stats)}, (table, next(iter(rows)))
        assert not stats or all(t["show"] >= t["click"] >= 0 and t["show"] >= 1 and t["time"] == 0 and t["flags"] in (0, 1) for *_, t in rows)
    assert run.wait() == 0, run.output()[-2000:]
    assert digests(run.report()) == expected and run.report()["restarts"] > 0
    for servers in (1, 3):
        report = run_job(three, space / f"on-{servers}", servers, 2, ["--resume", str(folder)])
        assert digests(report) == expected, f"{servers} servers: {digests(report)}, undisturbed {expected}"


def commands_tell_tables_apart(space):
    lines = log_file(space / "train.csv", 4000)
    epochs = 4
    three = job(space, "three", TABLES, **{"train.epochs": epochs})
    report = run_job(three, space / "run", 2, 2)
    rows = {t["name"]: t["rows"] for t in report["tables"]}
    told = {t["table"]: t for t in ask("tables", "--run-dir", space / "run", "--job", three)}
    assert list(told) == list(rows)
    users, items, days, cities = (values_of(lines, c) for c in (1, 2, 4, 5))
    admitted = sum(epochs * n >= USER["admit"]["min_count"] for n in users.values())
    assert 0 < admitted < len(users)
    assert {t: {f["field"]: f["rows"] for f in told[t]["fields"]} for t in ROW_BYTES} == {
        "user": {0: admitted}, "goods": {1: len(items)}, "rest": {3: len(days), 4: len(cities)}}
    for table, row_bytes in ROW_BYTES.items():
        assert told[table]["rows"] == rows[table] and told[table]["row_bytes"] == row_bytes, told[table]
    assert [told[t]["values"] for t in told] == ["fp16", "fp32", "bf16", "fp32", "fp32"]

    often = epochs * 80
    by_shows = ask("tables", "goods", "--run-dir", space / "run", "--what-if", f"shows={often}")[0]["what_if"]
    assert 0 < by_shows["rows"] == sum(epochs * n >= often for n in items.values()) < len(items), (by_shows, items)
    one_each = ask("tables", "goods", "--run-dir", space / "run", "--what-if", "memory=6000")[0]["what_if"]
    assert 30 < one_each["rows"] < len(items), one_each  # a row for each tablet that has one
    without = shoal("tables", "rest", "--run-dir", space / "run", "--what-if", "shows=2")
    assert without.returncode == 64, without  # it keeps no statistics
    text = shoal("tables", "--run-dir", space / "run", "--job", three).stdout
    for head in (f"user (fp16): {admitted} rows", "goods (fp32): 50 rows", "rest (bf16): 19 rows"):
        assert head in text, text

    (item, shows), (user, _) = items.most_common(1)[0], users.most_common(1)[0]
    row = inspect(space / "run", "goods", f"item:{item}", three)
    assert row["stats"]["show"] == epochs * shows and len(row["weights"]) == 5 and row["values"] == "fp32", row
    row = inspect(space / "run", "user", f"user:{user}", three)
    assert len(row["weights"]) == 9 and len(row["state"]) == 20 and row["values"] == "fp16", row
    wrong = shoal("inspect", "goods", "user:u1", "--run-dir", space / "run", "--job", three)
    assert wrong.returncode == 66, wrong


def evaluation_sees_all_tables(space):
    """`shoal-worker eval` of tables that servers hold, against what the run itself told of its last epoch."""
    log_file(space / "train.csv", 4000)
    log_file(space / "valid.csv", 2000, 2)
    three = job(space, "three", TABLES, **{"train.epochs": 4, "data.valid": str(space / "valid.csv")})
    with Fleet(space) as fleet:
        fleet.worker(three)
        got = shoal("submit", three, "--coordinator", fleet.endpoint)
        assert got.returncode == 0, got
        told = json.loads((space / "report.json").read_text())["valid"]
        done = subprocess.run([BIN / "shoal-worker", "eval", "--config", three, "--coordinator", fleet.endpoint, "--split", "valid"],
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
        scored = json.loads(done.stdout)
        assert [scored[k] for k in ("auc", "logloss", "examples")] == [told[k] for k in ("auc", "logloss", "examples")], (scored, told)
        assert told["auc"] > 0.6, told


def next_day_finds_all_tables(space):
    """Counts: one epoch and one more are two."""
    log_file(space / "train.csv", 4000)
    plain = [{"name": name, "dim": dim, "fields": fields, "optimizer": {"kind": "sgd", "lr": 1.0}, **COMMON}
             for name, dim, fields in (("a", 1, ["user", "tags"]), ("b", 2, ["city"]), ("c", 3, ["item", "weekday"]))]
    probe = {"model.kind": "probe", "model.norm": "none", "train.consistency": "async", "checkpoint.at_end": True}
    once, twice = job(space, "once", plain, **probe), job(space, "twice", plain, **{**probe, "train.epochs": 2})
    whole, first = run_job(twice, space / "whole", 2, 2), run_job(once, space / "first", 2, 2)
    second = run_job(once, space / "second", 2, 2, ["--start-from", str(space / "first")])
    assert digests(second) == digests(whole) != digests(first)
    assert list(digests(whole)) == ["a", "b", "c"]
    moved = job(space, "moved", [{**plain[0], "values": "bf16"}, *plain[1:]], **probe)
    narrow = run_job(moved, space / "moved", 3, 1, ["--start-from", str(space / "first")])
    assert {n: rows for n, (rows, _) in digests(narrow).items()} == {n: rows for n, (rows, _) in digests(whole).items()}


# ---- other values -----------------------------------------------------------------------------------------------


def nearest(x, values):
    """A float to the nearest of 16 bits, ties to even, as a restore rounds."""
    if values == "fp16":
        return struct.unpack("<e", struct.pack("<e", x))[0]
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def users_of(folder):
    """{key: (weights, state)}"""
    return {key: row[1:3] for key, row in export(folder, "emb").items() if row[0] == 0}


def restores_translate_values(space):
    """Users e0 to e89 are in the first lines alone: what changes their rows afterwards is the restore."""
    log_file(space / "train.csv", longer(12000))
    head, *lines = (space / "train.csv").read_text().splitlines()
    lines = [re.sub(",u[0-9]+,", f",e{i % 90}," if i < 900 else ",late,", line) for i, line in enumerate(lines)]
    (space / "train.csv").write_text("\n".join([head, *lines]) + "\n")
    table = {"name": "emb", "dim": 5, "optimizer": {"kind": "adagrad", "lr": 0.05}, **COMMON}
    over = {"data.shuffle": False, "checkpoint.every_batches": 40, "checkpoint.keep": 0}

    def made_by(values, name, servers, extra=(), at_least=1):
        """The checkpoints of a run, and what it said of the restore."""
        run = Run(job(space, name, [{**table, "values": values}], **over), space / name, servers, 2, list(extra))
        assert run.wait() == 0, run.output()[-2000:]
        said = "".join(p.read_text() for p in (run.dir / "log").iterdir()) + run.output()
        made = sorted((run.dir / "checkpoints").iterdir())
        if len(made) < at_least:
            raise TooShort(f"{name}: {made}")
        return made, said

    whole, _ = made_by("fp32", "whole", 2, at_least=2)
    rows, later = users_of(whole[0]), users_of(whole[1])
    still = [key for key in rows if rows[key] == later[key]]
    assert len(still) == 90 and len(rows) == 91, (len(still), len(rows))
    for values in ("fp16", "bf16"):
        narrow, said = made_by(values, values, 3, ["--resume", str(whole[0])])
        assert f"table emb: its values were fp32 and are {values} now: weights are rounded to the nearest" in said, said[-3000:]
        there = users_of(narrow[0])
        changed = 0
        for key in still:
            assert there[key] == ([nearest(x, values) for x in rows[key][0]], rows[key][1]), (values, key, rows[key], there[key])
            changed += there[key] != rows[key]
        assert changed == 90
        back, _ = made_by("fp32", f"back-{values}", 1, ["--resume", str(narrow[0])])
        again = users_of(back[0])
        assert all(again[key] == there[key] for key in still)


# ---- what is refused --------------------------------------------------------------------------------------------


def shipped_job_has_a_row_where_it_says(space):
    train = synth(space / "train.tsv", 3000, 4)
    rows = [line.split("\t") for line in train.read_text().splitlines()]
    report = run_job(pathlib.Path(__file__).parents[2] / "deploy/jobs/criteo-tables.yaml", space / "run", 2, 1,
                     ["--set", f"data.train={train}", "--set", "train.batch=250", "--set", "train.lanes=1", "--set", "data.shuffle=no",
                      "--set", "model.hidden=[8]"])
    batches, values = Counter(), Counter()
    for column in (3, 4, 12, 16, 21):  # a key's appearance is a batch
        for at in range(0, len(rows), 250):
            batches.update({(column, r[13 + column]) for r in rows[at:at + 250]})
    for column in range(1, 27):
        few = column in (6, 9, 14, 17, 20, 22, 23)
        values["few" if few else "emb"] += len({r[13 + column] for r in rows}) if few or column not in (3, 4, 12, 16, 21) else 0
    found = {name: rows for name, (rows, _) in digests(report).items()}
    assert 0 < found["many"] == sum(n >= 3 for n in batches.values()) and found["few"] == values["few"] and found["emb"] == values["emb"], found
    assert f"tables --run-dir {space / 'run'}" in (space / "run.out").read_text()


def jobs_that_do_not_fit_are_refused(space):
    log_file(space / "train.csv", 200)
    for name, tables, over, said in (
            ("none", [USER, GOODS, {**REST, "fields": ["city"]}], {}, 'field "weekday" is in none of them; name it in `fields` of one'),
            ("twice", [USER, GOODS, {**REST, "fields": ["city", "weekday", "item"]}], {},
             "tables[2].fields: item is in the fields of table goods already; name it once"),
            ("strange", [USER, {**GOODS, "fields": ["item", "tgas"]}, REST], {}, 'did you mean "tags"'),
            ("dims", TABLES, {"model.kind": "deepfm"},
             "user has dim 8 and goods dim 4, but model.kind deepfm multiplies the vectors of fields: give all tables one dim, or take a model"),
            ("values", [USER, {**GOODS, "values": "int8"}, REST], {}, "tables[1].values: int8"),
            ("rest", [USER, GOODS, {**REST, "fields": ["weekday", "city"]}, {"name": "empty"}], {}, "table empty has no field"),
            ("names", [USER, {**GOODS, "name": "user"}, REST], {}, "tables[0] is named user too")):
        run = Run(job(space, name, tables, **over), space / name, 1, 1)
        assert run.wait(120) == 78 and said in run.output(), (name, run.output())


if __name__ == "__main__":
    main([one_table_or_two_train_alike, three_tables_through_kill_checkpoint_and_restore, commands_tell_tables_apart,
          evaluation_sees_all_tables, next_day_finds_all_tables, restores_translate_values, shipped_job_has_a_row_where_it_says,
          jobs_that_do_not_fit_are_refused])
