#!/usr/bin/env python3
"""test_ids: of a field with `id: true` the row of number N is where arithmetic says, in an export, in `inspect`, in scores; all else is malformed,
and the field is of another kind than one whose values are hashed."""
from lib import *
from test_export_scores import DIM, key_of, sparse_rows
from test_names import row, shoal

ITEM, CITY = [n << 48 for n in (1, 3)]  # fields by the order of the log: user 0, item 1, seen 2, city 3
COLUMNS = [{"name": "user", "id": True}, {"name": "item", "id": True}, {"name": "seen", "type": "multi", "id": True, "share": "item", "max": 2}]
USERS = [0, 7, 4711, 2**32 + 5, 2**48 - 1]


def log(path, rows=600, seed=3):
    draw, lines = random.Random(seed), ["label,user,item,seen,city"]
    for _ in range(rows):
        user, item = draw.choice(["", *USERS]), draw.randrange(9)
        seen = "|".join(str(draw.randrange(9)) for _ in range(draw.randrange(4)))
        lines.append(f"{int(draw.random() < 0.2 + 0.06 * item)},{user},{item},{seen},{draw.randrange(5)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def job(space, name, train, **over):
    keys = {"data.format": "csv", "data.label": "label", "data.shuffle": False, "data.test": str(train), "train.consistency": "bsp", "train.lanes": 1,
            "train.batch": 100, "checkpoint.at_end": True, "model.kind": "fm", "data.columns": COLUMNS}
    return job_file(space / f"{name}.yaml", train, **{**keys, **over})


def weights(space, run, field, value):
    told = shoal("inspect", "emb", "--field", field, "--value", value, "--run-dir", space / run, "--json").stdout
    return json.loads(told)["weights"]


def rows_are_where_arithmetic_says(space):
    """The whole export is accounted for, and its rows give the scores: no row is there by another key."""
    train = log(space / "log.csv")
    run_job(job(space, "job", train), space / "run", servers=2)
    shoal("export", space / "run", "--out", space / "npy")
    rows = sparse_rows(space / "npy")
    items, cities = [ITEM + n for n in range(9)], [key_of(3, str(n).encode()) for n in range(5)]
    assert sorted(rows) == sorted([*USERS, key_of(0, b""), *items, *cities])
    for field, value, key in (("user", 4711, 4711), ("user", 2**48 - 1, 2**48 - 1), ("item", 8, ITEM + 8), ("seen", 8, ITEM + 8), ("city", 4, cities[4])):
        assert all(abs(a - b) < 1e-6 for a, b in zip(weights(space, "run", field, value), rows[key], strict=True)), (field, value)
    assert "user), id 4711," in shoal("inspect", "emb", "user:4711", "--run-dir", space / "run").stdout
    assert "city), tablet" in shoal("inspect", "emb", "city:4", "--run-dir", space / "run").stdout
    scores = [float(line) for line in shoal("predict", "--from", space / "run", "--in", train).stdout.splitlines()[1:]]
    [bias] = [float(line.split("\t")[2]) for line in dense(space)]
    for line, score in zip(train.read_text().splitlines()[1:], scores, strict=True):
        _, user, item, seen, city = line.split(",")
        used = [rows[int(user) if user else key_of(0, b"")], rows[ITEM + int(item)], [sum(c) for c in zip([0.0] * (1 + DIM), *(rows[ITEM + int(n)] for n in seen.split("|")[-2:] if n))],
                rows[cities[int(city)]]]
        z = bias + sum(r[0] for r in used)
        for d in range(1, 1 + DIM):
            z += (sum(r[d] for r in used) ** 2 - sum(r[d] ** 2 for r in used)) / 2
        assert abs(score - 1 / (1 + 2.718281828459045 ** -z)) < 1e-5, (line, score)


def dense(space):
    shoal("export", space / "run", "dense", "--format", "tsv", "--out", space / "dense")
    return (space / "dense/dense.tsv").read_text().splitlines()[1:]


def what_is_no_id_is_malformed(space):
    train = log(space / "log.csv")
    lines = train.read_text().splitlines()
    bad = {10: "u7", 20: "-1", 30: "1.5", 40: "1e5", 50: "007", 60: " 7", 70: "281474976710656"}
    for at, value in bad.items():
        label, _, rest = lines[at].split(",", 2)
        lines[at] = f"{label},{value},{rest}"
    lines[80] = lines[80].rsplit(",", 2)[0] + ",3|x,1"
    train.write_text("\n".join(lines) + "\n")
    report = run_job(job(space, "job", train, **{"data.max_bad": 0.1, "data.test": None, "train.batch": 50, "train.task_batches": 1}), space / "run")
    assert report["bad_lines"] == 8 and report["examples"] == 592, report
    said = [f'log.csv:{at + 1}: no id, a whole number from 0 to 281474976710655: column "user" has "{value}"' for at, value in bad.items()]
    for text in [*said, 'log.csv:81: no id, a whole number from 0 to 281474976710655: column "seen" has "x"']:
        assert text in (space / "run/log/worker-0.log").read_text(), text
    strict = Run(job(space, "strict", train), space / "strict")
    assert strict.wait(60) == 65 and 'column "user" has "u7"' in strict.output(), strict.output()
    assert "field user has ids, and x7 is none" in shoal("inspect", "emb", "user:x7", "--run-dir", space / "run", status=65).stderr


def another_kind_of_field_begins_anew_or_is_refused(space):
    train = log(space / "log.csv")
    run_job(job(space, "first", train), space / "first")
    hashed = [{"name": "user"}, *COLUMNS[1:]]
    for name, columns, words in (
            ("hashed", hashed, "field user is category, it was id: set it back, or begin these anew: add to fresh: [user]"),
            ("multi", [{"name": "user", "type": "multi", "id": True}, *COLUMNS[1:]], "field user is multi id, it was id"),
            ("city", [*COLUMNS, {"name": "city", "id": True}], "field city is id, it was category")):
        path = job(space, name, train, **{"data.columns": columns})
        run = Run(path, space / name, 1, 1, ["--start-from", str(space / "first")])
        assert run.wait(60) == 78 and words in run.output(), run.output()
        said = shoal("predict", path, "--from", space / "first", "--in", train, status=78).stderr
        assert words.split(":")[0] in said, said
    run_job(job(space, "anew", train, fresh=["user"], **{"data.columns": hashed}), space / "anew", 1, 1, ["--start-from", str(space / "first")])
    assert row(space, "anew", "user", 4711) is not None and row(space, "anew", "user", "0x1267") is None
    shoal("inspect", "emb", "4711", "--run-dir", space / "anew", status=66)
    gone = job(space, "gone", train, **{"features.fields": ["item", "seen", "city"]})
    run_job(gone, space / "gone", 1, 1, ["--start-from", str(space / "first")])
    assert weights(space, "gone", "user", 4711) == weights(space, "first", "user", 4711)


if __name__ == "__main__":
    main([rows_are_where_arithmetic_says, what_is_no_id_is_malformed, another_kind_of_field_begins_anew_or_is_refused])
