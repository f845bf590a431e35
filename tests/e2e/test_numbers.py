#!/usr/bin/env python3
"""test_numbers: labels that are numbers (model.loss: mse, huber) and labels that are missing. Logs are drawn here from models whose error is then known; every figure
is computed again from the predictions; a row without a label weighs what a row of weight 0 does, bit for bit."""
import array

from exports import arrays_of
from lib import *
from test_export_scores import key_of
from test_predict import auc, lines_of, scores_of, shoal

BSP = {"data.format": "csv", "train.consistency": "bsp", "train.lanes": 2, "train.batch": 64}
NOISE = 1.0  # of a watch time, in minutes


def watch_log(path, rows, seed, lost=0.0, times=None):
    """(click, minutes, user, item, city): minutes are those of user and item and noise, `lost` of both labels are empty. Returns the rows, None for an empty label."""
    truth, dice, lines = random.Random(99), random.Random(seed), []
    user, item = [truth.gauss(3, 1.5) for _ in range(150)], [truth.gauss(0, 1) for _ in range(40)]
    for i in range(rows):
        u, k = dice.randrange(150), dice.randrange(40)
        minutes = round(user[u] + item[k] + dice.gauss(0, NOISE), 4)
        click = int(dice.random() < 1 / (1 + math.exp(2 - user[u] / 2 - item[k])))
        gone = dice.randrange(2) if dice.random() < lost else 2
        lines.append([None if gone == 0 else click, None if gone == 1 else minutes, f"u{u}", f"i{k}", f"c{u % 3}"])
    cell = lambda x: "" if x is None else str(x)
    text = "".join(",".join(map(cell, line)) + (f",{times(i)}" if times else "") + "\n" for i, line in enumerate(lines))
    pathlib.Path(path).write_text(f"click,minutes,user,item,city{',at' if times else ''}\n{text}", encoding="utf-8")
    return lines


def figures_of(label, score):
    """rmse, mae, r2 and calibration of numbers, in double."""
    n, errors = len(label), [s - y for y, s in zip(label, score, strict=True)]
    mean, square = sum(label) / n, sum(e * e for e in errors) / n
    return {"rmse": math.sqrt(square), "mae": sum(map(abs, errors)) / n, "r2": 1 - square / (sum((y - mean) ** 2 for y in label) / n),
            "calibration": sum(score) / sum(label), "examples": n}


def agree(found, expected, tolerance=1e-6):
    for key, value in expected.items():
        assert abs(found[key] - value) <= tolerance * max(1, abs(value)), (key, found[key], value)


def watch_job(space, name, train, **over):
    return job_file(space / f"{name}.yaml", train, **{**BSP, "data.label": "minutes", "data.columns": [{"name": "click", "type": "skip"}], "model.kind": "lr",
                                                     "model.loss": "mse", "tables[0].optimizer.lr": 0.3, "dense_optimizer.lr": 0.05, "train.epochs": 6, **over})


def a_number_is_predicted_as_well_as_its_model(space):
    """The error is that of the model that drew the log; report, page and screen show numbers' figures and no AUC; huber does too where some labels are far off."""
    watch_log(space / "train.csv", 12000, 1)
    test = watch_log(space / "test.csv", 3000, 2)
    for loss, model in (("mse", "lr"), ("huber", "lr"), ("mse", "deepfm")):
        job = watch_job(space, f"{loss}-{model}", space / "train.csv", **{
            "data.valid": str(space / "test.csv"), "data.test": str(space / "test.csv"), "model.kind": model, "model.loss": loss, "evaluate.by": ["city"],
            "train.early_stop": {"patience": 3}, "checkpoint.at_end": True})
        run = space / f"{loss}-{model}"
        report = run_job(job, run)
        shoal("predict", "--from", run, "--out", run / "scores.csv")
        score = [float(s) for s in scores_of(run / "scores.csv")]
        of = report["test"]
        agree(of, figures_of([line[1] for line in test], score))
        print(f"      {model}, {loss}: RMSE {of['rmse']:.4f}, the model's {NOISE}", flush=True)
        assert NOISE * 0.95 < of["rmse"] < NOISE * 1.1 and of["r2"] > 0.6, of
        assert "auc" not in of and "logloss" not in of and "buckets" not in of and "gauc" not in of, of.keys()
        assert report["epochs"][0]["train_loss"] > report["epochs"][-1]["train_loss"] and "train_logloss" not in report["epochs"][0]
        assert all("loss" in p and "logloss" not in p for p in report["training"])
        assert all(isinstance(w["rmse"], float) for w in report["train"]["windows"])
        for value in of["by"]["city"]:
            rows = [i for i, line in enumerate(test) if line[4] == value["value"]]
            agree({**value, "mae": 0, "r2": 0}, {**figures_of([test[i][1] for i in rows], [score[i] for i in rows]), "mae": 0, "r2": 0})
        text = pathlib.Path(f"{run}.out").read_text(encoding="utf-8")
        assert re.search(r"test +RMSE \d\.\d+ +MAE", text) and "AUC" not in text and "logloss" not in text, text[-3000:]
        assert all("still gained" in note for note in report["notes"]), report["notes"]
        page = drawn(run / "report.html")
        if page is not None:
            assert all(word in page for word in ("RMSE, test", "MAE, test", "valid RMSE", "RMSE by examples of training", "Loss over examples of training")), page[-3000:]
            assert "AUC" not in page.replace(">AUC</th>", "") and "NaN" not in page, re.findall(".{40}AUC.{40}", page)


def steps_are_those_of_the_formula(space):
    """One batch of plain gradient descent on lr: a row's step is the mean of weight times 2 (y - 0), for huber of the error kept within delta."""
    lines = [(2.0, 1, "a"), (-0.25, 3, "b"), (5.0, 0.5, "a"), (100.0, 1, "c"), (0.0, 2, "b")]
    (space / "log.csv").write_text("y,w,v\n" + "".join(f"{y},{w},{v}\n" for y, w, v in lines))
    weights = sum(w for _, w, _ in lines)
    slopes = {"mse": lambda y: 2 * y, "huber": lambda y: max(-1.5, min(1.5, y))}
    for loss, slope in slopes.items():
        job = job_file(space / f"{loss}.yaml", space / "log.csv", **{
            "data.format": "csv", "data.label": "y", "data.weight": "w", "data.columns": [{"name": "w", "type": "skip"}], "model.kind": "lr", "model.loss": loss,
            "model.huber_delta": 1.5 if loss == "huber" else None, "train.lanes": 1, "train.consistency": "bsp", "tables[0].optimizer.kind": "sgd",
            "tables[0].optimizer.lr": 1, "checkpoint.at_end": True})
        report = run_job(job, space / loss)
        [made] = [p for p in (space / f"{loss}/checkpoints").iterdir() if (p / "manifest.json").exists()]
        shoal("export", made, "emb", "--format", "npy", "--out", space / f"out-{loss}")
        found = arrays_of(space / f"out-{loss}")
        row = dict(zip(found["emb.keys"].values(), [array.array("f", r)[0] for r in found["emb.first"].rows()], strict=True))
        for value in "abc":
            step = sum(w * slope(y) for y, w, v in lines if v == value) / weights
            assert abs(row[key_of(0, value.encode())] - step) < 1e-5, (loss, value, row, step)
        each = {"mse": lambda y: y * y, "huber": lambda y: y * y / 2 if abs(y) <= 1.5 else 1.5 * (abs(y) - 0.75)}[loss]
        agree(report["epochs"][0], {"train_loss": sum(w * each(y) for y, w, _ in lines) / weights}, 1e-6)


TASKS = {**BSP, "data.label": ["click", "minutes"], "model.kind": "mmoe", "model.hidden": [16], "model.tower": [8], "model.loss": ["logloss", "mse"],
         "tables[0].optimizer.lr": 0.1, "dense_optimizer.lr": 0.005}


def a_missing_label_weighs_nothing(space):
    """A third of the clicks are empty, or there and of weight 0: the same bits in every table where clicks alone are learnt. A label that no row has teaches
    nothing, as a task of weight 0 does."""
    dice, rows = random.Random(3), watch_log(space / "whole.csv", 4000, 1)
    gone = [dice.randrange(3) == 0 for _ in rows]
    head = "click,minutes,user,item,city,w\n"
    line = lambda r, click, minutes, w: f"{click},{minutes},{r[2]},{r[3]},{r[4]},{w}\n"
    (space / "missing.csv").write_text(head + "".join(line(r, "" if g else r[0], r[1], 1) for r, g in zip(rows, gone, strict=True)))
    (space / "weightless.csv").write_text(head + "".join(line(r, 1 - r[0] if g else r[0], r[1], 0 if g else 1) for r, g in zip(rows, gone, strict=True)))
    (space / "never.csv").write_text(head + "".join(line(r, r[0], "", 1) for r in rows))
    (space / "always.csv").write_text(head + "".join(line(r, r[0], 1e6, 1) for r in rows))
    clicks = {**TASKS, "model.task_weights": [1, 0], "data.weight": "w", "data.columns": [{"name": "w", "type": "skip"}], "train.epochs": 2}
    made = {name: run_job(job_file(space / f"{name}.yaml", space / f"{name}.csv", **clicks), space / name, 2, 2)
            for name in ("missing", "weightless", "never", "always")}
    assert digests(made["missing"]) == digests(made["weightless"]), "a missing label is a weight of 0"
    assert digests(made["never"]) == digests(made["always"]), "a label that no row has is a task of weight 0"
    assert digests(made["missing"]) != digests(made["never"])
    assert any(f'label "click" is there in {2 * gone.count(False)} examples of training, and "minutes" in 8000' in n for n in made["missing"]["notes"]), made["missing"]["notes"]
    tasks = made["missing"]["train"]["tasks"]
    assert [t["examples"] for t in tasks] == [2 * gone.count(False), 2 * len(rows)], tasks
    assert made["missing"]["bad_lines"] == 0 and made["missing"]["examples"] == 2 * len(rows)
    both = run_job(job_file(space / "both.yaml", space / "never.csv", **{**clicks, "model.task_weights": [1, 1]}), space / "both")
    assert digests(both) == digests(made["never"]), "whatever the weight of a task without labels"


def figures_are_of_the_rows_that_have_the_label(space):
    """Clicks and minutes side by side, a third of the rows with one of them alone: both are learnt, and each figure is computed again from the predictions."""
    train, test = watch_log(space / "train.csv", 15000, 1, 0.33), watch_log(space / "test.csv", 4000, 2, 0.33)
    whole = watch_log(space / "whole.csv", 4000, 2)
    job = job_file(space / "job.yaml", space / "train.csv", **{
        **TASKS, "data.valid": str(space / "test.csv"), "data.test": str(space / "test.csv"), "evaluate.by": ["city"], "evaluate.group": "user",
        "train.epochs": 4, "checkpoint.at_end": True})
    report = run_job(job, space / "run", 2, 2)
    shoal("predict", "--from", space / "run", "--out", space / "scores.csv")
    assert lines_of(space / "scores.csv")[0] == "score_click,score_minutes"
    told = [[float(x) for x in line.split(",")] for line in lines_of(space / "scores.csv")[1:]]
    clicks, minutes = ([(line[t], s[t]) for line, s in zip(test, told, strict=True) if line[t] is not None] for t in (0, 1))
    of = report["test"]["tasks"]
    assert of[0]["examples"] == len(clicks) < 4000 and of[1]["examples"] == len(minutes) < 4000
    assert abs(of[0]["auc"] - auc(*zip(*clicks, strict=True))) < 1e-12
    agree(of[1], figures_of(*zip(*minutes, strict=True)))
    assert report["test"]["auc"] == of[0]["auc"] and "rmse" not in report["test"], "the mean is over labels of 0 and 1"
    print(f"      AUC {of[0]['auc']:.4f}, RMSE {of[1]['rmse']:.4f} of {NOISE}", flush=True)
    assert of[0]["auc"] > 0.68 and of[1]["rmse"] < NOISE * 1.15
    for t in (0, 1):
        for value in of[t]["by"]["city"]:
            mine = [(line[t], s[t]) for line, s in zip(test, told, strict=True) if line[t] is not None and line[4] == value["value"]]
            assert value["examples"] == len(mine)
            assert abs(value["label"] - sum(y for y, _ in mine) / len(mine)) < 1e-6 and abs(value["predicted"] - sum(s for _, s in mine) / len(mine)) < 1e-5
            if t == 1:
                agree(value, {"rmse": figures_of(*zip(*mine, strict=True))["rmse"]}, 1e-5)
    seen = [sum(line[t] is not None for line in train) * 4 for t in (0, 1)]
    assert [t["examples"] for t in report["train"]["tasks"]] == seen
    assert [sum(v["examples"] for v in t["by"]["city"]) for t in report["train"]["tasks"]] == seen
    assert "gauc" in of[0] and "gauc" not in of[1]
    page = drawn(space / "run/report.html")
    assert page is None or all(word in page for word in ("Mean AUC, test", "Loss: minutes", ">RMSE</th>", "By field value: minutes")), page[-3000:]
    told = json.loads(shoal("eval", "--from", space / "run", "--in", space / "test.csv").stdout)
    assert [t["examples"] for t in told["tasks"]] == [len(clicks), len(minutes)] and told["tasks"][1]["rmse"] == of[1]["rmse"], told["tasks"]
    # the rows with every label are as good as those with one: nothing of the missing ones was learnt as 0
    shoal("predict", "--from", space / "run", "--in", space / "whole.csv", "--out", space / "all.csv")
    score = [float(line.split(",")[1]) for line in lines_of(space / "all.csv")[1:]]
    assert abs(figures_of([line[1] for line in whole], score)["rmse"] - of[1]["rmse"]) < 0.05


def a_rare_label_has_a_loss_of_its_own(space):
    """Two rows of 100 have the label, so many batches have none: the report's loss is of the rows that have it, as the figures of the very same scores say."""
    rows = watch_log(space / "log.csv", 12000, 3)
    text = "".join(f"{click if i % 50 == 0 else ''},{minutes},{','.join(rest)}\n" for i, (click, minutes, *rest) in enumerate(rows))
    (space / "log.csv").write_text("click,minutes,user,item,city\n" + text, encoding="utf-8")
    report = run_job(job_file(space / "job.yaml", space / "log.csv", **{**TASKS, "train.batch": 20, "train.task_batches": 50, "train.epochs": 1}), space / "run")
    told, seen = [t["train_loss"] for t in report["epochs"][0]["tasks"]], report["train"]["tasks"]
    assert seen[0]["examples"] == 240 and abs(told[0] / seen[0]["logloss"] - 1) < 0.05, (told, seen)
    assert abs(told[1] / seen[1]["rmse"] ** 2 - 1) < 1e-3, (told, seen)
    assert abs(report["epochs"][0]["train_loss"] / (sum(told) / 2) - 1) < 1e-6, report["epochs"]


def a_log_gives_the_same_tables_whatever_its_form(space):
    """Text, kept rows, an event file, and any number of servers and workers: the same bits under bsp, and the same figures."""
    watch_log(space / "log.csv", 6000, 1, 0.4)
    over = {**TASKS, "train.epochs": 2, "evaluate.by": ["city"]}
    text = job_file(space / "text.yaml", space / "log.csv", **over)
    made = [run_job(text, space / "text"), run_job(text, space / "many", 2, 3),
            run_job(job_file(space / "kept.yaml", space / "log.csv", **over, **{"data.cache": str(space / "cache")}), space / "kept", 1, 2)]
    shoal("convert", text, "--out", space / "log.events")
    made.append(run_job(job_file(space / "events.yaml", space / "log.events", **{**over, "data.format": "events"}), space / "events"))
    for report in made[1:]:
        assert digests(report) == digests(made[0]), (digests(report), digests(made[0]))
        mine, first = [[{k: v for k, v in t.items() if k != "by"} for t in r["train"]["tasks"]] for r in (report, made[0])]
        assert mine == first, (mine, first)
    said = Run(job_file(space / "other.yaml", space / "log.events", **{**over, "data.format": "events", "model.loss": "logloss"}), space / "other")
    assert said.wait() == 78 and 'label "minutes" is 0 or 1 in this job (model.loss), and a number in' in said.output(), said.output()[-2000:]


def a_job_goes_on_where_it_was_broken_off(space):
    """A worker and a server die; the whole run dies and goes on from a checkpoint: the same bits as without."""
    watch_log(space / "train.csv", 20000, 1, 0.3)
    watch_log(space / "valid.csv", 2000, 2, 0.3)
    over = {**TASKS, "data.valid": str(space / "valid.csv"), "train.epochs": 4, "checkpoint.every_batches": 100, "train.task_batches": 8, "checkpoint.keep": 0}
    whole = run_job(job_file(space / "job.yaml", space / "train.csv", **over), space / "whole", 2, 2)
    run = Run(space / "job.yaml", space / "struck", 2, 2)
    started(run)
    strike(run, "worker-0")
    strike(run, "server-1")
    assert run.wait() == 0, run.output()[-3000:]
    assert digests(run.report()) == digests(whole)
    run = Run(space / "job.yaml", space / "broken", 2, 2)
    until(run, "a checkpoint", lambda: len(numbered(space / "broken/checkpoints")) >= 2)
    assert break_off(run) != 0
    again = run_job(space / "job.yaml", space / "again", 1, 2, ["--resume", str(numbered(space / "broken/checkpoints")[-1])])
    assert digests(again) == digests(whole)
    figure = lambda r: [(t["label"], t["examples"], t.get("auc"), t.get("rmse")) for t in r["valid"]["tasks"]]
    assert figure(again) == figure(whole), (figure(again), figure(whole))


def a_replay_tells_the_error_of_each_day(space):
    """Progressive figures: each day's rows as they were predicted before they were learnt; two replays side by side."""
    day = lambda i: 1700006400 + i * 40
    watch_log(space / "log.csv", 6000, 1, times=day)
    job = watch_job(space, "job", space / "log.csv", **{"data.time": "at", "data.columns": [{"name": "click", "type": "skip"}], "replay.window": "1h",
                                                     "train.epochs": 1, "train.lanes": 2, "evaluate.by": ["city"]})
    report = run_job(job, space / "a")
    days = [d["figures"] for d in report["replay"]["days"]]
    assert len(days) == 3 and all("auc" not in d and d["rmse"] > 0 for d in days), days
    assert days[-1]["rmse"] < days[0]["rmse"] and days[0]["by"]["city"][0]["rmse"] > 0
    run_job(job, space / "b", 1, 2)
    text = shoal("replay", "diff", space / "a", space / "b").stdout
    assert "RMSE A" in text and "all days are the same" in text, text


def a_sweep_goes_by_the_error(space):
    watch_log(space / "train.csv", 3000, 1)
    watch_log(space / "valid.csv", 1000, 2)
    job = watch_job(space, "job", space / "train.csv", **{"data.valid": str(space / "valid.csv"), "train.epochs": 1})
    for words, name, figure in (([], "RMSE", "rmse"), (["--metric", "mae"], "MAE", "mae")):
        run = space / figure
        text = shoal("sweep", job, "--set", "train.epochs=1,3", "--dir", run, *words).stdout
        assert ("ordered by rmse, not by auc" in text) == (figure == "rmse") and re.search(r"epochs +RMSE +MAE", text), text
        told = json.loads((run / "sweep.json").read_text())
        assert told["metric"] == figure and [v["set"]["train.epochs"] for v in told["variants"]] == ["3", "1"], told
        page = drawn(run / "sweep.html")
        assert page is None or f"{name} of each variant, best first" in page


def what_has_no_meaning_is_refused(space):
    watch_log(space / "log.csv", 500, 1, 0.2)
    run_job(job_file(space / "clicks.yaml", space / "log.csv", **{**TASKS, "checkpoint.at_end": True}), space / "run")
    other = job_file(space / "other.yaml", space / "log.csv", **{**TASKS, "model.loss": "logloss"})
    said = shoal("predict", other, "--from", space / "run", "--in", space / "log.csv", "--out", space / "scores.csv", status=78).stderr
    assert "model.loss is logloss, in the checkpoint it was mse or huber" in said and not (space / "scores.csv").exists(), said
    one = watch_job(space, "one", space / "log.csv")  # one label: a row without it is malformed, as before
    run = Run(one, space / "one")
    assert run.wait() == 65 and "take lines without a label out" in run.output() + run.logs(), run.output()[-2000:]
    run_job(watch_job(space, "most", space / "log.csv", **{"data.max_bad": 0.5}), space / "most")
    for key, value, said in (("data.negatives", 0.5, "data.negatives leaves out rows whose label is 0"), ("data.label_above", 1, "makes a label 0 or 1"),
                             ("evaluate.group", "user", "evaluate.group is for AUC within groups"), ("model.loss", "l1", "l1 is none of logloss, mse, huber"),
                             ("train.early_stop", {"metric": "auc"}, "take rmse or mae")):
        run = Run(watch_job(space, "bad", space / "log.csv", **{key: value}), space / "bad")
        assert run.wait() == 78 and said in run.output(), (key, run.output()[-2000:])


if __name__ == "__main__":
    main([a_number_is_predicted_as_well_as_its_model, steps_are_those_of_the_formula, a_missing_label_weighs_nothing, figures_are_of_the_rows_that_have_the_label,
          a_rare_label_has_a_loss_of_its_own, a_log_gives_the_same_tables_whatever_its_form, a_job_goes_on_where_it_was_broken_off, a_replay_tells_the_error_of_each_day,
          a_sweep_goes_by_the_error, what_has_no_meaning_is_refused])
