#!/usr/bin/env python3
"""test_days: four days, each a job of its own that begins with the tables of the day before on other servers, against one job that saw them in that order.

What may differ is what draws on the numbers of batches. Without it the bits are the same; with it (shuffle, lanes, ssp) the AUC is, within 0.001."""
import gzip

from lib import *

SERVERS = [1, 3, 2, 4]  # servers on each day
SAME = {"data.shuffle": False, "train.consistency": "bsp", "train.lanes": 1, "model.dropout": 0}  # all that a batch's number has a say in
BATCH = 173             # 13 of them are a day of avazu_hour, exactly


def avazu_days(space):
    """avazu_hour in quarters by row order, each of a day of its own, and a fifth file of all rows."""
    folder = data_folder("avazu_hour")
    if folder is None:
        raise Skip("SHOAL_DATA names no folder with avazu_hour")
    head, *lines = gzip.open(folder / "train.csv.gz", "rt").read().splitlines()
    hour, rows = head.split(",").index("hour"), len(lines) // 4
    assert rows % BATCH == 0
    days = []
    for day in range(4):
        cells = [line.split(",") for line in lines[day * rows:(day + 1) * rows]]
        days.append([",".join([*c[:hour], c[hour][:4] + str(int(c[hour][4:6]) + day) + c[hour][6:], *c[hour + 1:]]) for c in cells])
    return [csv(space / f"day-{i}.csv", head, text) for i, text in enumerate(days)], csv(space / "all.csv", head, sum(days, []))


def csv(path, head, lines):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def synth_part(space, part, rows):
    path = space / f"day-{part}.tsv"
    subprocess.run([SHOAL, "synth", "--rows", str(rows), "--part", str(part), "--out", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path


def synth_days(space, rows):
    """Four files of one teacher, each with values that the ones before have not; a fifth of all."""
    days = [synth_part(space, part, rows) for part in range(4)]
    whole = space / "all.tsv"
    whole.write_text("".join(day.read_text() for day in days))
    return days, whole


def one_by_one(space, days, **keys):
    """Reports of the days; each begins with the run folder of the one before."""
    reports = []
    for i, day in enumerate(days):
        begin = ["--start-from", str(space / f"run-{i - 1}")] if i else []
        reports.append(run_job(job_file(space / f"day-{i}.yaml", day, **{"checkpoint.at_end": True, **keys}), space / f"run-{i}", SERVERS[i], 1 + i % 2, begin))
    return reports


def bits_are_those_of_one_job(space, days, whole, **keys):
    at_once = run_job(job_file(space / "whole.yaml", whole, **SAME, **keys), space / "whole")
    reports = one_by_one(space, days, **SAME, **keys)
    assert digests(reports[-1]) == digests(at_once)
    assert reports[0]["rows"] < reports[1]["rows"] < reports[2]["rows"] < reports[3]["rows"] == at_once["rows"], "every day brings new keys"
    rows = reports[0]["examples"]
    for i, report in enumerate(reports):  # the measures of a day before it was learnt, against the single job's windows of that day
        inside = [w["logloss"] for w in at_once["train"]["windows"] if i * rows < w["examples"] <= (i + 1) * rows]
        assert abs(report["train"]["logloss"] - sum(inside) / len(inside)) < 0.02, (i, report["train"], inside)
        assert report["train"]["auc"] > 0.5
    print(f"progressive AUC a day {[round(r['train']['auc'], 4) for r in reports]}, of one job {at_once['train']['auc']:.4f}")


def avazu_days_are_one_job(space):
    days, whole = avazu_days(space)
    bits_are_those_of_one_job(space, days, whole, **{"data.format": "csv", "data.label": "click", "data.columns": [{"name": "id", "type": "skip"}],
                                                     "train.batch": BATCH})


def made_up_days_are_one_job(space):
    bits_are_those_of_one_job(space, *synth_days(space, 2560))


def only_a_network_that_knows_nothing_is_warmed_up(space):
    """Twenty batches of half rates a day would cost 0.003 of the AUC at 24 batches a lane."""
    days, _ = synth_days(space, 2560)

    def next_day(name, **keys):
        return digests(run_job(job_file(space / f"{name}.yaml", days[1], **SAME, **keys), space / name, 1, 1, ["--start-from", str(space / "first")]))

    run_job(job_file(space / "first.yaml", days[0], **SAME, **{"checkpoint.at_end": True}), space / "first")
    whole, anew = next_day("whole"), {"fresh": ["dense"]}
    assert next_day("warmed", **{"train.warmup": 10}) == whole
    assert next_day("anew", **anew, **{"train.warmup": 10}) != next_day("anew-whole", **anew)


def shipped_settings_come_to_the_same_auc(space):
    """By name alone (tests/long days): quickstart's job, four days of 200,000 rows, measured on a fifth. Under bsp: ssp's own AUC moves by 0.002."""
    days, whole = synth_days(space, 200000)
    test = synth_part(space, 4, 100000)
    shipped = pathlib.Path("deploy/jobs/quickstart.yaml")
    # A schedule begins anew each day: rates that fall to an end would make four ends of one.
    sets = ["--set", "train.schedule={kind: constant}", "--set", "tables[0].optimizer.lr=0.0005", "--set", "dense_optimizer.lr=0.0005", "--set", "data.valid=[]", "--set", f"data.test={test}", "--set", "checkpoint.at_end=true", "--set", "train.consistency=bsp", "--set"]
    at_once = run_job(shipped, space / "whole", 1, 1, [*sets, f"data.train={whole}"])
    for i, day in enumerate(days):
        begin = ["--start-from", str(space / f"run-{i - 1}")] if i else []
        report = run_job(shipped, space / f"run-{i}", SERVERS[i], 1, [*sets, f"data.train={day}", *begin])
    print(f"test AUC of four days {report['test']['auc']:.5f}, of one job {at_once['test']['auc']:.5f}")
    assert abs(report["test"]["auc"] - at_once["test"]["auc"]) < 0.001


if __name__ == "__main__":
    cases = [avazu_days_are_one_job, made_up_days_are_one_job, only_a_network_that_knows_nothing_is_warmed_up]
    main(cases + [c for c in [shipped_settings_come_to_the_same_auc] if c.__name__ in sys.argv])
