#!/usr/bin/env python3
"""test_checkpoint: checkpoints of a running job: a job that goes on from one ends with every row as if nothing had happened, on any number of
servers; kill -9 while one is made leaves nothing half visible; a changed bit is found."""
import fcntl
import filecmp
import re

from lib import *

# Counts: every example that is lost or taken twice changes a row. Small batches, so that something is always in flight.
PROBE = {"model.kind": "probe", "tables[0].dim": 1, "train.consistency": "async", "train.prefetch": 4, "train.batch": 64, "train.epochs": 3,
         "train.task_batches": 8, "tables[0].optimizer.kind": "sgd", "net.resend": "1s"}
BSP = {"train.consistency": "bsp", "train.lanes": 3, "train.epochs": 30, "train.batch": 64, "model.norm": "batch", "model.dropout": 0.1}


def shoal(*words, status=0):
    done = subprocess.run([SHOAL, "checkpoint", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{words}: exit status {done.returncode}, {status} expected:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def create(run, name):
    """Returns the output of the command that makes a checkpoint of a running job."""
    done = subprocess.run([SHOAL, "checkpoint", "create", name, "--run-dir", run.dir, "--json"], capture_output=True, text=True, timeout=120)
    if done.returncode in (66, 69) and ("in finish by now" in done.stderr or "no job is running" in done.stderr or not run.running()):
        too_soon(run.wait(120), done.stderr + run.output())
    assert done.returncode == 0, f"{name}: exit status {done.returncode}:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def stop(run):
    """Ends a run without mercy, the way a machine does."""
    for name in ["coordinator"] + [f"server-{i}" for i in range(4)] + [f"worker-{i}" for i in range(4)]:
        run.signal(name, signal.SIGSTOP)
    children = [p for name in ["coordinator"] + [f"{k}-{i}" for i in range(4) for k in ("server", "worker")] for p in run.children(name)]
    run.process.kill()
    run.process.wait()
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def examples(run):
    done = subprocess.run([SHOAL, "status", "--run-dir", run.dir, "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout).get("examples", 0) if done.returncode == 0 else 0


def entries(folder):
    return sorted(p.name for p in pathlib.Path(folder).iterdir() if not p.name.startswith(".")) if pathlib.Path(folder).is_dir() else []


def goes_on(space, over, rows, servers_then, servers_after):
    """Makes checkpoints in the middle, stops the run, goes on from the newest on each number of servers."""
    rows = longer(rows)
    train = synth(space / "train.tsv", rows, 21)
    job = job_file(space / "job.yaml", train, **over)
    expected = digests(run_job(job, space / "calm", 2, 2))
    run = Run(job, space / "first", servers_then, 2)
    started(run)
    made = []
    for i in range(3):
        time.sleep(0.15)
        made.append(create(run, f"at-{i}"))
    still_going(run)
    stop(run)
    folder = pathlib.Path(made[-1]["path"])
    assert entries(folder.parent) == ["at-0", "at-1", "at-2"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["parts"]) == servers_then and manifest["rows"] == made[-1]["rows"] > 0
    tables = manifest["tables"]
    assert sum(t["rows"] for t in tables) == manifest["rows"] and {t["space"] for t in tables} == {manifest["job"]}
    assert all(0 < t["bytes"] and sum(part["width"] for part in t["layout"]) >= t["width"] for t in tables if t["rows"]), tables
    for servers in servers_after:
        report = run_job(job, space / f"on-{servers}", servers, 2, ["--resume", str(folder)])
        assert digests(report) == expected, f"{servers} servers: {digests(report)}, undisturbed {expected}"
        assert report["from"] == str(folder)
        assert report["examples"] == over["train.epochs"] * rows - report["bad_lines"], report["examples"]
    print(f"      epoch {manifest['epoch']}, {manifest['examples']} examples, {manifest['rows']} rows, pushes held "
          f"{manifest['held_seconds'] * 1000:.1f} ms, {manifest['seconds']:.3f} s in all", flush=True)


def probe_counts_are_exact_on_one_two_and_three_servers(space):
    goes_on(space, PROBE, 100000, 2, [1, 2, 3])


def bsp_goes_on_bit_for_bit_on_the_same_servers(space):
    goes_on(space, BSP, 6000, 2, [2])


def bsp_goes_on_bit_for_bit_on_other_servers(space):
    goes_on(space, BSP, 6000, 2, [1, 3])


def lanes_that_fitted_the_workers_stay_with_the_checkpoint(space, mode):
    """train.lanes: 0 takes the four places of two workers; the job goes on with four lanes on one worker, which has two places, and on five, of which one
    has none, by the file as it was and by one that names the lanes. What begins only with the tables counts its own places."""
    rows = longer(60000)
    over = {**PROBE, "train.consistency": mode, "train.lanes": 0, "train.prefetch": 2, "checkpoint.at_end": True}
    job = job_file(space / "job.yaml", synth(space / "train.tsv", rows, 23), **over)
    calm = run_job(job, space / "calm", 2, 2)
    assert calm["lanes"] == 4 and not any("has lanes for" in note for note in calm["notes"]), calm
    run = Run(job, space / "first", 2, 2)
    started(run)
    made = create(run, "at")
    still_going(run)
    stop(run)
    for workers, words in ((1, []), (5, []), (3, ["--set", "train.lanes=4"])):
        report = run_job(job, space / f"on-{workers}", 2, workers, ["--resume", made["path"], *words])
        assert report["lanes"] == 4 and digests(report) == digests(calm), (workers, report["lanes"], digests(report), digests(calm))
        assert report["examples"] == over["train.epochs"] * rows - report["bad_lines"], report["examples"]
        few = [note for note in report["notes"] if "has lanes for 4 of its 5 workers" in note]
        assert len(few) == (workers == 5), report["notes"]
    got = run_job(job, space / "next", 1, 3, ["--start-from", str(space / "calm"), "--set", "train.epochs=1"])
    assert got["lanes"] == 6, got["lanes"]


def lanes_of_a_checkpoint_under_ssp(space):
    lanes_that_fitted_the_workers_stay_with_the_checkpoint(space, "ssp")


def lanes_of_a_checkpoint_under_bsp(space):
    lanes_that_fitted_the_workers_stay_with_the_checkpoint(space, "bsp")


def killed_while_one_is_made_nothing_half_is_left(space):
    train = synth(space / "train.tsv", longer(140000), 22)
    over = {**PROBE, "checkpoint.every_batches": 20, "checkpoint.keep": 4}  # one after the other
    job = job_file(space / "job.yaml", train, **over)
    expected = digests(run_job(job, space / "calm", 2, 2))
    run = Run(job, space / "run", 2, 2)
    started(run)
    rng, kills = random.Random(5), 0
    while run.running() and kills < 5:
        time.sleep(rng.uniform(0.05, 0.3))
        for _ in range(500):  # most while one is being made
            if any(n.endswith(".tmp") for n in entries(run.dir / "checkpoints")):
                break
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        kills += run.signal(rng.choice(["server-0", "server-1", "coordinator"]))
        for name in entries(run.dir / "checkpoints"):
            try:
                assert name.endswith(".tmp") or json.loads((run.dir / "checkpoints" / name / "manifest.json").read_text())  # whole, whenever one looks
            except FileNotFoundError:
                assert name not in entries(run.dir / "checkpoints"), f"{name} has no manifest"  # pruned meanwhile
    assert run.wait(300) == 0, run.output()[-3000:]
    assert digests(run.report()) == expected
    left = entries(run.dir / "checkpoints")
    assert 1 <= len(left) <= 4 and not [n for n in left if n.endswith(".tmp")], left
    print(f"      {kills} kills, {run.report()['checkpoints_made']} made, {run.report()['checkpoints_failed']} given up", flush=True)
    for name in left:
        shoal("verify", run.dir / "checkpoints" / name)
    report = run_job(job, space / "on", 3, 2, ["--resume", str(run.dir / "checkpoints" / left[-1])])
    assert digests(report) == expected


def one_checkpoint(space):
    train = synth(space / "train.tsv", longer(150000), 23)
    job = job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 2})
    run = Run(job, space / "run", 2, 1)
    started(run)
    path = create(run, "here")["path"]
    stop(run)
    return job, pathlib.Path(path)


def changed_bit_is_found_and_not_restored(space):
    job, path = one_checkpoint(space)
    shoal("verify", path)
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.stat().st_size > 0)
    assert len(files) > 6
    rng = random.Random(9)
    for file in files:
        whole = file.read_bytes()
        for how in ("flip", "cut"):
            at = rng.randrange(len(whole))
            bad = whole[:at] if how == "cut" else whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:]
            file.unlink()  # row files may be shared with a server's own
            file.write_bytes(bad)
            said = shoal("verify", path, status=74)
            assert file.name in said, f"{how} at {at} of {file}: {said}"
        if file.name in ("manifest", "manifest.json", "coordinator.state", "job.yaml") or file == files[-1] or file.suffix == ".sst":
            run = Run(job, space / f"bad-{files.index(file)}", 2, 1, ["--resume", str(path)])
            assert run.wait(120) == 74, run.output()[-1500:]
        file.unlink()
        file.write_bytes(whole)
    shoal("verify", path)
    (path / "part-0001").rename(path / "part-0002")
    shoal("verify", path, status=74)


def other_job_and_other_data_are_refused(space):
    job, path = one_checkpoint(space)
    for key, text in (("train.batch=32", "train.batch"), ("train.window=2", "train.window"), ("train.lanes=3", "train.lanes"), ("train.seed=1", "train.seed")):
        run = Run(job, space / key, 2, 1, ["--resume", str(path), "--set", key])
        assert run.wait(120) == 78 and text in run.output(), run.output()[-1500:]
    other = synth(space / "other.tsv", 150000, 24)
    run = Run(job, space / "other", 2, 1, ["--resume", str(path), "--set", f"data.train={other}"])
    assert run.wait(120) == 65 and "data.train" in run.output(), run.output()[-1500:]
    run = Run(job, space / "none", 2, 1, ["--resume", str(space / "nothing")])
    assert run.wait(120) == 66, run.output()[-1500:]


def commands_answer_for_people_and_programs(space):
    train = synth(space / "train.tsv", longer(300000), 25)
    hook = space / "hook.sh"
    hook.write_text(f"#!/bin/sh\nls \"$2\" >> {space.path}/hooked\ntest $1 = well\n")
    hook.chmod(0o755)
    job = job_file(space / "job.yaml", train, **{**PROBE, "checkpoint.every_batches": 500, "checkpoint.keep": 2,
                                                 "checkpoint.publish": [str(hook), "well"]})
    run = Run(job, space / "run", 2, 1)
    started(run)
    one = create(run, "one")["path"]
    assert "exists" in shoal("create", "one", "--run-dir", run.dir, status=73)
    shoal("create", "../one", "--run-dir", run.dir, status=64)
    seen = examples(run)
    until(run, "the job to go on", lambda: examples(run) > seen, pause=0.05)
    two = create(run, "two")["path"]
    assert run.wait(300) == 0, run.output()[-2000:]
    report = run.report()
    assert {c["publish"] for c in report["checkpoints"]} <= {"done", "passed over"}, report["checkpoints"]
    assert "manifest.json" in (space / "hooked").read_text()
    listed = json.loads(shoal("list", run.dir / "checkpoints", "--json"))
    assert sorted(c["name"] for c in listed if not c["name"].isdigit()) == ["one", "two"] and len(listed) == 4
    assert "epoch 1" in shoal("list", run.dir / "checkpoints")
    shoal("list", space / "nothing", status=66)
    diff = json.loads(shoal("diff", one, two, "--json"))
    table = [t for t in diff["tables"] if t["name"] == "emb"][0]
    assert table["changed"] > 0 and table["gone"] == 0, table
    assert table["rows_before"] + table["came"] == table["rows_after"]
    assert sum(f["changed"] for f in table["fields"]) == table["changed"]
    same = json.loads(shoal("diff", one, one, "--json"))
    assert all(t["changed"] == t["came"] == t["gone"] == 0 for t in same["tables"])
    subprocess.run([SHOAL, "export", two, "emb", "--format", "tsv", "--out", space / "emb"], check=True, stdout=subprocess.DEVNULL)
    lines = (space / "emb/emb.tsv").read_text().splitlines()
    assert lines[0].split("\t")[:2] == ["key", "field"] and len(lines) - 1 == table["rows_after"]


def finished(space):
    """The highest number of a finished checkpoint."""
    return max((int(name) for name in entries(space / "checkpoints") if name.isdigit()), default=0)


def server_killed_in_memory_sends_the_job_back(space, rows=30000):
    """A server that dies with durability: memory takes all rows with it; the job goes back to its newest checkpoint, under bsp bit for bit."""
    train = synth(space / "train.tsv", longer(rows), 29)
    over = {**BSP, "train.epochs": 8, "durability": "memory"}
    expected = digests(run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 2, 2))
    job = job_file(space / "job.yaml", train, **over, **{"checkpoint.dir": str(space / "checkpoints"), "checkpoint.every_minutes": 0.005})
    run = Run(job, space / "run", 2, 2)
    started(run)
    for name in ("server-0", "server-1"):
        before = finished(space)
        until(run, "a checkpoint", lambda: finished(space) > before, pause=0.05)
        strike(run, name)
    assert run.wait() == 0, run.output()[-3000:]
    report = run.report()
    assert report["went_back"] == 2 and report["restarts"] == 2, (report["went_back"], report["restarts"])
    assert 0 < report["seconds_in_vain"] < report["seconds"] and report["seconds_before"] == 0, report
    assert f"{report['seconds_in_vain']:.1f} of the seconds were in vain" in run.output(), run.output()
    assert digests(report) == expected, f"{digests(report)}, undisturbed {expected}"
    assert report["examples"] == over["train.epochs"] * longer(rows) - report["bad_lines"], report["examples"]


def server_killed_in_memory_without_a_checkpoint_ends_the_job(space):
    train = synth(space / "train.tsv", longer(60000), 29)
    run = Run(job_file(space / "job.yaml", train, **BSP, **{"durability": "memory"}), space / "run", 2, 2)
    started(run)
    still_going(run)
    strike(run, "server-1")
    assert run.wait(60) != 0
    for words in ("server server-1 died", "in memory alone", "durability: journal", "checkpoint:"):
        assert words in run.output(), f"'{words}' is not said:\n{run.output()[-2000:]}"


def status_tells_the_newest_and_why_the_last_failed(space):
    """Name, age and size of the newest; a file in the folder's place is why those that follow fail."""
    train = synth(space / "train.tsv", longer(150000), 27)
    run = Run(job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 400, "checkpoint.every_batches": 200}), space / "run", 2, 1)
    started(run)

    def told(form, seconds=60):
        end = time.monotonic() + PATIENCE * seconds
        while not re.search(form, said := subprocess.run([SHOAL, "status", "--run-dir", run.dir], capture_output=True, text=True, timeout=60, check=True).stdout):
            still_going(run)
            assert time.monotonic() < end, said
            time.sleep(0.05)

    told(r"\n  checkpoint \d{6}: \d s old, \d+\.\d [kMG]B\n")
    (run.dir / "checkpoints").rename(run.dir / "away")
    (run.dir / "checkpoints").write_text("no folder")
    told(r"\n  checkpoints that failed: [1-9]\d*, the last: .*checkpoints")
    got = json.loads(subprocess.run([SHOAL, "status", "--run-dir", run.dir, "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)
    assert got["checkpoint"]["age_seconds"] < 60 and got["checkpoint"]["bytes"] > 0 and got["checkpoints_failed"] > 0 and got["checkpoint_failure"], got
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def one_that_is_read_is_not_removed(space):
    """keep: 1, and an export of an old one that is stopped in its midst; verify and diff hold it likewise (test_folder)."""
    train = synth(space / "train.tsv", longer(150000), 27)
    run = Run(job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 40, "checkpoint.every_batches": 200, "checkpoint.keep": 1}), space / "run", 2, 1)
    started(run)
    folder = run.dir / "checkpoints"
    reader = None
    while reader is None:
        names = [n for n in entries(folder) if n.isdigit()]
        still_going(run)
        if not names:
            time.sleep(0.01)
            continue
        reader = subprocess.Popen([SHOAL, "export", folder / names[-1], "emb", "--out", space / f"emb-{names[-1]}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while reader.poll() is None and not list(space.path.glob("emb-*.tmp")):
            time.sleep(0.0005)
        reader.send_signal(signal.SIGSTOP)
        if reader.poll() is not None:  # it was pruned first, or is through
            reader = None
    until(run, "a newer one", lambda: [n for n in entries(folder) if n > names[-1] and n.isdigit()])
    time.sleep(2)
    kept = entries(folder)
    reader.send_signal(signal.SIGCONT)
    said = reader.communicate(timeout=PATIENCE * 60)[0]
    still_going(run)
    assert names[-1] in kept and reader.returncode == 0, (names, kept, said)
    until(run, "the old one to go", lambda: names[-1] not in entries(folder))
    stop(run)


def within(seconds, what, condition):
    end = time.monotonic() + PATIENCE * seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.002)


def is_read(folder):
    with open(folder / "manifest.json", encoding="utf-8") as manifest:
        try:
            fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def remove(run, name):
    return subprocess.Popen([SHOAL, "checkpoint", "remove", name, "--run-dir", run.dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def removed_by_an_operator(space):
    """Old ones go, the newest of a running job stays; one that is exported or scored by is waited for, and the reader ends well."""
    train = synth(space / "train.tsv", longer(100000), 27)
    run = Run(job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 400}), space / "run", 2, 1)
    started(run)
    folder = run.dir / "checkpoints"
    for name in ("one", "two", "three", "four"):
        create(run, name)
    said = shoal("remove", "one", "--run-dir", run.dir)
    assert said == f"{folder / 'one'} is removed\n" and entries(folder) == ["four", "three", "two"], said
    said = shoal("remove", "four", "--run-dir", run.dir, status=77)
    assert "the newest of job" in said and "shoal checkpoint create" in said, said
    assert f"shoal checkpoint list {folder}" in shoal("remove", "one", "--run-dir", run.dir, status=66)
    for name in ("../two", str(folder / "two"), ".."):
        assert "the name alone" in shoal("remove", name, "--run-dir", run.dir, status=64)
    assert entries(folder) == ["four", "three", "two"]

    # an export that stands still: the command says what it waits for
    reader = subprocess.Popen([SHOAL, "export", folder / "two", "emb", "--out", space / "emb"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    within(30, "the export to read", lambda: is_read(folder / "two"))
    reader.send_signal(signal.SIGSTOP)
    assert reader.poll() is None and is_read(folder / "two"), "it is through already"
    removing = remove(run, "two")
    line = removing.stderr.readline()
    advice = re.search(r"`(fuser -v \S+)`", line)
    assert "waits" in line and "checkpoint two is being read" in line and advice and removing.poll() is None and "two" in entries(folder), line
    if shutil.which("fuser"): # as is advised
        assert re.search(rf"\b{reader.pid}\b", subprocess.run(advice[1].split(), capture_output=True, text=True, check=False).stdout)
    reader.send_signal(signal.SIGCONT)
    said = reader.communicate(timeout=60)[0]
    assert reader.returncode == 0, said
    assert removing.wait(60) == 0 and entries(folder) == ["four", "three"], removing.stderr.read()

    # a cluster that loads it to score
    reader = subprocess.Popen([SHOAL, "predict", "--from", folder / "three", "--in", train, "--out", space / "scores.csv"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    within(30, "predict to read", lambda: is_read(folder / "three"))
    removing = remove(run, "three")
    said = reader.communicate(timeout=120)[0]
    assert reader.returncode == 0, said
    assert removing.wait(60) == 0 and entries(folder) == ["four"], removing.stderr.read()
    assert len((space / "scores.csv").read_text().splitlines()) > 1000

    # kill -9 while a large one goes: the next coordinator has the rest of it
    create(run, "five")
    for i in range(longer(6000)):
        (folder / "four" / "part-0000" / f"more-{i}").touch()
    [coordinator] = run.children("coordinator")
    shoal("remove", "four", "--run-dir", run.dir)
    os.kill(coordinator, signal.SIGKILL)
    if entries(folder) == ["five"]:
        raise TooShort("all of it had gone before the kill")
    assert entries(folder) == ["five", "four.gone.tmp"], entries(folder)
    within(60, "the rest to be swept", lambda: entries(folder) == ["five"])
    assert "the newest of job" in shoal("remove", "five", "--run-dir", run.dir, status=77)

    still_going(run)
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def removed_of_a_run_that_has_ended(space):
    """Its newest goes, too: nothing goes back to it; the run goes on being read."""
    train = synth(space / "train.tsv", 4000, 27)
    job = job_file(space / "job.yaml", train, **{**PROBE, "train.epochs": 1, "checkpoint.at_end": True})
    report = run_job(job, space / "run", 1, 1)
    assert report["checkpoints_made"] == 1 and entries(space / "run" / "checkpoints") == ["000001"]
    shoal("create", "--run-dir", space / "run")
    for name in ("000002", "000001"):
        assert shoal("remove", name, "--run-dir", space / "run") == f"{space / 'run' / 'checkpoints' / name} is removed\n"
    assert entries(space / "run" / "checkpoints") == []
    assert "000003" in shoal("create", "--run-dir", space / "run"), "a number is given again"


def create_says_that_the_coordinator_is_gone(space):
    """A frozen coordinator sends no answer, like one that has ended; the command must not wait for it for ever."""
    run = Run(job_file(space / "job.yaml", synth(space / "train.tsv", 20000, 27), **{**PROBE, "train.epochs": longer(100)}), space / "run", 1, 1)
    started(run)
    still_going(run)
    asking = subprocess.Popen([SHOAL, "checkpoint", "create", "--run-dir", run.dir], stderr=subprocess.PIPE, text=True)
    run.signal("coordinator", signal.SIGSTOP)
    try:
        text = asking.communicate(timeout=PATIENCE * 40)[1]
        assert asking.returncode in (0, 69), (asking.returncode, text)  # 0: it was made before
        if asking.returncode == 0:
            text = shoal("create", "--run-dir", run.dir, status=69)
        assert "has it stopped?" in text, text
    finally:
        stop(run)


if __name__ == "__main__":
    main([create_says_that_the_coordinator_is_gone, probe_counts_are_exact_on_one_two_and_three_servers, bsp_goes_on_bit_for_bit_on_the_same_servers,
          bsp_goes_on_bit_for_bit_on_other_servers, lanes_of_a_checkpoint_under_ssp, lanes_of_a_checkpoint_under_bsp, killed_while_one_is_made_nothing_half_is_left, changed_bit_is_found_and_not_restored,
          other_job_and_other_data_are_refused, commands_answer_for_people_and_programs, server_killed_in_memory_sends_the_job_back,
          server_killed_in_memory_without_a_checkpoint_ends_the_job, one_that_is_read_is_not_removed, removed_by_an_operator, removed_of_a_run_that_has_ended, status_tells_the_newest_and_why_the_last_failed])
