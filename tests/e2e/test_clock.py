#!/usr/bin/env python3
"""test_clock: the calendar of one process is wrong (moved_clock.c), over a log of the last ten days whose rows age: the tables are the same bit for bit, or the
job is refused and names the time. tests/claims plays every process, by an hour, a week and a year, both ways."""
import re

from lib import *

MOVED = BIN / "libmoved_clock.so"
HOUR, DAY = 3600, 86400
WEEK, YEAR = 7 * DAY, 365 * DAY
PROCESSES = ("coordinator", "server-0", "server-1", "worker-0", "worker-1")


def clock_job(space, name="job.yaml", **over):
    """Ten days of events up to yesterday, users that come and go: with a ttl of three days most of them are gone at the end."""
    train = space / "train.csv"
    if not train.exists():
        dice, end = random.Random(1), time.time() - DAY
        rows = [f"{int(dice.random() < 0.3)},{int(end - 10 * DAY + i * 10 * DAY / 8000)},u{i // 20 * 8 + dice.randrange(8)},i{dice.randrange(40)}\n" for i in range(8000)]
        train.write_text("click,at,user,item\n" + "".join(rows), encoding="utf-8")
    keys = {"data.format": "csv", "data.label": "click", "data.time": "at", "data.shuffle": False, "train.batch": 64, "train.consistency": "bsp",
            "tables[0].evict": {"ttl_days": 3, "every_hours": 12}, "data.cache": str(space / "cache"), **over}
    return job_file(space / name, train, **keys)


def moved(space, name, process, by, extra=()):
    """The job, ended, with the clock of one process moved."""
    os.environ.update({"LD_PRELOAD": str(MOVED), "SHOAL_CLOCK_OF": process, "SHOAL_CLOCK_BY": str(by)})
    try:
        run = Run(space / "job.yaml", space / name, 2, 2, extra)
    finally:
        for key in ("LD_PRELOAD", "SHOAL_CLOCK_OF", "SHOAL_CLOCK_BY"):
            del os.environ[key]
    run.wait()
    return run


def cell(space, right, process, by):
    """Equal tables, a wrong clock named where it may matter; or status 65 and the limit by name."""
    run = moved(space, f"{process}{by:+d}", process, by)
    status = run.process.returncode
    if process == "coordinator" and by <= -WEEK:
        at = time.strftime("%Y-%m-%dT", time.gmtime(time.time() + by + DAY))
        assert status == 65 and f"have a time later than {at}" in run.output() and "clock" in run.output(), (status, run.output()[-1500:])
        return
    assert status == 0, (process, by, status, run.output()[-1500:])
    report = run.report()
    assert digests(report) == right and report["clamped_times"] == 0, (process, by, digests(report), right, report["clamped_times"])
    named = [note for note in report["notes"] if "the clock of worker" in note]
    apart = process.startswith("worker") or process == "coordinator"
    assert len(named) == apart, (process, by, report["notes"])
    if process.startswith("worker"):
        away = re.search(rf"worker {process} .*it is (\d+) s {'ahead of' if by > 0 else 'behind'}", named[0])
        assert away and abs(int(away[1]) - abs(by)) <= 5, named  # the question and its answer take some time
        assert f"the clock of worker {process} is" in run.logs("coordinator") and "the clock of this machine is" in run.logs(process)


def right_tables(space):
    clock_job(space)
    report = run_job(space / "job.yaml", space / "right", 2, 2)
    rows = digests(report)["emb"][0]
    assert rows < 2500, f"{rows} rows: nothing has aged, and a clock could change nothing"
    return digests(report)


def a_wrong_clock_changes_no_row(space):
    right = right_tables(space)
    for process, by in (("worker-0", -WEEK), ("worker-1", YEAR), ("server-0", -YEAR), ("coordinator", -HOUR), ("coordinator", WEEK), ("coordinator", -WEEK)):
        cell(space, right, process, by)


def a_resumed_job_keeps_its_limit(space):
    """Half of the log is of next week: a day past the clock of the first submit all later times are one. Gone on with where clocks are a year ahead, too."""
    clock_job(space)
    lines = (space / "train.csv").read_text(encoding="utf-8").splitlines()
    for n in range(20, 60):  # less than a hundredth of them
        click, at, *rest = lines[n * 100].split(",")
        lines[n * 100] = ",".join([click, str(int(at) + 300 * DAY), *rest])
    (space / "train.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    clock_job(space, **{"checkpoint.every_batches": 40, "checkpoint.keep": 0})
    report = run_job(space / "job.yaml", space / "whole", 2, 2)
    assert report["clamped_times"] == 40, report["clamped_times"]
    first, last = (int(line.split(",")[1]) for line in (lines[1], lines[5900]))
    assert report["events"]["first"] == first and report["events"]["last"] == last, (report["events"], first, last)
    said = subprocess.run([SHOAL, "status", "--run-dir", space / "whole"], capture_output=True, text=True, check=True).stdout
    assert f"from {report['events']['from']} to {report['events']['to']}" in said, said
    page = drawn(space / "whole/report.html")
    assert page is None or report["events"]["from"] in page and report["events"]["to"] in page
    logged = (space / "whole/log/coordinator.log").read_text(encoding="utf-8")
    assert re.match(time.strftime("info  %Y-%m-%dT", time.gmtime()) + r"\d\d:\d\d:\d\d\.\d{3}Z shoal-coordinator: ", logged), logged[:100]
    limit = [line for line in (space / "whole/job.yaml").read_text().splitlines() if line.startswith("data.time_limit")]
    assert len(limit) == 1 and limit[0].endswith("# given by the coordinator"), limit
    made = min((space / "whole/checkpoints").iterdir())
    run = moved(space, "again", "coordinator", YEAR, ["--resume", str(made)])
    assert run.process.returncode == 0, run.output()[-1500:]
    assert digests(run.report()) == digests(report), (digests(run.report()), digests(report))


def the_newest_checkpoint_is_no_clocks(space):
    """Two runs with one folder of checkpoints, the first of a machine whose clock was a year ahead."""
    both = {"checkpoint.dir": str(space / "both"), "checkpoint.every_batches": 60, "checkpoint.at_end": True, "checkpoint.keep": 0, "train.epochs": 2}
    clock_job(space, **both)
    first = moved(space, "first", "coordinator", 365 * 86400)
    assert first.process.returncode == 0, first.output()[-1500:]
    run_job(space / "job.yaml", space / "second", 2, 2)
    names = sorted(p.name for p in (space / "both").iterdir() if p.name.isdigit())
    listed = subprocess.run([SHOAL, "checkpoint", "list", space / "both", "--json"], capture_output=True, text=True, check=True).stdout
    assert [c["name"] for c in json.loads(listed)] == names, listed
    dates = [c["date"] for c in json.loads(listed)]
    assert dates[0] > dates[-1], dates
    for word in ("--resume", "--start-from"):
        report = run_job(space / "job.yaml", space / f"on{word}", 2, 2, [word, str(space / "second"), "--set", "checkpoint.dir=" + str(space / "other")])
        assert (report.get("from") or report.get("start_from")) == str(space / "both" / names[-1]), (report.get("from"), report.get("start_from"), names)


if __name__ == "__main__":
    main([a_wrong_clock_changes_no_row, a_resumed_job_keeps_its_limit, the_newest_checkpoint_is_no_clocks])
