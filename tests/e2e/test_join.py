#!/usr/bin/env python3
"""test_join: impressions and clicks joined by Shoal are those that a plain script joins, killed or not;
what comes of them trains the same. SHOAL_JOIN_ROWS=1000000 makes the log so long, SHOAL_JOIN_KILLS=20 kills so often."""
import csv
import hashlib

from lib import *

ROWS, KILLS = int(os.environ.get("SHOAL_JOIN_ROWS", "12000")), int(os.environ.get("SHOAL_JOIN_KILLS", "3"))
BEGIN, WINDOW, KEEP, DISORDER = 1_760_000_000, 1800, 3600, 120


# ---- the log: four files of each kind, two for each half of the time, read side by side

def quoted(cell):
    return '"' + cell.replace('"', '""') + '"' if "," in cell or '"' in cell else cell


def log_write(space, rows, seed=1):
    """Clicks out of order, late, doubled, without an impression, without an id; impressions too. Returns the files of both."""
    draw, hours = random.Random(seed), 6
    files = {kind: [[] for _ in range(4)] for kind in ("impressions", "clicks")}

    def put(kind, time, cells):
        """At its time, or up to so much later: what is behind others by more is out of order."""
        late = draw.choice((0, 0, 0, draw.randrange(DISORDER), draw.randrange(3 * DISORDER)) if draw.random() < (0.1 if kind == "clicks" else 0.02) else (0, 1, 5))
        half = min(1, 2 * (time - BEGIN) // (3600 * hours))
        files[kind][2 * half + draw.randrange(2)].append((time + late, len(files[kind][0]), [str(time) if draw.random() > (0.005 if kind == "clicks" else 0.0003) else "never"] + cells))

    for i in range(rows):
        time = BEGIN + 3600 * hours * i // rows
        name = f"i{i}" if draw.random() > 0.002 else f"i{draw.randrange(i + 1)}" if draw.random() > 0.3 else ""
        user, item = draw.randrange(200), draw.randrange(1000)
        put("impressions", time, [name, f"u{user}" if user else 'u,"0"', f"p{item}"])
        if draw.random() < 0.02 + 0.2 * (item % 7 == 0):
            delay = draw.choice((0, WINDOW, WINDOW + 1, WINDOW + KEEP, WINDOW + KEEP + 1) if draw.random() < 0.1 else (draw.randrange(WINDOW), draw.randrange(9000)))
            for _ in range(1 + (draw.random() < 0.1)):
                put("clicks", time + delay, [name if draw.random() > 0.01 else draw.choice(("", "nobody"))])
    for kind, head in (("impressions", "time,id,user,item"), ("clicks", "time,shown")):
        for n, part in enumerate(files[kind]):
            part.sort(key=lambda row: row[:2])
            lines = [",".join(map(quoted, cells)) for _, _, cells in part]
            if n == 0:
                lines[3:3] = ["a line of one column"]
            (space / f"{kind}-{n}.csv").write_text(head + "\n" + "\n".join(lines) + "\n")
    return [[str(space / f"{kind}-{n}.csv") for n in range(4)] for kind in ("impressions", "clicks")]


# ---- the plain script

def events_of(paths, kind, count):
    for number, path in enumerate(paths):
        newest = 0
        with open(path, newline="") as f:
            rows = csv.reader(f)
            head = next(rows)
            for line, row in enumerate(rows):
                count["rows"] += 1
                if len(row) != len(head):
                    count["malformed"] += 1
                elif not row[1]:
                    count["without_id"] += 1
                elif not row[0].isdigit():
                    count["without_time"] += 1
                elif int(row[0]) + DISORDER < newest:
                    count["out_of_order"] += 1
                else:
                    newest = max(newest, int(row[0]))
                    yield int(row[0]), kind, number, line, row


def plain_join(impressions, clicks, learn):
    """(joined rows with time and label, counts)"""
    names = ("rows", "malformed", "without_id", "without_time", "out_of_order")
    shown, clicked = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    count = dict.fromkeys(("positives", "negatives", "late", "doubled", "unmatched", "repeated"), 0)
    events = sorted([*events_of(impressions, 0, shown), *events_of(clicks, 1, clicked)], key=lambda e: e[:4])
    known, all_of_them, out = {}, [], []
    for n, (time, kind, _, _, row) in enumerate(events):
        one = known.get(row[1])
        there = one is not None and time <= one["time"] + WINDOW + KEEP
        if kind == 0 and there:
            count["repeated"] += 1
        elif kind == 0:
            known[row[1]] = {"time": time, "row": row, "label": 0, "late": False}
            all_of_them.append(known[row[1]])
        elif not there:
            count["unmatched"] += 1
        elif one["label"] or one["late"]:
            count["doubled"] += 1
        elif time <= one["time"] + WINDOW:
            one["label"] = 1
            count["positives"] += 1
            out.append((time, 0, n, one["row"], 1))
        else:
            one["late"] = True
            count["late"] += 1
            if learn:
                out.append((time, 0, n, one["row"], 1))
    for n, one in enumerate(all_of_them):
        if not one["label"]:
            count["negatives"] += 1
            out.append((one["time"] + WINDOW, 1, n, one["row"], 0))
    out.sort(key=lambda o: o[:3])
    for name in names:
        suffix = "" if name == "rows" else "_" + name
        count["impressions" + suffix], count["clicks" + suffix] = shown[name], clicked[name]
    return [[str(time), *row[1:], str(label)] for time, _, _, row, label in out], count


def plain_write(path, rows):
    path.write_text("time,id,user,item,click\n" + "".join(",".join(map(quoted, row)) + "\n" for row in rows))
    return path


# ---- the jobs

def job_of(space, name, train, clicks, **over):
    join = {} if clicks is None else {
        "data.join.clicks": clicks, "data.join.id": "id", "data.join.click_id": "shown", "data.join.window": f"{WINDOW}s", "data.join.keep": f"{KEEP}s",
        "data.join.disorder": f"{DISORDER}s"}
    skip = {} if clicks is not None else {"data.columns[0].name": "id", "data.columns[0].type": "skip"}
    return job_file(space / name, "", **{"data.format": "csv", "data.train": train, "data.label": "click", "data.time": "time", "data.max_bad": 0.1,
                                         "data.cache": str(space / (name + ".cache")), "train.consistency": "bsp", **join, **skip, **over})


def convert(job, out, *words):
    return subprocess.Popen([SHOAL, "convert", str(job), "--out", str(out), "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def converted(job, out):
    run = convert(job, out)
    text, errors = run.communicate(timeout=600)
    assert run.returncode == 0, errors
    return json.loads(text), hashlib.sha256(pathlib.Path(out).read_bytes()).hexdigest()


def joined_text(space, name):
    files = sorted((space / f"{name}.cache").glob("*.joined"))
    assert len(files) == 1, files
    return files[0].read_text()


def same_counts(told, count):
    assert {k: told[k] for k in count} == count, (told, count)


# ---- what it must show

def it_is_what_a_plain_script_joins(space):
    impressions, clicks = log_write(space, ROWS)
    for learn in (False, True):
        begin = time.monotonic()
        rows, count = plain_join(impressions, clicks, learn)
        plain = plain_write(space / "plain.csv", rows)
        print(f"  plain script: {time.monotonic() - begin:.1f} s for {count['impressions'] + count['clicks']} rows: {count}")
        assert all(count[k] > 0 for k in count), count
        told, digest = converted(job_of(space, "plain.yaml", str(plain), None), space / f"plain-{learn}.events")
        name = f"joined-{learn}.yaml"
        over = {"data.join.late": "learn" if learn else "count"}
        job = job_of(space, name, impressions, clicks, **over)
        begin = time.monotonic()
        joined, mine = converted(job, space / f"joined-{learn}.events")
        print(f"  joined and converted in {time.monotonic() - begin:.1f} s, {joined['core_seconds']:.1f} core seconds: {joined['join']}")
        assert joined_text(space, name) == plain.read_text()
        same_counts(joined["join"], count)
        assert mine == digest and joined["rows"] == told["rows"] == len(rows)
        again, mine = converted(job, space / f"again-{learn}.events")  # the joined text is found
        assert mine == digest and again["join"] == joined["join"] and again["core_seconds"] < joined["core_seconds"] * 0.9, (again, joined)


def killed_it_goes_on_with_the_same_bytes(space):
    impressions, clicks = log_write(space, longer(ROWS), seed=2)
    rows, count = plain_join(impressions, clicks, True)
    over = {"data.join.late": "learn", "data.join.memory": 25 * longer(ROWS), "data.join.checkpoint": max(20000, ROWS)}
    job, out, cache, draw = job_of(space, "killed.yaml", impressions, clicks, **over), space / "killed.events", space / "killed.yaml.cache", random.Random(3)
    begin = time.monotonic()
    whole, digest = converted(job_of(space, "whole.yaml", impressions, clicks, **over), space / "whole.events")
    lasts, killed, went_on, most, before = time.monotonic() - begin, 0, 0, 0, set()
    while killed < KILLS:
        run = convert(job, out)
        end = None  # a while after the next checkpoint, which is more than any before it
        while run.poll() is None and (end is None or time.monotonic() < end):
            saved = checkpoints(cache)
            if end is None and saved - before:
                end = time.monotonic() + draw.random() ** 2 * lasts / KILLS
            before |= saved
            most = max([most, *resident(run.pid)])
            time.sleep(0.002)
        if run.poll() is not None:
            break  # it was through before it was killed
        os.killpg(run.pid, signal.SIGKILL)
        went_on += "a join goes on" in run.communicate()[1]
        killed += 1
        before |= checkpoints(cache)
        assert not out.exists()
    told, mine = converted(job, out) if not out.exists() else (whole, hashlib.sha256(out.read_bytes()).hexdigest())
    print(f"  {lasts:.1f} s undisturbed; killed {killed} times, went on {went_on} times, {len(before)} checkpoints seen; {told['join']['held']} impressions "
          f"known at a time; {most // 1024} MiB resident at most")
    if killed == 0:
        raise TooShort("it was through before it was killed")
    assert went_on == killed - 1 and mine == digest and told["join"] == whole["join"]
    same_counts(told["join"], count)
    assert joined_text(space, "killed.yaml") == plain_write(space / "plain.csv", rows).read_text()
    assert not list(cache.glob("*.join")), "what made it is still there"


def refused_for_its_memory_it_goes_on_with_more(space):
    impressions, clicks = log_write(space, 2000, seed=5)
    over = {"data.join.keep": "6h", "data.join.checkpoint": 10_000}
    for memory, status, says in ((100_000, 78, "1250 impressions"), (1_000_000, 0, "a join goes on")):
        run = convert(job_of(space, "little.yaml", impressions, clicks, **{**over, "data.join.memory": memory}), space / "little.events")
        errors = run.communicate(timeout=PATIENCE * 60)[1]
        assert run.returncode == status and says in errors, (memory, run.returncode, errors)
    converted(job_of(space, "much.yaml", impressions, clicks, **over), space / "much.events")
    assert joined_text(space, "little.yaml") == joined_text(space, "much.yaml")


def checkpoints(cache):
    """Each by the time of its file, which the next one takes the place of."""
    times = set()
    for path in cache.glob("*.join/state"):
        try:
            times.add(path.stat().st_mtime_ns)
        except FileNotFoundError:
            pass
    return times


def resident(group):
    """VmRSS, in kB, of the processes of a session."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3]) == group:
                yield int((entry / "status").read_text().split("VmRSS:")[1].split()[0])
        except (OSError, IndexError):
            continue


def what_is_joined_trains_as_if_it_had_been(space):
    impressions, clicks = log_write(space, min(ROWS, 12000), seed=4)
    plain = plain_write(space / "plain.csv", plain_join(impressions, clicks, False)[0])
    over = {"replay.window": "1h", "replay.every": "3h", "replay.checkpoint": False, "data.valid": [impressions[3]]}
    as_it_was = run_job(job_of(space, "plain.yaml", str(plain), None, **{**over, "data.valid": None}), space / "plain")
    run = Run(job_of(space, "joined.yaml", impressions, clicks, **over), space / "joined", workers=2)
    assert run.wait() == 0, run.output()[-3000:]
    report = run.report()
    assert digests(report) == digests(as_it_was) and report["examples"] == as_it_was["examples"]
    day = [[[d["from"], d["figures"]["auc"], d["figures"]["logloss"]] for d in r["replay"]["days"]] for r in (report, as_it_was)]
    assert day[0] == day[1] and len(day[0]) > 1, day
    scores = subprocess.run([SHOAL, "predict", "--from", str(space / "joined"), "--in", impressions[3]], capture_output=True, text=True, timeout=60)
    shown = len(pathlib.Path(impressions[3]).read_text().splitlines()) - 1
    assert scores.returncode == 0 and abs(len(scores.stdout.splitlines()) - shown) <= 1, scores.stderr
    told, _ = converted(space / "joined.yaml", space / "train.events")
    events = job_of(space, "events.yaml", str(space / "train.events"), None, **{**over, "data.format": "events", "data.valid": None,
                                                                               "data.columns[0].name": None, "data.columns[0].type": None})
    assert digests(run_job(events, space / "events")) == digests(as_it_was) and told["join"]["positives"] > 0


def what_cannot_be_joined_is_said(space):
    impressions, clicks = log_write(space, 2000)
    for over, status, says in (
            ({"data.join.id": "ids"}, 78, 'no column "ids" (data.join.id)'),
            ({"data.join.click_id": "id"}, 78, 'no column "id" (data.join.click_id)'),
            ({"data.label": "item"}, 78, "makes the label of that name"),
            ({"data.label": ["a", "b"], "model.kind": "mmoe"}, 78, "makes one label"),
            ({"data.time": None}, 78, "name the impressions' time"),
            ({"data.format": "libsvm"}, 78, "data.format: csv with data.header"),
            ({"data.max_bad": 0.0001}, 65, "have no id"),
            ({"data.join.memory": 100_000, "data.join.keep": "6h"}, 78, "or raise data.join.memory"),
            ({"data.join.clicks": [str(space / "none.csv")]}, 66, "none.csv")):
        run = convert(job_of(space, "job.yaml", impressions, clicks, **over), space / "x")
        errors = run.communicate(timeout=PATIENCE * 60)[1]
        assert run.returncode == status and says in errors, (over, run.returncode, errors)


if __name__ == "__main__":
    main([it_is_what_a_plain_script_joins, killed_it_goes_on_with_the_same_bytes, refused_for_its_memory_it_goes_on_with_more, what_is_joined_trains_as_if_it_had_been,
          what_cannot_be_joined_is_said])
