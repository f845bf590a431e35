#!/usr/bin/env python3
"""test_rows: which keys get a row, what a row counts and when it is dropped, from a log with event times to the tables."""
import re

from lib import *

DAY = 86400
BEGIN = 1700000000


def log_file(path, lines):
    """(click, time, user, item) each."""
    path.write_text("click,at,user,item\n" + "".join(f"{c},{t},{u},{i}\n" for c, t, u, i in lines), encoding="utf-8")
    return path


def job(space, train, **over):
    keys = {"data.format": "csv", "data.label": "click", "data.time": "at", "data.shuffle": False, "tables[0].dim": 4,
            "train.batch": 64, "train.consistency": "bsp", "train.task_batches": 4}
    keys.update(over)
    return job_file(space / "job.yaml", train, **keys)


def inspect(run_dir, key):
    """Returns the row of `field:value` in table emb (user is 0, item 1), or None."""
    done = subprocess.run([SHOAL, "inspect", "--json", "--run-dir", str(run_dir), "emb", key], stdout=subprocess.PIPE, check=False)
    assert done.returncode in (0, 66), f"shoal inspect ended with {done.returncode}"
    return json.loads(done.stdout) if done.returncode == 0 else None


def random_log(rows, days, seed=1):
    dice = random.Random(seed)
    for i in range(rows):
        yield int(dice.random() < 0.3), BEGIN + int(i * days * DAY / rows), f"u{int(dice.paretovariate(0.6)) % 500}", f"i{dice.randrange(40)}"


def a_row_counts_its_examples(space):
    """Shows and clicks of a row are those of the log, through two servers and two workers."""
    lines = list(random_log(4000, 3))
    run_job(job(space, log_file(space / "train.csv", lines), **{"tables[0].stats": True, "train.epochs": 2}), space / "run", 2, 2)
    for user in ("u1", "u2", lines[-1][2]):
        row = inspect(space / "run", f"0:{user}")
        mine = [c for c, _, u, _ in lines if u == user]
        assert row["stats"]["show"] == 2 * len(mine), (user, row["stats"], len(mine))
        assert row["stats"]["click"] == 2 * sum(mine), (user, row["stats"], sum(mine))
        assert BEGIN <= row["stats"]["time"] <= lines[-1][1], row["stats"]


def a_key_gets_its_row_at_the_count(space):
    lines = list(random_log(2000, 1))
    train = log_file(space / "train.csv", lines)
    report = run_job(job(space, train, **{"tables[0].stats": True, "tables[0].rules": [{"field": "user", "admit": {"min_count": 5}}]}),
                     space / "run", 2, 2)
    shows = {}
    for _, _, user, _ in lines:
        shows[user] = shows.get(user, 0) + 1
    users, items = sum(n >= 5 for n in shows.values()), len({i for _, _, _, i in lines})
    assert 0 < users < len(shows)
    assert report["tables"][0]["rows"] == users + items, (report["tables"][0], users, items)


def rows_without_a_push_go_after_their_time(space):
    """u-old is seen on the first day alone; the log goes on for ten days."""
    lines = [(0, BEGIN + i, "u-old", "i0") for i in range(64)] + list(random_log(4000, 10))
    over = {"tables[0].evict": {"ttl_days": 3, "every_hours": 12}}
    run_job(job(space, log_file(space / "train.csv", lines), **over), space / "run", 2, 2)
    assert inspect(space / "run", "0:u-old") is None
    assert inspect(space / "run", "1:i1") is not None
    run_job(job(space, space / "train.csv"), space / "kept", 2, 2)
    assert inspect(space / "kept", "0:u-old") is not None, "without a rule it would have stayed"


def paddle_rows_need_nine_shows(space):
    """Without a click nine shows survive a day's decay, eight do not: 0.1 x 9 x 0.98 = 0.882, 0.1 x 8 x 0.98 = 0.784 < 0.8."""
    lines = [(0, BEGIN + i, f"nine{i % 9}", "nine") for i in range(9)] + [(0, BEGIN + i, f"eight{i}", "eight") for i in range(8)]
    lines += [(0, BEGIN + 4 + DAY, "later", "last")] * 200  # a day after the first batch's median: one ageing, wherever a tablet's boundary lies
    run_job(job(space, log_file(space / "train.csv", lines), **{"tables[0].preset": "paddle_ctr", "train.batch": 17}), space / "run", 2, 1)
    assert inspect(space / "run", "1:eight") is None
    row = inspect(space / "run", "1:nine")
    assert row is not None and abs(row["stats"]["show"] - 9 * 0.98) < 1e-5, row


def alive(run_dir, out):
    """Users with a row: their ids stand in the keys."""
    subprocess.run([SHOAL, "export", run_dir, "emb", "--format", "tsv", "--out", out], check=True)
    rows = [line.split("\t") for line in (out / "emb.tsv").read_text().splitlines()[1:]]
    return {int(row[0], 16) & (1 << 48) - 1 for row in rows if row[1] in ("0", "user")}


def windows_of_event_time_age_as_time_does(space):
    """Drawn within hours, as a job with ageing is by default, rows live as in the log's own order, but for those whose age is within an hour and a batch of
    the limit. Control: one window for the whole log, in which all of them live."""
    lines = [(c, t, u[1:], i) for c, t, u, i in random_log(12000, 10, 3)]
    lines = [(c, t, int(u) + 1000 * random.Random(n).randrange(8), i) for n, (c, t, u, i) in enumerate(lines)]
    train, limit, slack = log_file(space / "train.csv", lines), 3 * DAY, 2 * 3600 + 64 * 10 * DAY // 12000
    over = {"data.columns": [{"name": "user", "id": True}], "tables[0].evict": {"ttl_days": 3, "every_hours": 1}}
    lives = {}
    for name, shuffle in (("order", {}), ("hours", {"data.shuffle": None}), ("whole", {"data.shuffle": {"within": "300d"}})):
        run_job(job(space, train, **over, **shuffle), space / name, 2, 2)
        lives[name] = alive(space / name, space / f"{name}.tsv")
    assert re.search(r'within: "3600s" # given by the coordinator', (space / "hours/job.yaml").read_text()), "who reads the job later must not have to know the default"
    last = {u: t for _, t, u, _ in lines}
    age = {u: lines[-1][1] - t for u, t in last.items()}
    gone, others = {u for u in last if age[u] > limit + slack}, lives["order"] ^ lives["hours"]
    print(f"      {len(last)} users, {len(lives['order'])} live in the log's order, {len(lives['hours'])} in hours, {len(others)} differ", flush=True)
    assert 100 < len(gone) < len(last) - 100 and not gone & lives["order"] and not gone & lives["hours"], (len(gone), gone & lives["hours"])
    assert all(abs(age[u] - limit) <= slack for u in others), {u: age[u] / 3600 for u in others}
    assert len(gone & lives["whole"]) > len(gone) / 2, "a check that cannot fail"


def an_order_in_which_nothing_ages_is_refused(space):
    train = log_file(space / "train.csv", list(random_log(200, 3)))
    over = {"tables[0].evict": {"ttl_days": 3}, "data.shuffle": True}
    run = Run(job(space, train, **over), space / "run")
    assert run.wait() == 78 and "within it no row ages. Say data.shuffle: {within: 1h}, or {within: 1d} where" in run.output(), run.output()
    for number, advice in enumerate(({"data.shuffle": {"within": "1h"}}, {"data.shuffle": {"within": "1d"}}, {"data.shuffle": False}, {"tables[0].evict": {"ttl_days": 3, "every_hours": 0}})):
        run_job(job(space, train, **{**over, **advice}), space / f"run-{number}")
    both = Run(job(space, train, **over), space / "both", extra=["--set", "data.shuffle.within=1h"])
    assert both.wait() == 78 and "data.shuffle stands there too; keep one" in both.output(), both.output()


def a_checkpoint_keeps_its_order(space):
    """A resumed job keeps the order of its checkpoint's batches, whatever order a new job would get: the digests are those of an uninterrupted run."""
    train = log_file(space / "train.csv", list(random_log(4000, 3)))
    ages = {"tables[0].evict": {"ttl_days": 3, "every_hours": 1}}
    over = {"data.shuffle": None, "checkpoint.every_batches": 20, "checkpoint.keep": 0}

    def resumed(name, made, keys, *more):
        return Run(job(space, train, **{**over, **keys}), space / name, extra=["--resume", made, *more])

    runs = {name: (run_job(job(space, train, **over, **keys), space / name), min((space / name / "checkpoints").iterdir()))
            for name, keys in (("hours", ages), ("whole", {}))}
    report, made = runs["hours"]
    again = resumed("again", made, ages)
    assert again.wait() == 0 and digests(again.report()) == digests(report), again.output()
    for more, says in (("data.shuffle.within=2h", "data.shuffle.within is 7200s, in the checkpoint it was 3600s"), ("data.shuffle=false", "data.shuffle is 0"),
                       ("data.time_unit=ms", "data.time is at in ms, in the checkpoint it was at in s")):
        run = resumed(more[5:], made, ages, "--set", more)
        assert run.wait() == 78 and says in run.output(), run.output()
    older = resumed("older", runs["whole"][1], ages)  # as what a release without windows has left
    assert older.wait() == 0 and "within" not in (space / "older/job.yaml").read_text(), older.output()


def stamps_of_the_future_are_clamped(space):
    """The log's first batch is of the year 2100: it counts as of tomorrow, and the report says how many examples did. More than a hundredth end the job."""
    lines = [(0, 4102444800, "u-late", "i0") for _ in range(64)] + list(random_log(7000, 3))
    report = run_job(job(space, log_file(space / "train.csv", lines), **{"tables[0].stats": True}), space / "run", 2, 2)
    assert report["clamped_times"] == 64, report["clamped_times"]
    assert BEGIN < inspect(space / "run", "0:u-late")["stats"]["time"] <= time.time() + DAY
    run = Run(job(space, log_file(space / "late.csv", lines[:3000])), space / "late")
    assert run.wait() == 65 and "examples have a time later than" in run.output(), run.output()
    report = run_job(job(space, space / "late.csv", **{"data.time_limit": 4102444800}), space / "ahead")
    assert report["clamped_times"] == 0, "the advice of the refusal"


if __name__ == "__main__":
    main([a_row_counts_its_examples, a_key_gets_its_row_at_the_count, rows_without_a_push_go_after_their_time,
          paddle_rows_need_nine_shows, windows_of_event_time_age_as_time_does, an_order_in_which_nothing_ages_is_refused,
          a_checkpoint_keeps_its_order, stamps_of_the_future_are_clamped])
