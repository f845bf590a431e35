#!/usr/bin/env python3
"""test_notes.py: data that is likely to be a mistake is told: before training, in the report, on the page, by predict and eval; ordinary data is not."""
from lib import *

DOUBT = ("ever true", "no row", "alone tells", "drown", "twice", "which data.train has", "very rows", "data.weight", "data.negatives", "diverged",
         "worse than the mean", "nothing was learnt", "several places", "of its own", "\".0\"")
ROWS = 3000


def log_write(path, rows, seed, column=None, text=str, label=None):
    """A csv that a model can learn: users and items have a taste each. column: one more, a function of (number of the row, label)."""
    rng = random.Random(seed)
    taste = random.Random(1)
    user, item = ([taste.gauss(0, 1.3) for _ in range(n)] for n in (60, 30))
    with open(path, "w", encoding="utf-8") as out:
        print("click,user,item" + ("" if column is None else f",{column[0]}"), file=out)
        for i in range(rows):
            u, k = rng.randrange(60), rng.randrange(30)
            click = int(rng.random() < 1 / (1 + 2.718281828 ** -(user[u] + item[k] - 0.5))) if label is None else label
            print(f"{click},{text(u)},{text(k)}" + ("" if column is None else f",{column[1](i, click)}"), file=out)
    return path


def trained(space, name, train, valid, *words, **over):
    keys = {"data.format": "csv", "data.label": "click", "data.valid": [str(valid)], "train.epochs": 2, "train.lanes": 1,
            "tables[0].optimizer.lr": 0.1, **over}
    job = job_file(space / f"{name}.yaml", train, **keys)
    run = Run(job, space / name, 1, 1, words)
    assert run.wait() == 0, run.output()[-3000:]
    return run, run.report()


def doubts(report):
    return [note for note in report["notes"] if any(word in note for word in DOUBT)]


def ordinary_data_is_not_doubted(space):
    train, valid = log_write(space / "train.csv", ROWS, 2), log_write(space / "valid.csv", ROWS, 3)
    run, report = trained(space, "run", train, valid)
    assert doubts(report) == [] and 0.6 < report["valid"]["auc"] < 0.95, (report["notes"], report["valid"])
    assert [(f["name"], f["kind"], f["values"]) for f in report["input"]["fields"]] == [("user", "category", 60), ("item", "category", 30)], report["input"]
    assert [(f["name"], f["values"], f["absent"]) for f in report["valid"]["unseen"]] == [("user", ROWS, 0), ("item", ROWS, 0)], report["valid"]["unseen"]
    text = run.output()
    assert text.index("data.train: 2 fields and numbers, by its 3000 rows") < text.index("  user ") < text.index("quality"), text
    page = drawn(run.dir / "report.html")
    assert page is None or "<h2>Input</h2>" in page and "without a row" in page


def values_written_otherwise_are_told(space):
    """By the report, and on standard error by predict and eval, which leave standard output as it is."""
    train, valid = log_write(space / "train.csv", ROWS, 2, text=lambda x: f"{x}.0"), log_write(space / "valid.csv", ROWS, 3)
    run, report = trained(space, "run", train, valid)
    assert [f["share"] for f in report["valid"]["unseen"]] == [1.0, 1.0], report["valid"]["unseen"]
    [note] = [n for n in doubts(report) if "no row" in n]
    assert note.startswith("data.valid: ") and "user 100 %, item 100 %" in note, note
    assert "values without a row, valid: user 100 %, item 100 %" in run.output()
    assert any('end in ".0"' in n for n in doubts(report)), report["notes"]
    words = ["--from", str(run.dir), "--in", str(valid)]
    for verb, more in (("predict", ["--out", str(space / "scores.csv")]), ("predict", ["--out", "-", "--workers", "2"]), ("eval", [])):
        done = subprocess.run([SHOAL, verb, *words, *more], capture_output=True, text=True)
        assert done.returncode == 0 and "values without a row: user 100 %, item 100 %" in done.stderr, (verb, done.stderr)
        assert "the rows scored: many values" in done.stderr and "values without" not in done.stdout, (verb, done.stderr)
    assert json.loads(done.stdout)["unseen"] == report["valid"]["unseen"]
    done = subprocess.run([SHOAL, "predict", "--from", str(run.dir), "--in", str(train)], capture_output=True, text=True)
    assert done.returncode == 0 and "without a row" not in done.stderr, done.stderr


def what_gives_the_label_away_is_told(space):
    leak = ("clicked", lambda i, click: "yes" if click else "no")
    train, valid = log_write(space / "train.csv", ROWS, 2, leak), log_write(space / "valid.csv", ROWS, 3, leak)
    run, report = trained(space, "run", train, valid)
    first, second = doubts(report)
    assert 'column "clicked"' in first and "alone tells the label" in first and 'AUC of 1.0000' in second and '"clicked"' in second, report["notes"]
    text = run.output()
    assert text.index("note: " + first) < text.index("quality"), text


def files_given_twice_are_told(space):
    train = log_write(space / "train.csv", ROWS, 2)
    copy = space / "copy.csv"
    shutil.copy(train, copy)
    _, report = trained(space, "twice", train, log_write(space / "valid.csv", ROWS, 3), "--set", f"data.train=[{train}, {space}/tra*.csv]")
    assert [n for n in doubts(report) if "twice" in n] == doubts(report) != [], report["notes"]
    _, report = trained(space, "same", train, train)
    assert ["which data.train has too" in n for n in doubts(report)] == [True], report["notes"]
    _, report = trained(space, "copy", train, copy)
    assert ["data.valid has the very rows of data.train" in n for n in doubts(report)] == [True], report["notes"]


def what_cannot_teach_is_told(space):
    """Weights of 0, a negative or two, labels of one class: without a word that is no number."""
    train = log_write(space / "train.csv", ROWS, 2, ("w", lambda i, click: 0))
    valid = log_write(space / "valid.csv", ROWS, 3, ("w", lambda i, click: 1))
    _, report = trained(space, "weights", train, valid, **{"data.weight": "w"})
    assert any(n.startswith(f'data.weight: column "w" is 0 in all {2 * ROWS} examples') for n in doubts(report)), report["notes"]
    plain = log_write(space / "plain.csv", ROWS, 2)
    _, report = trained(space, "negatives", plain, log_write(space / "other.csv", ROWS, 3), **{"data.negatives": 0.0005})
    assert any(n.startswith("data.negatives: 0.0005 left ") for n in doubts(report)), report["notes"]
    _, report = trained(space, "one", plain, log_write(space / "one.csv", ROWS, 3, label=0), **{"train.epochs": 3})
    assert not any("nan" in n.split() or "nan;" in n for n in report["notes"]), report["notes"]


def weights_of_values_are_refused(space):
    train = log_write(space / "train.csv", ROWS, 2, ("tags", lambda i, click: f"{i % 7}:0.5|{i % 11}:1.5"))
    job = job_file(space / "job.yaml", train, **{"data.format": "csv", "data.label": "click"})
    for kind, status in (("category", 0), ("multi", 65)):
        run = Run(job, space / kind, 1, 1, ["--set", f"data.columns=[{{name: tags, type: {kind}}}]"])
        assert run.wait() == status, run.output()
    assert 'column "tags" has weights of values ("0:0.5"' in run.output(), run.output()


if __name__ == "__main__":
    main([ordinary_data_is_not_doubted, values_written_otherwise_are_told, what_gives_the_label_away_is_told, files_given_twice_are_told,
          what_cannot_teach_is_told, weights_of_values_are_refused])
