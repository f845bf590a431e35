#!/usr/bin/env python3
"""test_replay: a log in the order in which things happened: days and hours, stop and go on, back and again, two replays side by side."""
from fleet import *

DAY, HOUR = 86400, 3600
BEGIN = 1700006400  # 2023-11-15


def events(rows=12000, days=4, bad=None, seed=1):
    """(time, click, user, item); in the day `bad` the labels of item i7 are turned round."""
    dice = random.Random(seed)
    for i in range(rows):
        at, user, item = BEGIN + int(i * days * DAY / rows), int(dice.paretovariate(0.8)) % 800, dice.randrange(40)
        click = int(dice.random() < (0.1 + 0.7 * ((user + item) % 3 == 0)))
        yield at, click ^ (item == 7 and (at - BEGIN) // DAY == bad), f"u{user}", f"i{item}"


def log_file(path, lines):
    path.write_text("click,at,user,item\n" + "".join(f"{c},{t},{u},{i}\n" for t, c, u, i in lines), encoding="utf-8")
    return path


def job(space, train, name="job", **over):
    keys = {"data.format": "csv", "data.label": "click", "data.time": "at", "train.batch": 64, "train.consistency": "bsp", "train.lanes": 4,
            "evaluate.by": ["item"], "checkpoint.keep": 0, "replay.window": "1h", "tables[0].optimizer.lr": 0.1}
    keys.update(over)
    return job_file(space / f"{name}.yaml", train, **keys)


def days(report):
    return report["replay"]["days"]


def days_and_hours_are_told_and_nothing_depends_on_who_computes(space):
    """The same tables and figures on 1 and 4 servers, 1 and 4 workers, from one file and from 16 parts an hour in no order. By hand: rows of each hour."""
    lines = list(events())
    one = run_job(job(space, log_file(space / "log.csv", lines)), space / "one")
    parts = space / "parts"
    parts.mkdir()
    dice = random.Random(3)
    for k in range(16):
        log_file(parts / f"part-{dice.randrange(10**6):06}.csv", [x for n, x in enumerate(lines) if n % 16 == k])
    several = run_job(job(space, parts / "*.csv", "parts"), space / "parts-run", 4, 4)
    four = run_job(job(space, space / "log.csv"), space / "four", 4, 4)
    assert digests(one) == digests(four), (digests(one), digests(four))
    assert one["replay"] == four["replay"], "figures are a function of job and log"
    assert several["tables"][0]["rows"] == one["tables"][0]["rows"] and [d["rows"] for d in days(several)] == [d["rows"] for d in days(one)]
    again = run_job(job(space, parts / "*.csv", "parts"), space / "again", 1, 1)
    assert digests(several) == digests(again), "16 parts an hour on 4 workers are what they are on one"
    for number, day in enumerate(days(one)):
        assert day["from"] == time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(BEGIN + number * DAY)), day["from"]
        for n, hour in enumerate(day["hours"]):
            begin = BEGIN + number * DAY + n * HOUR
            assert hour["rows"] == hour["examples"] == sum(begin <= t < begin + HOUR for t, *_ in lines), hour
        assert day["rows"] == sum(h["rows"] for h in day["hours"]), day
    aucs = [d["figures"]["auc"] for d in days(one)]
    assert aucs[-1] > aucs[0] + 0.03, f"it learns: {aucs}"
    assert len(list((space / "one/checkpoints").iterdir())) == 4, "one at each day's end"


def what_is_killed_or_stopped_ends_as_if_it_had_not(space):
    """kill -9 of each kind of process at random moments; broken off and gone on in its folder, and from a day's checkpoint: the tables of the undisturbed replay."""
    kills = int(os.environ.get("SHOAL_KILLS", "3"))
    train = log_file(space / "log.csv", events(longer(9000), 4))
    calm = run_job(job(space, train), space / "calm", 2, 2)
    dice, died, tries = random.Random(7), 0, 0
    while died < kills:
        tries += 1
        run = Run(job(space, train), space / f"killed-{tries}", 2, 2)
        while run.running() and died < kills:
            time.sleep(dice.uniform(0.2, 0.9))
            died += run.signal(["server-0", "server-1", "worker-0", "worker-1", "coordinator"][died % 5])
        assert run.wait() == 0 and digests(run.report()) == digests(calm), run.output()[-3000:]
        assert [d["from"] for d in days(run.report())] == [d["from"] for d in days(calm)]
        if tries > kills + 5:
            raise TooShort("the runs end before anything dies")
    print(f"      {died} kills in {tries} runs", flush=True)
    run = Run(job(space, train), space / "stopped", 2, 2)
    until(run, "two days' ends", lambda: len(numbered(space / "stopped/checkpoints")) > 1)
    break_off(run, signal.SIGINT)
    again = run_job(job(space, train), space / "stopped", 2, 2)
    assert digests(again) == digests(calm), "it goes on at the very batch"
    second = sorted((space / "calm/checkpoints").iterdir())[1]
    resumed = run_job(job(space, train), space / "resumed", 1, 2, extra=["--resume", second])
    assert digests(resumed) == digests(calm) and len(days(resumed)) == 4, days(resumed)
    assert days(resumed) == days(calm), "days of before the checkpoint come with it"


def replay(*words):
    done = subprocess.run([SHOAL, "replay", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def report_of(run):
    return json.loads((run / "report.json").read_text())


def a_bad_day_is_seen_and_taken_back(space):
    """Labels of one item turned round for a day: its logloss stands out in that day's values; rewound without the day, the tables are those of a replay that never saw it."""
    path = job(space, log_file(space / "log.csv", events(bad=2)))
    status, out = replay(path, "--run-dir", space / "bad", "--servers", 2, "--workers", 2)
    assert status == 0, out
    by = [{v["key"]: v["logloss"] for v in d["figures"]["by"]["item"]} for d in days(report_of(space / "bad"))]
    rise = {key: by[2][key] - by[1][key] for key in by[2] if key in by[1] and by[2][key] is not None}
    worst = sorted(rise, key=rise.get)
    assert rise[worst[-1]] > 0.5 > 2 * rise[worst[-2]], "one value stands out"
    bad = "2023-11-17"
    status, out = replay(path, "--run-dir", space / "back", "--rewind", bad, "--of", space / "bad", "--leave-out", bad)
    assert status == 0 and "bad/checkpoints/000002" in out, out
    report = report_of(space / "back")
    assert 0 < report["seconds_before"] < min(report["seconds"], report_of(space / "bad")["seconds"]) and report["seconds_in_vain"] == 0, report
    assert f"{report['seconds_before']:.1f} of the seconds were those of the run that it went on from" in out, out
    status, out = replay(path, "--run-dir", space / "never", "--leave-out", bad)
    assert status == 0, out
    assert digests(report_of(space / "back")) == digests(report_of(space / "never")) != digests(report_of(space / "bad"))
    assert [d["from"][:10] for d in days(report_of(space / "back"))] == ["2023-11-15", "2023-11-16", "2023-11-18"]
    assert report_of(space / "back")["replay"]["left_out"] == 24
    status, out = replay("diff", space / "bad", space / "back")
    assert status == 0 and "2023-11-17T00:00:00Z" in out and "values that differ" in out and "table emb           differs" in out, out
    status, out = replay("diff", space / "back", space / "never")
    assert status == 0 and "all days are the same" in out and "the same, " in out, out


def each_day_is_told(space):
    """A line a day on the terminal, in order and once, and the last one's figures in the head of the page."""
    status, out = replay(job(space, log_file(space / "log.csv", events(days=20))), "--run-dir", space / "run")
    assert status == 0, out
    found = days(report_of(space / "run"))
    lines = [line for line in out.replace("\r\033[K", "\n").splitlines() if line.startswith("day ")]
    assert lines == [f"day {d['from'][:10]}   {d['examples']} examples   AUC {d['figures']['auc']:.4f}   logloss {d['figures']['logloss']:.4f}   "
                     f"calibration {d['figures']['calibration']:.3f}" for d in found] and len(lines) == 20, out
    if (page := drawn(space / "run/report.html")) is not None:
        assert f'AUC, last day</div><div class="v">{found[-1]["figures"]["auc"]:.4f}' in page, page[:5000]
        assert '<div class="k">Logloss, last day</div>' in page and '<div class="k">Calibration, last day</div>' in page


def long_windows_are_taken_back_too(space):
    """A window of many tasks: what later windows there are decides nothing before them. Each day is scored once, undisturbed and gone on with."""
    path = job(space, log_file(space / "log.csv", events()), **{"replay.window": "1d", "train.batch": 16, "train.lanes": 2, "data.valid": [str(space / "log.csv")]})
    for words in (["--run-dir", space / "all"], ["--run-dir", space / "never", "--leave-out", "2023-11-18"],
                  ["--run-dir", space / "back", "--rewind", "2023-11-18", "--of", space / "all", "--leave-out", "2023-11-18"]):
        status, out = replay(path, *words)
        assert status == 0, out
    whole, never, back = (report_of(space / name) for name in ("all", "never", "back"))
    assert digests(back) == digests(never) != digests(whole)
    scored = [[(v["batch"], v["examples"], v["auc"]) for v in r["evaluations"]] for r in (whole, never, back)]
    assert len(scored[0]) == 4 and scored[1] == scored[2] == scored[0][:3], scored
    assert len(list((space / "back/checkpoints").iterdir())) == 0, "all its days were ended before"
    until = sorted(json.loads((p / "manifest.json").read_text())["until"] for p in (space / "all/checkpoints").iterdir())
    assert until == [BEGIN + DAY * n for n in (1, 2, 3, 4)], until


def a_range_is_a_range(space):
    lines = list(events(6000, 3))
    path = job(space, log_file(space / "log.csv", lines))
    status, out = replay(path, "--run-dir", space / "range", "--since", "2023-11-15T06", "--until", "2023-11-16T06", "--every", "12h")
    assert status == 0, out
    report = report_of(space / "range")
    assert report["examples"] == sum(BEGIN + 6 * HOUR <= t < BEGIN + 30 * HOUR for t, *_ in lines), report["examples"]
    assert [d["from"] for d in days(report)] == ["2023-11-15T00:00:00Z", "2023-11-15T12:00:00Z", "2023-11-16T00:00:00Z"], days(report)


def a_fleet_replays(space):
    """Workers of the verb replay, under a coordinator: the tables of `shoal replay`; of another job they go away, and it ends without them."""
    train = log_file(space / "log.csv", events(4000, 2))
    path, other = job(space, train), job_file(space / "other.yaml", synth(space / "synth.tsv", 4000, 1))
    status, out = replay(path, "--run-dir", space / "run")
    assert status == 0, out
    with Fleet(space, "f") as fleet:
        fleet.up()
        workers = [fleet.start(f"worker-{i}", "replay", "--coordinator", fleet.endpoint, "--lanes", 2, program="shoal-worker") for i in range(2)]
        got = shoal("submit", path, "--coordinator", fleet.endpoint, "--set", f"checkpoint.dir={space / 'kept'}")
        assert got.returncode == 0, got
        assert [w.wait(30) for w in workers] == [0, 0], [w.log.read_text() for w in workers]
        made = json.loads((space / "report.json").read_text())
        alone = report_of(space / "run")
        assert digests(made) == digests(alone), (digests(made), digests(alone))
        told = [[(d["from"], d["rows"], d["figures"]["logloss"], d["hours"]) for d in days(r)] for r in (made, alone)]
        assert told[0] == told[1], told
        turned = fleet.start("worker-2", "replay", "--coordinator", fleet.endpoint, program="shoal-worker")
        trains = fleet.start("worker-3", "train", "--coordinator", fleet.endpoint, program="shoal-worker")
        got = shoal("submit", other, "--coordinator", fleet.endpoint, "--set", "fresh=[all]")
        assert got.returncode == 0, got
        assert turned.wait(30) == 78 and "is no replay" in turned.log.read_text(), turned.log.read_text()
        assert trains.wait(30) == 0


def what_cannot_be_is_refused(space):
    train = log_file(space / "log.csv", events(2000, 2))
    good = job(space, train)
    for words, says in ((["--set", "train.epochs=2"], "goes through its log once"),
                        (["--set", "data.shuffle=true"], "take data.shuffle away"), (["--window", "7h"], "is of whole windows"),
                        (["--since", "20231115"], "is none of 2026-03-04"), (["--since", "2024-02-30"], "'2024-02-30' is none of 2026-03-04"), (["--leave-out", "2023-11-16..2023-11-15"], "A before B"),
                        (["--since", "2025-01-01"], "none of the 48 windows of data.train is between"), (["--rewind", "2023-11-16"], "goes with --of RUN")):
        status, out = replay(good, "--run-dir", space / "no", *words)
        assert status in (64, 65, 78) and says in out, (words, status, out)
        shutil.rmtree(space / "no", ignore_errors=True)
    status, out = replay(job(space, train, "timeless", **{"data.time": None}), "--run-dir", space / "no")
    assert status == 78 and "name its column in data.time" in out, out
    status, out = replay(good, "--run-dir", space / "run")
    assert status == 0, out
    status, out = replay(good, "--run-dir", space / "no", "--rewind", "2023-11-15T12", "--of", space / "run")
    assert status == 66 and "which is later: begin the replay anew" in out, out
    first, last = sorted((space / "run/checkpoints").iterdir())[0], sorted((space / "run/checkpoints").iterdir())[-1]
    for words, says in ((["--every", "12h"], "replay.every, in seconds, is 43200, in the checkpoint it was 86400"), (["--window", "2h"], "replay.window, in"),
                        (["--set", "data.time_unit=ms"], "data.time is at in ms, in the checkpoint it was at in s")):
        status, out = replay(good, "--run-dir", space / "no", "--resume", first, *words)
        assert status == 78 and says in out, (words, status, out)
        shutil.rmtree(space / "no")
    none = Run(job(space, train, "none", **{"replay.window": None}), space / "none", extra=["--resume", first])
    assert none.wait() == 78 and "the checkpoint is of a replay, and this job is none" in none.output(), none.output()
    status, out = replay("diff", space / "run", space / "run")
    assert status == 0 and "all days are the same" in out, out
    status, out = replay(good, "--run-dir", space / "no", "--resume", last, "--leave-out", "2023-11-15")
    assert status == 78 and "has learnt windows that replay.from, replay.window or replay.leave_out now say otherwise" in out, out


def days_of_23_and_25_hours_end_at_local_midnight(space):
    """Three days over each change of summer time in Berlin, a row every 2 minutes; by hand: when days begin and how many rows each has. Other zones: refused, or UTC."""
    begins = {"2026-03-28T00:00:00+01:00": (1774652400, 24), "2026-03-29T00:00:00+01:00": (1774738800, 23), "2026-03-30T00:00:00+02:00": (1774821600, 24),
              "2026-10-24T00:00:00+02:00": (1792792800, 24), "2026-10-25T00:00:00+02:00": (1792879200, 25), "2026-10-26T00:00:00+01:00": (1792969200, 24)}
    dice = random.Random(5)
    lines = [(at, dice.randrange(2), f"u{dice.randrange(50)}", f"i{dice.randrange(9)}") for begin, hours in begins.values() for at in range(begin, begin + hours * HOUR, 120)]
    train = log_file(space / "log.csv", lines)
    keys = {"data.zone": "Europe/Berlin", "replay.checkpoint": False, "train.lanes": 2, "evaluate.by": None}
    one = run_job(job(space, train, **keys), space / "one")
    two = run_job(job(space, train, **keys), space / "two", workers=2)
    assert digests(one) == digests(two) and one["replay"] == two["replay"], (one["replay"], two["replay"])
    assert {d["from"]: (d["rows"], d["examples"], len(d["hours"])) for d in days(one)} == {f: (h * 30, h * 30, h) for f, (_, h) in begins.items()}, days(one)
    autumn = [h["from"] for h in days(one)[4]["hours"]]
    assert autumn[2:4] == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"], autumn
    refused = Run(job(space, train, **{**keys, "data.zone": "Europe/Berlim"}), space / "refused")
    assert refused.wait() == 78 and "the nearest name is Europe/Berlin" in refused.output(), refused.output()


def folders_tell_the_time(space):
    """No time column: {date}/{hour} by the clocks of Berlin over both changes of summer time, an hour missing, a folder empty. By hand: rows of each hour; wrong
    names are named before anything runs."""
    lines, log, at, expected = synth(space / "all.tsv", 4000).read_bytes().splitlines(keepends=True), space / "log", 0, {}
    for day in ("2026-03-28", "2026-03-29", "2026-10-25"):
        for hour in range(24):
            folder = log / day / f"{hour:02}"
            folder.mkdir(parents=True)
            if (day, hour) in (("2026-03-29", 2), ("2026-10-25", 7)):
                continue  # the hour that clocks leave out, and one that was lost
            for part, rows in (("a", 10 + hour), ("b", 5), ("none", 0)):
                (folder / part).write_bytes(b"".join(lines[at:at + rows]))
                at += rows
            expected.setdefault(day, []).append(15 + hour)
    keys = {"data.format": "criteo", "data.label": None, "data.time": None, "data.partition": "{date}/{hour}/*", "data.zone": "Europe/Berlin", "replay.window": None,
            "replay.every": "1d", "replay.checkpoint": False, "evaluate.by": None, "train.batch": 32}
    files = run_job(job(space, log / "*/*/*", "files", **keys), space / "files", 1, 2)
    assert {d["from"][:10]: [h["rows"] for h in d["hours"]] for d in days(files)} == expected, days(files)
    assert [h["from"] for h in days(files)[1]["hours"]][1:3] == ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"], days(files)[1]
    objects = run_job(job(space, log / "*/*/*", "objects", **keys, **{"data.objects": True}), space / "objects", 1, 2)
    assert {d["from"][:10]: [h["rows"] for h in d["hours"]] for d in days(objects)} == expected, days(objects)
    status, out = replay(job(space, log / "*/*/*", "until", **keys), "--run-dir", space / "until", "--since", "2026-03-29", "--until", "2026-03-29T05")
    assert status == 0 and [h["rows"] for h in days(report_of(space / "until"))[0]["hours"]] == expected["2026-03-29"][:4], out
    (log / "2026-03-29/02/a").write_bytes(lines[0])
    for over, says in (({}, "2026-03-29/02/a is of a time that clocks of Europe/Berlin leave out"), ({"data.partition": "{date}/h{hour}/*"}, "00/a does not match the pattern"),
                       ({"data.partition": "{date}/h{hour}/*", "data.objects": True}, "00/a does not match the pattern"), ({"data.partition": "{hour}/*"}, "it names no day")):
        status, out = replay(job(space, log / "*/*/*", "wrong", **{**keys, **over}), "--run-dir", space / "wrong")
        assert status == 78 and says in out, (over, status, out)
    late = space / "2023-11-15"
    late.mkdir()
    log_file(late / "log.csv", events(400, 2))
    report = run_job(job(space, late / "log.csv", "late", **{"data.partition": "{date}/*"}), space / "late")
    assert report["outside_partition"] == 200 and [d["rows"] for d in days(report)] == [200, 200], "their own times count"


if __name__ == "__main__":
    main([days_and_hours_are_told_and_nothing_depends_on_who_computes, days_of_23_and_25_hours_end_at_local_midnight,
          folders_tell_the_time, what_is_killed_or_stopped_ends_as_if_it_had_not, a_bad_day_is_seen_and_taken_back, each_day_is_told, long_windows_are_taken_back_too, a_range_is_a_range,
          a_fleet_replays, what_cannot_be_is_refused])
