#!/usr/bin/env python3
"""test_weights: weights of values, libsvm and libffm. Logs are drawn here from models whose AUC is then known; predictions follow from an export and the
manual alone (plain Python and the system's libxxhash compute them); the ways from a log to a batch give the same bits; a log of the release before is read as
it was."""
import array

from exports import arrays_of
from lib import *
from test_export_scores import dense_tensors, key_of, network
from test_predict import auc, scores_of, shoal

SVM = {"data.format": "libsvm", "train.consistency": "bsp", "train.lanes": 1, "durability": "memory"}


# ---- known models -----------------------------------------------------------------------------------------------


def drawn_label(dice, z):
    return int(dice.random() < 1 / (1 + math.exp(-z)))


def sparse_log(path, rows, w, seed):
    """libsvm lines of 1 to 28 of the indexes 1..len(w), each with a value; labels are drawn from sigmoid(w . x - 0.5). Returns the model's AUC on them."""
    dice, lines, label, score = random.Random(seed), [], [], []
    for _ in range(rows):
        x = {i: round(dice.expovariate(1.4) * dice.choice([1, 1, 1, -1]), 4) for i in sorted(dice.sample(range(len(w)), dice.randint(1, 28)))}
        score.append(sum(w[i] * v for i, v in x.items()) - 0.5)
        label.append(drawn_label(dice, score[-1]))
        lines.append(f"{'+1' if label[-1] else '-1'} " + " ".join(f"{i + 1}:{v:g}" for i, v in x.items()))
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return auc(label, score)


def libsvm_of_123_features_with_values_reaches_its_model(space):
    """As a9a, with values: one field of any number of weighted values, and a field for each index."""
    dice = random.Random(1)
    w = [dice.gauss(0, 0.9) for _ in range(123)]
    sparse_log(space / "train.svm", 30000, w, 2)
    best = sparse_log(space / "test.svm", 10000, w, 3)
    of_indexes = {"data.libsvm": "indexes", "tables[0].dim": 2, "tables[0].init.scale": 0.001, "tables[0].optimizer.lr": 0.2, "train.epochs": 3}
    for model, over in (("lr", {}), ("deepfm", {"tables[0].dim": 8, "model.hidden": [32]}), ("fm", of_indexes)):
        job = job_file(space / f"{model}.yaml", space / "train.svm", **SVM, **{
            "data.test": str(space / "test.svm"), "model.kind": model, "train.epochs": 4, "tables[0].optimizer.lr": 0.05, **over})
        report = run_job(job, space / model)
        got = report["test"]["auc"]
        print(f"      {model}: AUC {got:.4f}, the model's {best:.4f}", flush=True)
        assert report["bad_lines"] == 0 and report["test"]["examples"] == 10000
        assert abs(got - best) < 0.01, (model, got, best)


FIELDS, VALUES = 18, 12


def field_log(path, rows, w, v, seed):
    """libffm lines of 18 fields, two of them with up to three values; a factorisation machine over the fields' weighted sums gives the labels. Returns the
    model's AUC."""
    dice, lines, label, score, dims = random.Random(seed), [], [], [], range(len(v[0][0]))
    for _ in range(rows):
        z, sums, squares, words = -0.3, [0.0 for _ in dims], 0.0, []
        for f in range(FIELDS):
            pool = [0.0 for _ in dims]
            for k in dice.sample(range(VALUES), 1 if f not in (4, 11) else dice.randrange(4)):
                x = 1.0 if f % 3 else round(dice.uniform(0.2, 2), 3)
                z += w[f][k] * x
                pool = [p + x * e for p, e in zip(pool, v[f][k])]
                words.append(f"{f}:{f * VALUES + k}:{x:g}")
            sums = [a + p for a, p in zip(sums, pool)]
            squares += sum(p * p for p in pool)
        score.append(z + (sum(a * a for a in sums) - squares) / 2)
        label.append(drawn_label(dice, score[-1]))
        lines.append(f"{label[-1]} " + " ".join(words))
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return auc(label, score)


def libffm_of_18_fields_reaches_its_model(space):
    dice = random.Random(4)
    w = [[dice.gauss(0, 0.5) for _ in range(VALUES)] for _ in range(FIELDS)]
    v = [[[dice.gauss(0, 0.2) for _ in range(2)] for _ in range(VALUES)] for _ in range(FIELDS)]
    field_log(space / "train.ffm", 60000, w, v, 5)
    best = field_log(space / "test.ffm", 10000, w, v, 6)
    job = job_file(space / "job.yaml", space / "train.ffm", **{**SVM, "data.format": "libffm"}, **{
        "data.test": str(space / "test.ffm"), "model.kind": "fm", "train.epochs": 10, "tables[0].dim": 2, "tables[0].init.kind": "normal",
        "tables[0].init.scale": 0.05, "tables[0].optimizer.lr": 0.1})
    report = run_job(job, space / "run")
    got = report["test"]["auc"]
    print(f"      fm: AUC {got:.4f}, the model's {best:.4f}", flush=True)
    assert report["bad_lines"] == 0 and abs(got - best) < 0.01, (got, best)


# ---- by hand ----------------------------------------------------------------------------------------------------


def weighted_csv(path, rows, seed):
    """Cells with 0 to 4 values; weights of all signs, 0, none; one value in ten is new to a model of another seed. Returns label and cells of each line."""
    dice, lines = random.Random(seed), []
    for _ in range(rows):
        cells = []
        for _ in range(2):
            pieces = []
            for _ in range(dice.randrange(5)):
                value = dice.randrange(60) if dice.random() < 0.9 else 1000 * seed + dice.randrange(50)
                pieces.append(f"t{value}" + dice.choice(["", ":1", ":0", f":{dice.uniform(-2, 2):.3f}", f":{dice.uniform(0, 3):.2e}"]))
            cells.append("|".join(pieces))
        lines.append((int(dice.random() < 0.2 + 0.1 * len(cells[0].split("|"))), f"u{dice.randrange(80)}", *cells))
    pathlib.Path(path).write_text("click,user,tags,seen\n" + "".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return lines


WEIGHTED = {"data.format": "csv", "data.label": "click", "data.columns": [{"name": "tags", "type": "multi", "weighted": True},
                                                                         {"name": "seen", "type": "multi", "weighted": True, "pooling": "mean"}]}


def pooled(cell, field, mean, rows):
    """The sum of weight times row; in a mean divided by the sum of the weights' magnitudes. A value without a row is zeros."""
    total, size = [0.0] * WIDTH, 0.0
    for piece in filter(None, cell.split("|")):
        value, _, weight = piece.partition(":")
        weight = float(weight or 1)
        total = [t + weight * r for t, r in zip(total, rows.get(key_of(field, value.encode()), [0.0] * WIDTH))]
        size += abs(weight)
    return [t / size for t in total] if mean and size > 0 else total


WIDTH = 5  # a first-order weight and a vector of 4


def predictions_follow_from_an_export(space):
    """First-order weights, pairs of fields, and a network over the pooled vectors: in double, from the rows of a safetensors."""
    weighted_csv(space / "train.csv", 4000, 1)
    lines = weighted_csv(space / "test.csv", 800, 2)
    job = job_file(space / "job.yaml", space / "train.csv", **WEIGHTED, **{
        "data.test": str(space / "test.csv"), "checkpoint.at_end": True, "train.epochs": 3, "train.batch": 64, "tables[0].init.scale": 0.2})
    report = run_job(job, space / "run", servers=2)
    [made] = [p for p in (space / "run/checkpoints").iterdir() if (p / "manifest.json").exists()]
    shoal("export", made, "--format", "safetensors", "--out", space / "exported")
    shoal("predict", "--from", space / "run", "--out", space / "scores.csv")
    found = arrays_of(space / "exported")
    rows = {k: array.array("f", first + vector)
            for k, first, vector in zip(found["emb.keys"].values(), found["emb.first"].rows(), found["emb.vectors"].rows(), strict=True)}
    tensors = dense_tensors(space / "exported", [[1], [16, 12], [16], [8, 16], [8], [1, 8]])
    told, mine, worst = [float(s) for s in scores_of(space / "scores.csv")], [], 0.0
    for (_, user, tags, seen), score in zip(lines, told, strict=True):
        of = [rows.get(key_of(0, user.encode()), [0.0] * WIDTH), pooled(tags, 1, False, rows), pooled(seen, 2, True, rows)]
        z = tensors[0][0] + sum(r[0] for r in of) + network([x for r in of for x in r[1:]], tensors[1:])
        z += sum(sum(r[d] for r in of) ** 2 - sum(r[d] ** 2 for r in of) for d in range(1, WIDTH)) / 2
        mine.append(1 / (1 + math.exp(-z)))
        worst = max(worst, abs(mine[-1] - score))
    print(f"      {len(lines)} rows, {worst:.2g} at most between", flush=True)
    assert worst < 1e-5, worst
    assert abs(auc([line[0] for line in lines], told) - report["test"]["auc"]) < 1e-12


# ---- one log, many ways -----------------------------------------------------------------------------------------


def a_log_gives_the_same_tables_whatever_its_form(space):
    """A csv's cells, kept rows, an event file and a libsvm with the same values: the same bits under bsp, with any number of workers."""
    dice, svm, csv = random.Random(5), [], []
    for _ in range(5000):
        pieces = [(dice.randrange(300), dice.choice([1, 0.5, -2, 0, 0.125])) for _ in range(dice.randrange(0, 9))]
        label = int(dice.random() < 0.3 + 0.05 * len(pieces))
        svm.append(f"{label} " + " ".join(f"{i}:{v:g}" for i, v in pieces))
        csv.append(f"{label}," + "|".join(f"{i}:{v:g}" for i, v in pieces))
    (space / "a.svm").write_text("\n".join(svm) + "\n")
    (space / "a.csv").write_text("0,1\n" + "\n".join(csv) + "\n")
    over = {"train.consistency": "bsp", "train.lanes": 2, "model.kind": "wide_deep", "train.batch": 64, "train.epochs": 2}
    columns = {"data.format": "csv", "data.label": "0", "data.columns": [{"name": "1", "type": "multi", "weighted": True}]}
    svm_job = job_file(space / "svm.yaml", space / "a.svm", **over, **{"data.format": "libsvm"})
    made = [run_job(svm_job, space / "svm", 2, 2),
            run_job(job_file(space / "csv.yaml", space / "a.csv", **over, **columns), space / "csv"),
            run_job(job_file(space / "kept.yaml", space / "a.csv", **over, **columns, **{"data.cache": str(space / "cache")}), space / "kept", 1, 2)]
    shoal("convert", svm_job, "--out", space / "a.events")
    made.append(run_job(job_file(space / "events.yaml", space / "a.events", **over, **{"data.format": "events"}), space / "events"))
    for report in made[1:]:
        assert digests(report) == digests(made[0]), (digests(report), digests(made[0]))


def rows_learn_by_their_weights(space):
    """One batch of plain gradient descent on lr: a row's step is the sum over its values of weight times the example's gradient, in a mean divided by the
    magnitudes."""
    lines = [(1, "a:2|b:-1"), (0, "a:0|c:3"), (1, "b:0.5|a:0.25|c:0.25"), (0, ""), (1, "a:0|b:0")]
    (space / "log.csv").write_text("click,tags\n" + "".join(f"{y},{cell}\n" for y, cell in lines))
    for mean in (False, True):
        column = {"name": "tags", "type": "multi", "weighted": True, "pooling": "mean" if mean else "sum"}
        job = job_file(space / f"{mean}.yaml", space / "log.csv", **{
            "data.format": "csv", "data.label": "click", "data.columns": [column], "model.kind": "lr", "train.lanes": 1, "train.consistency": "bsp",
            "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1, "checkpoint.at_end": True})
        run_job(job, space / f"run-{mean}")
        [made] = [p for p in (space / f"run-{mean}/checkpoints").iterdir() if (p / "manifest.json").exists()]
        shoal("export", made, "emb", "--format", "npy", "--out", space / f"out-{mean}")
        found = arrays_of(space / f"out-{mean}")
        row = dict(zip(found["emb.keys"].values(), [array.array("f", r)[0] for r in found["emb.first"].rows()], strict=True))
        for value in "abc":
            step = 0.0
            for y, cell in lines:
                pieces = [(p.split(":")[0], float(p.split(":")[1])) for p in filter(None, cell.split("|"))]
                size = sum(abs(x) for _, x in pieces)
                step += sum(x for v, x in pieces if v == value) / (size if mean and size > 0 else 1) * (y - 0.5) / len(lines)
            assert abs(row[key_of(0, value.encode())] - step) < 1e-7, (mean, value, row, step)


# ---- logs of the release before ----------------------------------------------------------------------------------


def place_log(path, rows, seed, vary=False):
    """libsvm with three entries a line, a place a field; vary: every other line has two."""
    dice, lines = random.Random(seed), []
    for i in range(rows):
        user, item, city = dice.randrange(1, 200), dice.randrange(200, 260), dice.randrange(260, 265)
        words = [f"{user}:1", f"{item}:1", f"{city}:1"]
        lines.append(f"{int((user + item) % 3 == 0)} " + " ".join(words[:2] if vary and i % 2 else words))
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def said_of(job, run_dir, status=0):
    run = Run(job, run_dir)
    assert run.wait() == status, run.output()[-3000:]
    return run.output()


def tables_of_places_are_not_read_otherwise(space):
    """A job that trained by place goes on by place, with the next day's log too, whose first lines would be one field. Lines that do not fit are refused, in words; so
    is the job that says that they are one field."""
    place_log(space / "one.svm", 3000, 1)
    place_log(space / "two.svm", 3000, 2, vary=True)
    one = job_file(space / "one.yaml", space / "one.svm", **SVM, **{"model.kind": "fm", "checkpoint.at_end": True})
    report = run_job(one, space / "one")
    assert report["rows"] > 250 and report["bad_lines"] == 0
    over = {**SVM, "model.kind": "fm", "start_from": str(space / "one")}
    said = said_of(job_file(space / "two.yaml", space / "two.svm", **over), space / "two", 65)
    assert re.search(r"two\.svm:\d+: 2 entries, not 3: an entry's place is its field here", said), said[-2000:]
    said = said_of(job_file(space / "other.yaml", space / "two.svm", **over, **{"data.libsvm": "one"}), space / "other", 78)
    assert re.search(r"field 1 .*multi weighted.*category", said), said[-2000:]
    # entries of one field are no fields by index
    run_job(job_file(space / "four.yaml", space / "two.svm", **SVM, **{"model.kind": "fm", "checkpoint.at_end": True}), space / "four")
    said = said_of(job_file(space / "five.yaml", space / "two.svm", **{**over, "start_from": str(space / "four")}, **{"data.libsvm": "indexes"}), space / "five", 78)
    assert "have all entries in one field" in said, said[-2000:]
    place_log(space / "three.svm", 3000, 3)
    report = run_job(job_file(space / "three.yaml", space / "three.svm", **over), space / "three")
    assert report["bad_lines"] == 0 and report["rows"] > 250


if __name__ == "__main__":
    main([libsvm_of_123_features_with_values_reaches_its_model, libffm_of_18_fields_reaches_its_model, predictions_follow_from_an_export,
          a_log_gives_the_same_tables_whatever_its_form, rows_learn_by_their_weights, tables_of_places_are_not_read_otherwise])
