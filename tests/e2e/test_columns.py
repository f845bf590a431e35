#!/usr/bin/env python3
"""test_columns: transforms of numbers, missing ones, indicators and crosses, held against a script of its own: numbers and keys are made here from the log
and deploy/manual/job.md alone, scores from an export, figures from the job file that lies with the tables. The next day reads its log by the first day's
figures, event files as text, and what would mean something else is refused in words."""
import math

from lib import *
from test_export_scores import dense_tensors, network, sparse_rows, xxh3_64
from test_predict import scores_of, shoal

DIM, HIDDEN, ROWS = 4, [8], 4000
COLUMNS = [
    {"name": "age", "type": "number", "transform": "standard", "indicator": True},
    {"name": "price", "type": "number", "transform": "bucket", "quantiles": 8},
    {"name": "n1..n2", "type": "number", "transform": "log1p", "fill": 3},
    {"name": "hour", "type": "number", "transform": "bucket", "borders": [6, 12, 18]},
    {"name": "*", "type": "category"},
]
CROSSES = [["site", "hour"], ["price", "site", "user"]]


def write_log(path, rows, seed, scale=1):
    draw = random.Random(seed)
    lines = ["click,user,age,site,price,n1,hour,n2"]
    for _ in range(rows):
        age, price, hour, site = draw.randint(18, 70), draw.expovariate(0.05), draw.randint(0, 23), draw.randint(0, 9)
        wanted = (age > 40) + (price * scale < 15) + (hour // 6 == site % 4)
        age, n1 = ["" if draw.random() < 0.1 else x for x in (age * scale, draw.randint(0, 300))]
        lines.append(f"{int(draw.random() < wanted / 4)},u{draw.randint(0, 30)},{age},s{site},{price * scale:.4f},{n1},{hour},{draw.random() * 9:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def job_of(space, name, train, **over):
    return job_file(space / name, train, **{
        "data.format": "csv", "data.label": "click", "data.columns": COLUMNS, "features.crosses": CROSSES, "train.consistency": "bsp", "train.lanes": 1,
        "train.epochs": 2, "checkpoint.at_end": True, "model.hidden": HIDDEN, "tables[0].dim": DIM, **over})


def names_of(run):
    [line] = [line for line in (run / "job.yaml").read_text().splitlines() if line.startswith("names: ")]
    return json.loads(line[len("names: "):])


def figures_by_hand(log):
    """Of the whole log, which has fewer rows than a sample: mean and deviation to nine digits, borders to six."""
    rows = [dict(zip(log[0].split(","), line.split(","))) for line in log[1:]]
    ages = sorted(float(r["age"]) for r in rows if r["age"])
    mean = sum(ages) / len(ages)
    deviation = math.sqrt(sum((a - mean) ** 2 for a in ages) / len(ages))
    prices = sorted(float(r["price"]) for r in rows)
    borders = [float(f"{prices[k * len(prices) // 8]:.6g}") for k in range(1, 8)]
    return float(f"{mean:.9g}"), float(f"{deviation:.9g}"), borders


def figures_kept(names):
    told = names["figures"]
    word, mean, deviation = told["age"].split()
    assert word == "standard" and told["price"].startswith("bucket of 8 at ") and sorted(told) == ["age", "price"], told
    return float(mean), float(deviation), [float(b) for b in told["price"].split()[4:]]


def inputs_of(row, figures, number):
    """The numbers and the keys of a row, in the network's order; number: a field's, by its name."""
    mean, deviation, borders = figures
    log1p = [math.copysign(math.log1p(abs(float(row[n] or "3"))), float(row[n] or "3")) for n in ("n1", "n2")]
    numbers = [(float(row["age"]) - mean) / deviation if row["age"] else 0.0, float(row["age"] == ""), log1p[0], log1p[1]]
    value = {"user": row["user"], "site": row["site"], "price": str(sum(b <= float(row["price"]) for b in borders)),
             "hour": str(sum(b <= float(row["hour"]) for b in (6, 12, 18)))}
    for cross in CROSSES:
        value[" x ".join(cross)] = b"".join(xxh3_64(value[c].encode(), 0).to_bytes(8, "little") for c in cross)
    keys = [number[f] << 48 | xxh3_64(v if isinstance(v, bytes) else v.encode(), number[f]) & (1 << 48) - 1 for f, v in value.items()]
    return numbers, dict(zip(value, keys))


def scores_by_hand(log, exported, names):
    fields = {name: told[0] for name, told in names["fields"].items()}
    numbers = {name: told[0] for name, told in names["numbers"].items()}
    order, known = sorted(fields, key=fields.get), ["age", "missing age", "n1", "n2"]
    inputs = len(order) * DIM + len(numbers)
    shapes = [[1], [1, len(numbers)], [HIDDEN[0], inputs], [HIDDEN[0]], [1, HIDDEN[0]]]
    rows, tensors = sparse_rows(exported), dense_tensors(exported, shapes)
    scores = []
    for line in log[1:]:
        x, keys = inputs_of(dict(zip(log[0].split(","), line.split(","))), figures_kept(names), fields)
        x = [value for _, value in sorted(zip([numbers[n] for n in known], x))]
        found = [rows.get(keys[f], [0.0] * (1 + DIM)) for f in order]
        z = tensors[0][0] + sum(r[0] for r in found) + sum(w * v for w, v in zip(tensors[1], x))
        for d in range(1, 1 + DIM):
            z += (sum(r[d] for r in found) ** 2 - sum(r[d] ** 2 for r in found)) / 2
        z += network([v for r in found for v in r[1:]] + x, tensors[2:])
        scores.append(1 / (1 + math.exp(-z)))
    return scores


def check_scores(space, run, test, name):
    [made] = [p for p in sorted((space / run / "checkpoints").iterdir()) if (p / "manifest.json").exists()]
    shoal("export", made, "--format", "safetensors", "--out", space / f"{name}.exported")
    shoal("predict", "--from", space / run, "--set", f"data.test={test}", "--out", space / f"{name}.scores")
    log = test.read_text().splitlines()
    told = [float(s) for s in scores_of(space / f"{name}.scores")]
    mine = scores_by_hand(log, space / f"{name}.exported", names_of(space / run))
    worst = max(abs(a - b) for a, b in zip(told, mine, strict=True))
    print(f"      {name}: {len(told)} rows, {worst:.2g} at most between", flush=True)
    assert worst < 1e-5 and len({f"{t:.4f}" for t in told}) > 100, worst


def a_script_makes_the_same_numbers_keys_and_scores(space):
    train, test = write_log(space / "train.csv", ROWS, 1), write_log(space / "test.csv", 600, 2)
    report = run_job(job_of(space, "job.yaml", train, **{"data.test": str(test)}), space / "run", servers=2)
    assert report["test"]["auc"] > 0.6, report["test"]
    names = names_of(space / "run")
    kept, mine = figures_kept(names), figures_by_hand(train.read_text().splitlines())
    assert abs(kept[0] - mine[0]) < 1e-7 * abs(mine[0]) and abs(kept[1] - mine[1]) < 1e-7 * mine[1] and kept[2] == mine[2], (kept, mine)
    assert {n: v[1] for n, v in names["numbers"].items()} == {"age": "number standard", "missing age": "number missing",
                                                              "n1": "number log1p, fill 3", "n2": "number log1p, fill 3"}, names["numbers"]
    check_scores(space, "run", test, "first")


def the_next_day_has_the_first_days_figures(space):
    """Its log is in other units, so figures of its own would read it as the first day's."""
    job = job_of(space, "monday.yaml", write_log(space / "monday.csv", ROWS, 1))
    run_job(job, space / "monday")
    tuesday, test = write_log(space / "tuesday.csv", ROWS, 3, scale=10), write_log(space / "test.csv", 300, 4, scale=10)
    begin = {"start_from": str(space / "monday"), "data.test": str(test)}
    run_job(job_of(space, "tuesday.yaml", tuesday, **begin), space / "tuesday")
    assert names_of(space / "tuesday")["figures"] == names_of(space / "monday")["figures"]
    check_scores(space, "tuesday", test, "tuesday")
    for name, over, words in [("a", {"data.columns[0].transform": "log1p"}, "hidden.0.weight is"),
                              ("b", {"data.columns[1].quantiles": 9}, "field price is bucket of 9, it was bucket of 8"),
                              ("c", {"data.columns[3].borders": [6, 12]}, "field hour is bucket at 6 12, it was bucket at 6 12 18"),
                              ("d", {"data.columns[2].fill": 0}, "hidden.0.weight is"),
                              ("e", {"features.crosses": [["site", "hour"]]}, "hidden.0.weight is")]:
        run = Run(job_of(space, f"{name}.yaml", tuesday, **begin), space / name, extra=[w for k, v in over.items() for w in ("--set", f"{k}={json.dumps(v)}")])
        assert run.wait() == 78 and words in run.output() and "fresh: [" in run.output(), run.output()[-2000:]
    # what is gone on with after the refusal's advice learns anew under the same figures
    over = ["--set", "data.columns[1].quantiles=9", "--set", 'fresh=[price, "price x site x user"]']
    run_job(job_of(space, "f.yaml", tuesday, **begin), space / "f", extra=over)
    assert names_of(space / "f")["figures"]["price"].startswith("bucket of 9 at ")


def event_files_have_what_was_made(space):
    train, test = write_log(space / "train.csv", ROWS, 1), write_log(space / "test.csv", 600, 2)
    job = job_of(space, "job.yaml", train, **{"data.test": str(test)})
    text = run_job(job, space / "text")
    kept = run_job(job_of(space, "kept.yaml", train, **{"data.test": str(test), "data.cache": str(space / "cache")}), space / "kept")
    for split in ("train", "test"):  # by the run's job file: the test's figures are the training's
        done = subprocess.run([SHOAL, "convert", str(space / "text/job.yaml"), "--split", split, "--out", str(space / f"{split}.events")],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
    over = {"data.format": "events", "data.train": str(space / "train.events"), "data.test": str(space / "test.events")}
    events = run_job(job_of(space, "events.yaml", train, **over), space / "events", workers=2)
    open_job = job_of(space, "open.yaml", train, **{**over, "data.columns": None, "features.crosses": None})
    opened = run_job(open_job, space / "open")
    for report in (kept, events, opened):
        assert digests(report) == digests(text) and report["test"]["auc"] == text["test"]["auc"], (report["tables"], text["tables"])
    assert names_of(space / "events")["figures"] == names_of(space / "text")["figures"]
    # tables of event files score text
    check_scores_of_text = ["--set", "data.format=csv", "--set", f"data.train={train}", "--set", f"data.test={test}"]
    shoal("predict", "--from", space / "events", *check_scores_of_text, "--out", space / "events.csv")
    shoal("predict", "--from", space / "text", "--out", space / "text.csv")
    assert (space / "events.csv").read_bytes() == (space / "text.csv").read_bytes()
    # figures of another log
    other = write_log(space / "other.csv", ROWS, 5, scale=3)
    done = subprocess.run([SHOAL, "convert", str(job), "--set", f"data.train={other}", "--out", str(space / "other.events")],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    run = Run(job_of(space, "other.yaml", train, **{**over, "data.train": str(space / "other.events"), "data.test": None,
                                                   "start_from": str(space / "text")}), space / "other")
    assert run.wait() == 78 and "field price x site x user is cross ~" in run.output(), run.output()[-2000:]


if __name__ == "__main__":
    main([a_script_makes_the_same_numbers_keys_and_scores, the_next_day_has_the_first_days_figures, event_files_have_what_was_made])
