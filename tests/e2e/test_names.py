#!/usr/bin/env python3
"""test_names: fields and tensors go by their names from one job to the next, whatever the job file and the log order, add or leave out."""
from lib import *

COLUMNS = ["label", "user", "item", "city", "age"]
INPUT = ["hidden.0.weight"]  # tensors that stand by the input's columns


def log(path, columns, rows=2000, seed=5):
    """The same examples whatever columns are written, and in which order."""
    draw, lines = random.Random(seed), []
    for _ in range(rows):
        user, item, city, hour, age = draw.randrange(40), draw.randrange(60), draw.randrange(8), draw.randrange(24), draw.random() * 3
        label = int(draw.random() < 0.15 + 0.3 * (user % 3 == 0) + 0.2 * (city % 2) + 0.1 * (age > 1.5))
        row = {"label": label, "user": f"u{user}", "item": f"i{item}", "city": f"c{city}", "hour": f"h{hour}", "age": f"{age:.3f}"}
        lines.append(",".join(str(row[c]) for c in columns))
    path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")
    return path


def job(space, name, train, **over):
    keys = {"data.format": "csv", "data.label": "label", "data.shuffle": False, "data.test": str(train), "train.consistency": "bsp", "train.lanes": 1,
            "train.batch": 100, "checkpoint.at_end": True, "model.hidden": [8], "data.columns": [{"name": "age", "type": "number"}]}
    return job_file(space / f"{name}.yaml", train, **{**keys, **over})


def first(space, **over):
    return run_job(job(space, "first", log(space / "first.csv", COLUMNS), **over), space / "first")


def begin(space, name, path, extra=(), servers=1):
    return run_job(path, space / name, servers, 1, ["--start-from", str(space / "first"), *extra])


def shoal(*words, status=0):
    got = subprocess.run([str(w) for w in (SHOAL, *words)], capture_output=True, text=True, timeout=120)
    assert got.returncode == status, (words, got.returncode, got.stdout, got.stderr)
    return got


def row(space, run, field, value):
    """Weights and state of a row in the run's folder, by the field's name; None: there is none."""
    got = subprocess.run([str(w) for w in (SHOAL, "inspect", "emb", f"{field}:{value}", "--run-dir", space / run)], capture_output=True, text=True)
    assert got.returncode in (0, 66), (got.returncode, got.stderr)
    return got.stdout.split("\n", 1)[1] if got.returncode == 0 else None


def tensor(space, run, name):
    """Weights and state of a tensor of one block."""
    [line] = [line for line in (space / run / "job.yaml").read_text().splitlines() if line.startswith("names: ")]
    number = json.loads(line[len("names: "):])["tensors"][name][0]
    return shoal("inspect", "dense", number << 48, "--run-dir", space / run).stdout.split("\n", 1)[1]


def numbers(space, run):
    told = subprocess.run([BIN / "shoal-worker", "fields", "--config", space / run / "job.yaml"], capture_output=True, text=True, check=True).stdout
    return {f["name"]: f["field"] for f in json.loads(told)["fields"]}


def order_says_nothing(space):
    """The log's columns, and the job's fields, in another order: the same rows, the same network over the same inputs, the same scores."""
    was = first(space)
    turned = log(space / "turned.csv", ["city", "age", "label", "item", "user"])
    for name, over in (("turned", {}), ("listed", {"features.fields": ["age", "item", "city", "user"]})):
        is_ = begin(space, name, job(space, name, turned, **over, **{"train.skip": True}), servers=2)
        assert digests(is_) == digests(was) and abs(is_["test"]["logloss"] - was["test"]["logloss"]) < 1e-12, (name, is_["test"], was["test"])
    scores = shoal("predict", "--from", space / "first", "--in", space / "first.csv").stdout
    last = sorted((space / "first/checkpoints").iterdir())[-1]
    for place in (space / "first", last, space / "turned"):
        assert shoal("predict", job(space, "asks", turned), "--from", place, "--in", turned).stdout == scores, place
    assert row(space, "turned", "city", "c3") == row(space, "first", "city", "c3") is not None


def folder_without_names_in_its_job_is_read_by_those_of_its_servers(space):
    """As one of a run that was killed before it trained: by the order of its job it would be another field's row."""
    first(space)
    begin(space, "turned", job(space, "turned", log(space / "turned.csv", ["city", "age", "label", "item", "user"]), **{"train.skip": True}), servers=2)
    text = space / "turned/job.yaml"
    text.write_text("".join(line for line in text.read_text().splitlines(True) if not line.startswith("names: ")))
    for field, value in (("city", "c3"), ("user", "u7"), ("item", "i9")):
        assert row(space, "turned", field, value) == row(space, "first", field, value) is not None, field


def new_field_starts_empty(space):
    """The network's input has grown: the job is refused with the tensor's name, and the advice of the refusal works."""
    first(space)
    more = log(space / "more.csv", ["label", "hour", "user", "item", "city", "age"])
    run = Run(job(space, "more", more), space / "refused", 1, 1, ["--start-from", str(space / "first")])
    assert run.wait(100) == 78, run.output()
    advice = run.output().split("fresh: [")[1].split("]")[0].split(", ")
    assert "hidden.0.weight is 8x17 input, it was 8x13 input" in run.output() and advice == INPUT, run.output()
    begin(space, "more", job(space, "more", more, fresh=advice, **{"train.skip": True}))
    assert row(space, "more", "user", "u7") == row(space, "first", "user", "u7") is not None
    assert row(space, "more", "hour", "h7") is None  # empty until it learns
    assert tensor(space, "more", "input.numbers") == tensor(space, "first", "input.numbers")  # it has the same numbers as before
    assert numbers(space, "more") == {**numbers(space, "first"), "hour": 3}
    taught = begin(space, "taught", job(space, "taught", more, fresh=INPUT))
    assert row(space, "taught", "hour", "h7") is not None and taught["test"]["auc"] > 0.6


def dropped_field_keeps_its_rows_and_its_number(space):
    """And is itself again when it comes back, though another came meanwhile."""
    first(space)
    without = job(space, "without", log(space / "without.csv", ["label", "user", "hour", "item", "age"]), fresh=INPUT)
    begin(space, "without", without)
    assert row(space, "without", "city", "c3") == row(space, "first", "city", "c3") is not None
    assert numbers(space, "without") == {"user": 0, "item": 1, "hour": 3, "city": 2}
    back = job(space, "back", log(space / "back.csv", ["city", "user", "hour", "label", "item", "age"]), fresh=INPUT, **{"train.skip": True})
    run_job(back, space / "back", 1, 1, ["--start-from", str(space / "without")])
    assert numbers(space, "back") == {"user": 0, "item": 1, "city": 2, "hour": 3}
    assert row(space, "back", "city", "c3") == row(space, "first", "city", "c3")
    anew = job(space, "anew", space / "back.csv", fresh=[*INPUT, "city"], **{"train.skip": True})
    run_job(anew, space / "anew", 1, 1, ["--start-from", str(space / "without")])
    assert row(space, "anew", "city", "c3") is None and row(space, "anew", "user", "u3") is not None


def what_means_something_else_is_refused(space):
    first(space)
    log(space / "same.csv", COLUMNS)
    for name, over, words in (
            ("kind", {"data.columns": None}, "input.numbers is left over"),
            ("multi", {"data.columns": [{"name": "age", "type": "number"}, {"name": "city", "type": "multi"}]}, "field city is multi, it was category"),
            ("table", {"tables[1].name": "other", "tables[1].dim": 4, "tables[1].fields": ["city"]}, "field city had its rows in table emb"),
            ("model", {"model.kind": "wide_deep"}, "model.kind is wide_deep, it was deepfm"),  # with the same tensors
            ("number", {"fresh": ["age"]}, "fresh names age, a number, which has no rows: name the tensors that read it, such as input.numbers"),
            ("typo", {"fresh": ["citty"]}, "fresh names citty, which is no field and no tensor")):
        run = Run(job(space, name, space / "same.csv", **over), space / name, 1, 1, ["--start-from", str(space / "first")])
        assert run.wait(100) == 78 and words in run.output(), (name, run.output())
    other = job(space, "narrow", space / "same.csv", **{"features.fields": ["user", "item", "age"]})
    said = shoal("predict", other, "--from", space / "first", "--in", space / "same.csv", status=78).stderr
    assert "field city is left over" in said, said
    alone = Run(job(space, "alone", space / "same.csv", fresh=["city"]), space / "alone")
    assert alone.wait(60) == 78 and "take the key away" in alone.output(), alone.output()


def columns_by_place_are_not_taken_for_others(space):
    """Neither log has names; in the second the label has moved, and with it what "1" is."""
    rows = [(i % 2, f"x{i % 7}", f"y{i % 5}") for i in range(300)]
    bare = {"data.header": False, "data.columns": None, "model.kind": "lr", "fresh": None}
    for name, order, label, status in (("first", (0, 1, 2), "0", 0), ("same", (0, 1, 2), "0", 0), ("moved", (1, 0, 2), "1", 78)):
        train = space / f"{name}.csv"
        train.write_text("".join(",".join(str(r[i]) for i in order) + "\n" for r in rows))
        run = Run(job(space, name, train, **bare, **{"data.label": label}), space / name, 1, 1, ["--start-from", str(space / "first")] if name != "first" else [])
        assert run.wait(100) == status and (status == 0 or "the label is in place 1, it was in 0" in run.output()), run.output()


def two_columns_of_one_name_are_told_apart_or_refused(space):
    rows = [f"{i % 2},x{i % 7},y{i % 5},z{i % 3}" for i in range(300)]
    for head, status in (("label,a,a,b", 0), ("label,a,a,a#2", 78)):
        path = space / "twins.csv"
        path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
        run = Run(job(space, "twins", path, **{"data.columns": None}), space / f"twins-{status}")
        assert run.wait(60) == status and ("two of the fields are called a#2" in run.output()) == (status != 0), run.output()


def a_table_of_another_name_leaves_the_network_alone(space):
    """Its fields begin anew; what they were called has no number among the tensors."""
    first(space)
    over = {"tables[0].name": "other", "fresh": ["user", "item", "city"], "train.skip": True}
    run = Run(job(space, "other", space / "first.csv", **over), space / "other", 1, 1, ["--start-from", str(space / "first")])
    status = run.wait(60)
    assert status == 0, run.output()
    assert digests(run.report())["dense"] == digests(json.loads((space / "first/report.json").read_text()))["dense"]


if __name__ == "__main__":
    main([columns_by_place_are_not_taken_for_others, two_columns_of_one_name_are_told_apart_or_refused, a_table_of_another_name_leaves_the_network_alone, order_says_nothing, folder_without_names_in_its_job_is_read_by_those_of_its_servers, new_field_starts_empty, dropped_field_keeps_its_rows_and_its_number, what_means_something_else_is_refused])
