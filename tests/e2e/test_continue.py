#!/usr/bin/env python3
"""test_continue: every day a new day: a job begins with the tables that the one before it has left, on other data, other servers, other lanes."""
from lib import *

DAYS = 3


def days_of(space, rows=2560):
    """Days of whole batches, and one file of them all."""
    days = [synth(space / f"day-{i}.tsv", rows, i + 1) for i in range(DAYS)]
    whole = space / "days.tsv"
    whole.write_text("".join(day.read_text() for day in days))
    return days, whole


def job(space, name, train, **over):
    return job_file(space / f"{name}.yaml", train, **{"data.shuffle": False, "train.consistency": "bsp", "train.lanes": 1,
                                                      "checkpoint.at_end": True, **over})


def refused(space, job, words, *extra, status=None):
    run = Run(job, space / f"refused-{time.monotonic_ns()}", 1, 1, extra)
    code = run.wait(120)
    assert code != 0 and (status is None or code == status), (code, run.output())
    for word in words:
        assert word in run.output(), (word, run.output())


def days_one_by_one_are_the_days_in_a_row(space):
    """If nothing depends on batch numbers the bits are the same; each day has servers of its own."""
    days, whole = days_of(space)
    at_once = run_job(job(space, "whole", whole), space / "whole")
    for i, day in enumerate(days):
        begin = ["--start-from", str(space / f"run-{i - 1}")] if i else []
        report = run_job(job(space, f"day-{i}", day), space / f"run-{i}", 1 + i, 1, begin)
        assert report["examples"] == 2560 and ("start_from" in report) == (i > 0) and "from" not in report
    assert digests(report) == digests(at_once)
    kept = pathlib.Path(report["start_from"])
    again = run_job(job(space, "key", days[-1], start_from=str(kept)), space / "key", 2)
    assert digests(again) == digests(report)


def next_day_may_differ_in_all_but_the_model(space):
    days, _ = days_of(space)
    run_job(job(space, "first", days[0]), space / "first", 2)
    other = job(space, "other", days[1], **{"train.consistency": "ssp", "train.lanes": 3, "train.batch": 100, "train.seed": 9, "train.epochs": 2,
                                            "tables[0].optimizer.lr": 0.01, "data.valid": str(days[2])})
    cold, warm = run_job(other, space / "cold"), run_job(other, space / "warm", 1, 2, ["--start-from", str(space / "first")])
    assert warm["epochs"][0]["train_logloss"] < cold["epochs"][0]["train_logloss"], (warm["epochs"], cold["epochs"])
    assert warm["rows"] > run_job(other, space / "again")["rows"] - 1 and warm["lanes"] == 3
    third = run_job(job(space, "third", days[2]), space / "third", 3, 1, ["--start-from", str(space / "warm")])
    assert third["rows"] > warm["rows"]


def killed_servers_lose_nothing_of_what_was_begun_with(space):
    days, _ = days_of(space, 2560 * 2)
    run_job(job(space, "first", days[0]), space / "first", 2)
    more = {"train.epochs": longer(24)}
    calm = run_job(job(space, "calm", days[1], **more), space / "calm", 2, 1, ["--start-from", str(space / "first")])
    run = Run(job(space, "rough", days[1], **more), space / "rough", 2, 1, ["--start-from", str(space / "first")])
    started(run)
    for name in ("server-0", "coordinator", "server-1"):
        strike(run, name)
        time.sleep(0.3)
    assert run.wait() == 0, run.output()
    assert digests(run.report()) == digests(calm)


def ended_job_is_gone_on_with_as_it_is(space):
    """A job that is resumed from its end has nothing left to do; one that was interrupted in the middle does the rest."""
    days, _ = days_of(space)
    whole = job(space, "whole", days[0], **{"checkpoint.every_batches": 4, "checkpoint.keep": 0})
    report = run_job(whole, space / "run")
    made = sorted((space / "run/checkpoints").iterdir())
    made = [path for path in made if (path / "manifest.json").exists()]
    assert json.loads((made[-1] / "manifest.json").read_text())["phase"] == "digest" and len(made) > 1
    for i, path in enumerate((space / "run", made[-1], made[0])):
        assert digests(run_job(whole, space / f"on-{i}", 2, 1, ["--resume", str(path)])) == digests(report), path
        shown = pathlib.Path(f"{space / f'on-{i}'}.out").read_text()
        assert "try next" in shown and "--servers 2" in shown and "train.consistency" not in shown, shown


def end_is_of_the_kept_epoch(space):
    """The end belongs to the kept epoch, also in the report of a job that continues from there; with more epochs it is another job."""
    days, _ = days_of(space)
    keys = {"data.valid": str(days[1]), "data.test": str(days[2]), "train.epochs": 8, "train.early_stop.patience": 1, "tables[0].optimizer.lr": 0.3}
    report = run_job(job(space, "whole", days[0], **keys), space / "run")
    assert report["final_epoch"] < len(report["epochs"])
    again = run_job(job(space, "whole", days[0], **keys), space / "on", 2, 1, ["--resume", str(space / "run")])
    assert digests(again) == digests(report) and again["test"] == report["test"] and again["valid"]["auc"] == report["valid"]["auc"]
    refused(space, job(space, "more", days[0], **{**keys, "train.epochs": 20}), ["it is over", "--start-from"], "--resume", str(space / "run"), status=78)


def said(status, *words):
    got = subprocess.run([str(SHOAL), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert got.returncode == status, (words, got.returncode, got.stdout, got.stderr)
    return got.stdout + got.stderr


def export(space, where, table):
    out = space / f"export-{time.monotonic_ns()}"
    said(0, "export", where, table, "--format", "tsv", "--state", "--out", out)
    return (out / f"{table}.tsv").read_text().splitlines()


def ended_run_gives_its_tables_out(space):
    """It was run without at_end; the twin made one by itself."""
    days, _ = days_of(space)
    plain = run_job(job(space, "plain", days[0], **{"checkpoint.at_end": None}), space / "plain", 2)
    run_job(job(space, "twin", days[0]), space / "twin", 2)
    [twin] = [p for p in (space / "twin/checkpoints").iterdir() if (p / "manifest.json").exists()]
    begun = time.monotonic()
    path = json.loads(said(0, "checkpoint", "create", "mine", "--run-dir", space / "plain", "--json"))["path"]
    assert time.monotonic() - begun < PATIENCE * 10 and path == str((space / "plain/checkpoints/mine").resolve())
    assert "whole" in said(0, "checkpoint", "verify", path)
    for table in ("emb", "dense"):
        assert len(export(space, path, table)) > 2
        assert export(space, path, table) == export(space, twin, table) == export(space, space / "plain", table)
    assert json.loads((space / "plain/report.json").read_text()) == plain
    shown = said(0, "digest", "--run-dir", space / "plain")
    assert all(t["digest"] in shown for t in plain["tables"]), (shown, plain["tables"])
    assert said(0, "checkpoint", "create", "--run-dir", space / "plain").startswith(str((space / "plain/checkpoints/000001").resolve()))
    begins = [run_job(job(space, "next", days[1]), space / f"next-{i}", 1, 1, ["--start-from", str(at)])
              for i, at in enumerate((path, space / "plain", twin))]
    assert digests(begins[0]) == digests(begins[1]) == digests(begins[2])


def run_that_cannot_give_its_tables_says_why(space):
    days, _ = days_of(space)
    plain = job(space, "plain", days[0], **{"checkpoint.at_end": None})
    run_job(plain, space / "plain")
    (space / "plain").rename(space / "moved")
    assert "move it back" in said(66, "checkpoint", "create", "--run-dir", space / "moved")
    assert len(export(space, space / "moved", "emb")) > 2
    assert "there are: emb, dense" in said(66, "export", space / "moved", "none", "--out", space / "none")
    run_job(plain, space / "memory", extra=["--set", "durability=memory"])
    assert "kept nothing" in said(78, "checkpoint", "create", "--run-dir", space / "memory")
    run = Run(job(space, "long", days[0], **{"train.epochs": longer(20000)}), space / "going")
    started(run)
    assert "goes on: make a checkpoint" in said(69, "export", space / "going", "emb", "--out", space / "none")
    made = said(0, "checkpoint", "create", "--run-dir", space / "going").split(": ")[0]
    assert len(export(space, made, "emb")) > 2 and not (space / "none").exists()
    still_going(run)
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def renamed_run_is_itself(space):
    """Another one lies where it was, and then none; what it is told to do may be done."""
    days, _ = days_of(space)
    plain = job(space, "plain", days[0])
    first = run_job(plain, space / "today")
    (space / "today").rename(space / "yesterday")
    second = run_job(plain, space / "today", extra=["--set", "train.seed=2"])
    assert digests(first) != digests(second)
    skip = ["--set", "train.skip=true"]
    for i, option in enumerate(("--start-from", "--resume")):
        got = run_job(plain, space / f"beside-{i}", extra=[option, str(space / "yesterday"), *skip])
        assert digests(got) == digests(first), option
    shutil.rmtree(space / "today")
    assert digests(run_job(plain, space / "alone", extra=["--start-from", str(space / "yesterday"), *skip])) == digests(first)
    shutil.rmtree(space / "yesterday/checkpoints")
    refused(space, plain, ["move it back", "shoal checkpoint create --run-dir"], "--start-from", str(space / "yesterday"), status=66)
    (space / "yesterday").rename(space / "today")
    said(0, "checkpoint", "create", "--run-dir", space / "today")
    assert digests(run_job(plain, space / "back", extra=["--start-from", str(space / "today"), *skip])) == digests(first)


def failed_run_names_its_checkpoint(space):
    days, _ = days_of(space)
    bad = space / "bad.tsv"
    bad.write_text(days[0].read_text() + "no row\n" * 3000)
    run = Run(job(space, "bad", bad, **{"data.max_bad": 0.1}), space / "bad")
    assert run.wait() == 65 and "malformed" in run.output(), run.output()
    questions = (("predict", "--from", space / "bad", "--in", days[1]), ("checkpoint", "create", "--run-dir", space / "bad"))
    for words in questions:
        text = said(66, *words)
        assert "failed" in text and "malformed" in text and "it has no checkpoint" in text, text
    run_job(job(space, "first", days[0]), space / "first")
    shutil.copytree(space / "first/checkpoints", space / "bad/checkpoints", dirs_exist_ok=True)  # as if it had made one in time
    for words in questions:
        newest = said(66, *words).rsplit("newest checkpoint is ", 1)[1].strip()
        told = said(0, "predict", "--from", newest, "--in", days[1]).splitlines()
        assert len([line for line in told if not line.startswith(("values without a row: ", "note: "))]) == 2561


def relative_folder_is_where_the_run_began(space):
    """Two runs have one checkpoint.dir, named from their working folder; each is begun with from another folder too, and gives its own tables."""
    days, _ = days_of(space)
    (space / "elsewhere").mkdir()
    plain = job(space, "plain", days[0])
    here = space / "."

    def trained(run, *words, status=0, folder=here):
        got = subprocess.run([SHOAL, "local", plain, "--set", f"checkpoint.dir=../{here.name}/kept", "--run-dir", here / run, *words],
                             cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert got.returncode == status, got
        return json.loads((here / run / "report.json").read_text()) if status == 0 else got.stderr

    trained("one")
    other = trained("two", "--set", f"data.train={days[1]}")
    kept = (space / "kept").resolve()
    assert sorted(p.name for p in kept.iterdir()) == ["000001", "000002"] and f'{kept.parent}/../' in (space / "one/job.yaml").read_text()
    begun = trained("next", "--start-from", "one", "--set", "checkpoint.at_end=false")
    assert begun["start_from"] == str(kept / "000001")
    trained("far", "--start-from", "../two", "--set", "checkpoint.at_end=false", folder=space / "elsewhere")
    assert json.loads((space / "far/report.json").read_text())["start_from"] == str(kept / "000002")
    again = trained("again", "--resume", "two", "--set", f"data.train={days[1]}", "--set", "checkpoint.at_end=false")
    assert digests(again) == digests(other)
    shutil.rmtree(kept / "000001")
    assert "no checkpoint of its end" in trained("none", "--start-from", "one", status=66)
    said(0, "checkpoint", "create", "--run-dir", space / "one")
    assert digests(trained("back", "--start-from", "one", "--set", "checkpoint.at_end=false")) == digests(begun)


def what_cannot_be_is_refused(space):
    days, _ = days_of(space)
    plain = job(space, "plain", days[0], **{"checkpoint.at_end": False})
    run_job(plain, space / "plain")
    refused(space, plain, ["no checkpoint of its end", "shoal checkpoint create --run-dir"], "--start-from", str(space / "plain"), status=66)
    refused(space, plain, ["unknown option --from"], "--from", str(space / "plain"), status=64)
    refused(space, plain, ["unknown option --warm-start"], "--warm-start", str(space / "plain"), status=64)
    refused(space, job(space, "warm", days[0], warm_start="x"), ["unknown key warm_start; it is called start_from now"], status=78)
    run_job(job(space, "first", days[0]), space / "first")
    first = str(space / "first")
    refused(space, plain, ["take one of them out"], "--resume", first, "--start-from", first, status=64)
    refused(space, job(space, "wide", days[0], **{"model.hidden": [32, 8]}), ["hidden.0.weight is 32x117 input, it was 16x117", "fresh: ["], "--start-from", first, status=78)
    refused(space, job(space, "rows", days[1]), ["data.train has"], "--resume", first)
    refused(space, plain, ["no_such"], "--start-from", "no_such", status=66)


if __name__ == "__main__":
    main([days_one_by_one_are_the_days_in_a_row, next_day_may_differ_in_all_but_the_model, killed_servers_lose_nothing_of_what_was_begun_with,
          ended_job_is_gone_on_with_as_it_is, end_is_of_the_kept_epoch, ended_run_gives_its_tables_out,
          run_that_cannot_give_its_tables_says_why, renamed_run_is_itself, failed_run_names_its_checkpoint,
          relative_folder_is_where_the_run_began, what_cannot_be_is_refused])
