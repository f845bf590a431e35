#!/usr/bin/env python3
"""test_times: how event times are written: what is no time since 1970 is refused with the key that reads it, and that key reads it; the report tells the range."""
import gzip
import re

from lib import *


def days_log(path, form, days=10, rows=2000):
    """Ten days from 2014-10-21 on, as `form` (strftime, UTC) writes them."""
    dice = random.Random(2)
    lines = [f"{int(dice.random() < 0.3)},{time.strftime(form, time.gmtime(1413849600 + i * days * 86400 // rows))},u{dice.randrange(50)}\n" for i in range(rows)]
    path.write_text("click,at,user\n" + "".join(lines), encoding="utf-8")
    return path


def job(space, train, **over):
    return job_file(space / "job.yaml", train, **{"data.format": "csv", "data.label": "click", "data.time": "at", "train.batch": 64,
                                                  "train.consistency": "bsp", "replay.every": "1d", "replay.checkpoint": False, **over})


def a_number_that_is_a_date_is_refused_and_read_as_advised(space):
    for number, (form, advice) in enumerate((("%y%m%d%H", {"data.time_format": "yymmddhh"}), ("%Y%m%d", {"data.time_format": "yyyymmdd"}),
                                             ("%Y%m%d%H", {"data.time_format": "yyyymmddhh"}), ("%Y%m%d%H%M", {"data.time_format": "%Y%m%d%H%M"}),
                                             ("%s999", {"data.time_unit": "ms"}))):
        train = days_log(space / "train.csv", form)
        run = Run(job(space, train), space / f"refused-{number}")
        (key, value), = advice.items()
        assert run.wait() == 65 and f"{key}: " in run.output() and value in run.output(), run.output()
        report = run_job(job(space, train, **advice), space / f"read-{number}")
        assert len(report["replay"]["days"]) == 10 and report["events"]["from"].startswith("2014-10-21T00"), (form, len(report["replay"]["days"]), report["events"])
        assert report["events"]["to"].startswith("2014-10-30T"), report["events"]


def a_format_goes_by_the_jobs_zone(space):
    """Minutes are enough; a day that clocks leave out an hour of is a day."""
    form = {"data.time_format": "%d/%m/%Y %H:%M", "data.zone": "Europe/Berlin"}
    report = run_job(job(space, days_log(space / "train.csv", "%d/%m/%Y %H:%M"), **form), space / "formed")
    assert len(report["replay"]["days"]) == 10 and report["events"]["from"] == "2014-10-21T00:00:00+02:00", report["events"]
    assert report["events"]["to"].startswith("2014-10-30T23:52:00+01:00"), report["events"]
    other = run_job(job(space, days_log(space / "iso.csv", "%Y-%m-%d %H:%M"), **{"data.zone": "Europe/Berlin"}), space / "iso")
    assert digests(other) == digests(report), "the same times"


def formats_that_name_no_day_are_refused(space):
    train = days_log(space / "train.csv", "%Y%m%d")
    for form in ("%H:%M", "%s", "yyyy", "%Y-%m", "%c"):
        run = Run(job(space, train, **{"data.time_format": form}), space / f"run-{form.strip('%')[:1]}")
        assert run.wait() == 78 and "is none of yymmddhh, yyyymmdd" in run.output(), (form, run.output())


def a_page_places_days_by_their_date(space):
    """1 and 2 March, 1 June; then in periods of a week, the first of which begins before the log: 1970-01-01 was a Thursday."""
    begins = (1772323200, 1772409600, 1780272000)
    (space / "train.csv").write_text("click,at,user\n" + "".join(f"{i % 3 == 0:d},{at + 3 * 3600 + i},u{i % 9}\n" for at in begins for i in range(200)))
    run_job(job(space, space / "train.csv", **{"replay.checkpoint": True}), space / "days")
    said = subprocess.run([SHOAL, "checkpoint", "list", space / "days/checkpoints"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"events until (\S+) ", said) == ["2026-03-01T04:00:00Z", "2026-03-02T04:00:00Z", "2026-06-01T04:00:00Z"], said
    if (page := drawn(space / "days/report.html")) is not None:
        places = [float(x) for x in re.findall(r"<title>day \d+: days from \S+ on ([0-9.]+)", page)]
        assert places[:3] == [0.5, 1.5, 92.5], places
        assert "days from 2026-03-01T00:00:00Z on" in page
    run_job(job(space, space / "train.csv", **{"replay.every": "7d"}), space / "weeks")
    if (page := drawn(space / "weeks/report.html")) is not None:
        assert "Periods of 7 days" in page and "<th>period</th>" in page
        assert "the first begins 2026-02-26T00:00:00Z, and the log 2026-03-01T03:00:00Z" in page
    assert "consistency=bsp" not in pathlib.Path(str(space / "weeks") + ".out").read_text(), "it is bsp"


def avazu(space):
    """Its `hour` is YYMMDDHH."""
    folder = data_folder("avazu_hour")
    if folder is None:
        raise Skip("needs SHOAL_DATA/avazu_hour")
    head, *lines = gzip.open(folder / "train.csv.gz", "rt").read().splitlines()
    (space / "train.csv").write_text("\n".join([head, *lines[:20000]]) + "\n")
    skipped = [{"name": name, "type": "skip"} for name in head.split(",") if name == "id"]
    over = {"data.time": "hour", "data.columns": skipped or None}
    run = Run(job(space, space / "train.csv", **over), space / "refused")
    assert run.wait() == 65 and "data.time_format: yymmddhh" in run.output(), run.output()
    report = run_job(job(space, space / "train.csv", **over, **{"data.time_format": "yymmddhh"}), space / "read")
    assert report["events"]["from"].startswith("2014-10-2"), report["events"]


if __name__ == "__main__":
    main([a_number_that_is_a_date_is_refused_and_read_as_advised, a_format_goes_by_the_jobs_zone, formats_that_name_no_day_are_refused,
          a_page_places_days_by_their_date, avazu])
