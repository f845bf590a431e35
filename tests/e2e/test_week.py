#!/usr/bin/env python3
"""test_week: the week of a team: each day's log on yesterday's tables, a field more on the second day, a wider layer on the third, a server
killed every day, scores every evening; all figures are computed again here."""
import math

from lib import *
from test_names import COLUMNS, INPUT, log, row, shoal

WIDE = ["hidden.0.weight", "hidden.0.bias", "hidden.1.weight"]
# day: columns of its log, hidden layers, what begins anew
DAYS = [(COLUMNS, [8, 4], []), (["hour", *COLUMNS], [8, 4], INPUT), (["hour", *COLUMNS], [16, 4], WIDE)]


def auc_of(scores, labels):
    """By ranks, ties at their mean."""
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    rank, at = [0.0] * len(scores), 0
    while at < len(order):
        end = at
        while end < len(order) and scores[order[end]] == scores[order[at]]:
            end += 1
        for i in order[at:end]:
            rank[i] = (at + end + 1) / 2
        at = end
    ones = sum(labels)
    return (sum(r for r, label in zip(rank, labels) if label) - ones * (ones + 1) / 2) / (ones * (len(labels) - ones))


def job(space, day, train, test):
    _, hidden, fresh = DAYS[day]
    return job_file(space / f"day-{day}.yaml", train, **{
        "data.format": "csv", "data.label": "label", "data.test": str(test), "data.columns": [{"name": "age", "type": "number"}], "train.consistency": "bsp",
        "train.lanes": 2, "train.batch": 100, "train.epochs": 2, "checkpoint.at_end": True, "model.hidden": hidden, **({"fresh": fresh} if fresh else {})})


def evening(space, run, test, report):
    """Scores of the test log, for its labels; the figure of the report comes out of the file alone."""
    out = space / f"{run}.csv"
    shoal("predict", "--from", space / run, "--in", test, "--out", out, "--column", "label", "--workers", 2)
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    scores, labels = [float(r[1]) for r in rows], [int(r[0]) for r in rows]
    assert abs(auc_of(scores, labels) - report["test"]["auc"]) < 1e-9, (auc_of(scores, labels), report["test"])
    logloss = -sum(math.log(s if y else 1 - s) for s, y in zip(scores, labels)) / len(rows)
    assert abs(logloss - report["test"]["logloss"]) < 1e-5, (logloss, report["test"])
    return out.read_bytes()


def each_day_goes_on_where_the_last_one_ended(space):
    rows, reports, written = longer(20000), [], []
    test = log(space / "test.csv", ["hour", *COLUMNS], 3000, 99)
    for day, (columns, _, _) in enumerate(DAYS):
        path = job(space, day, log(space / f"day-{day}.csv", columns, rows, day + 1), test)
        run = Run(path, space / f"run-{day}", 2, 2, ["--start-from", str(space / f"run-{day - 1}")] if day else [])
        until(run, "the job to train", lambda: "epoch 1: train" in run.logs("coordinator"))
        strike(run, f"server-{day % 2}")
        assert run.wait() == 0, run.output()
        reports.append(run.report())
        assert reports[-1]["restarts"] >= 1 and reports[-1]["examples"] == 2 * rows
        written.append(evening(space, f"run-{day}", test, reports[-1]))
    assert row(space, "run-0", "hour", "h7") is None and row(space, "run-1", "hour", "h7") is not None
    assert reports[2]["test"]["auc"] > 0.6 and len(set(written)) == 3
    # the second day's tables are still those of its evening, and the third day begins with them again
    (space / "run-1.csv").unlink()
    assert evening(space, "run-1", test, reports[1]) == written[1]
    again = run_job(space / "day-2.yaml", space / "again", 1, 1, ["--start-from", str(space / "run-1")])
    assert digests(again) == digests(reports[2])
    assert evening(space, "again", test, again) == written[2]


if __name__ == "__main__":
    main([each_day_goes_on_where_the_last_one_ended])
