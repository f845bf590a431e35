#!/usr/bin/env python3
"""test_newcomer: what somebody meets who has only the manual: every word that is printed can be typed, every wrong one is told by name."""
from lib import *


def plain_run(job, run_dir, *words, stdin=None):
    run = Run(job, run_dir, extra=words, stdin=stdin)
    assert run.wait() == 0, run.output()[-2000:]
    return run


def standard_input_may_be_set(space):
    train = synth(space / "train.tsv", 3000, 1)
    with open(train) as rows:
        run = plain_run(job_file(space / "job.yaml", "nowhere.tsv"), space / "run", "--set", "data.train=-", stdin=rows)
    assert run.report()["examples"] == 3000


def commands_to_try_next_run_as_they_stand(space):
    """From the folder where the run was started, with blanks in every path, and with what the run was given."""
    home = space / "a folder"
    home.mkdir()
    synth(home / "train it's.tsv", 3000, 1)
    job_file(home / "my job.yaml", "nowhere.tsv")
    words = [str(SHOAL), "local", "my job.yaml", "--run-dir", "first run", "--set", "data.train=train it's.tsv", "--set", "data.valid=[train it's.tsv]",
             "--set", "model.hidden=[8]", "--server-set", "disk_free=1M"]
    first = subprocess.run(words, cwd=home, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr
    lines = first.stdout[first.stdout.index("try next"):].removeprefix("try next").splitlines()
    commands = [line.strip().split("     ")[0] for line in lines if line.strip()]
    assert len(commands) == 3, lines
    for command in commands:
        got = subprocess.run(command, shell=True, cwd=home, capture_output=True, text=True)
        assert got.returncode == 0, (command, got.stdout[-1000:], got.stderr[-1000:])
    runs = [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/report.json"))]
    assert sorted((r["consistency"], r["servers"], r["workers"]) for r in runs) == [("bsp", 1, 1), ("ssp", 2, 2)], runs
    assert all(r["examples"] == 3000 and r["valid"] for r in runs)


def inputs_are_looked_at_before_anything_starts(space):
    """No daemon, no run folder: the sentence alone, as soon as it is known."""
    train = synth(space / "train.tsv", 100, 1)
    (space / "day.csv").write_text("click,site\n1,a\n0,b\n")
    (space / "folder").mkdir()
    job = job_file(space / "job.yaml", train)
    csv = ["data.format=csv", f"data.train={space / 'day.csv'}", "data.label=click"]
    for status, says, sets in ((66, "data.train: nowhere.tsv: No such file", ["data.train=nowhere.tsv"]),
                               (66, "data.valid: nowhere.tsv: No such file", ["data.valid=nowhere.tsv"]),
                               (66, "data.test: no file matches nothere*.tsv", [f"data.test=[{train}, nothere*.tsv]"]),
                               (66, "folder is a folder; name its files", [f"data.train={space / 'folder'}"]),
                               (66, "folder is a folder; name its files", [f"data.valid={space / 'folder'}"]),
                               (78, 'features.fields names column "sit"', [*csv, "features.fields=[sit]"])):
        run = Run(job, space / "run", extra=[word for key in sets for word in ("--set", key)])
        begin = time.monotonic()
        assert run.wait() == status, (sets, run.output())
        said = run.output().strip()
        assert says in said and "\n" not in said, said
        assert not run.dir.exists() and time.monotonic() - begin < 5


def a_disk_that_is_too_full_is_said_and_ends_the_run(space):
    train = synth(space / "train.tsv", 3000, 1)
    job = job_file(space / "job.yaml", train, **{"coordinator.lease": "500ms"})
    run = Run(job, space / "run", extra=["--server-set", "disk_free=1000T"])
    begin = time.monotonic()
    assert run.wait(120) == 69, run.output()
    text = run.output()
    assert text.count("waits for disk: server-0 takes no pushes") >= 2, text  # while it lasts
    assert "server-0 has taken no pushes for 30 s" in text and "disk_free=1G" in text, text
    assert 25 < time.monotonic() - begin < 60, time.monotonic() - begin
    report = run_job(job, space / "run", extra=["--server-set", "disk_free=1M"])
    assert report["examples"] == 3000


def a_disk_that_gets_room_again_is_told_in_the_report(space):
    train = synth(space / "train.tsv", 3000, 1)
    with small_disk(space, "600m") as disk:
        with open(disk / "filler", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 350 << 20)
        run = Run(job_file(space / "job.yaml", train), disk / "run", extra=["--server-set", "disk_free=400M"])
        begin = time.monotonic()
        while "waits for disk: server-0 takes no pushes" not in run.output():
            assert run.running() and time.monotonic() - begin < 15, run.output()
            time.sleep(0.1)
        (disk / "filler").unlink()
        assert run.wait(120) == 0, run.output()
        report, page = run.report(), (disk / "run/report.html").read_text()
        assert report["examples"] == 3000 and 2.5 < report["disk_short_seconds"] < time.monotonic() - begin + 1, report
        assert "too little was free" in run.output().split("note", 1)[1] and "too little was free" in page, run.output()
    calm = run_job(job_file(space / "job.yaml", train), space / "calm", extra=["--server-set", "disk_free=1M"])
    assert calm["disk_short_seconds"] == 0 and "too little was free" not in str(calm["notes"])


def a_server_that_does_not_answer_is_told_by_name(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{"train.epochs": 20000, "coordinator.lease": "1s"})
    run = Run(job, space / "run")

    def look(verb):
        return subprocess.run([SHOAL, verb, "--run-dir", str(run.dir)], capture_output=True, text=True)
    end = time.monotonic() + 30
    while "  ready" not in look("status").stdout or ", 0 a second" in look("status").stdout:
        assert time.monotonic() < end and run.running(), look("status").stdout
        time.sleep(0.5)
    shown = look("status").stdout
    assert float(shown.split("memory of the process ")[1].split(" MB")[0]) < 1000, shown
    strike(run, "server-0", signal.SIGSTOP)
    time.sleep(4)
    shown = look("status").stdout
    assert "not heard for" in shown and "  ready" not in shown and ", 0 a second" in shown, shown
    begin = time.monotonic()
    got = look("digest")
    assert got.returncode == 69 and "shard 0 at ipc://" in got.stderr and time.monotonic() - begin < 20, (got, time.monotonic() - begin)
    strike(run, "server-0", signal.SIGCONT)
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def a_run_folder_is_of_one_job(space):
    """One that was broken off goes on with the same line; with another nothing of it is touched."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 30000 * longer(1), 1), **{"train.epochs": 4})
    whole = run_job(job_file(space / "whole.yaml", space / "train.tsv", **{"train.epochs": 4, "train.consistency": "bsp"}), space / "whole")
    extra = ["--set", "train.consistency=bsp"]
    run = Run(job, space / "run", 1, 1, extra)
    while run.running() and "epoch" not in run.output():
        time.sleep(0.02)
    still_going(run)
    run.process.terminate()
    run.process.wait(60)
    kept = (space / "run/job.yaml").read_bytes()
    other = Run(job, space / "run", 1, 1, ["--set", "train.lanes=3"])
    assert other.wait(60) == 73 and "another job file or other --set" in other.output(), other.output()
    assert (space / "run/job.yaml").read_bytes() == kept
    assert digests(run_job(job, space / "run", 1, 1, extra)) == digests(whole)


if __name__ == "__main__":
    main([standard_input_may_be_set, commands_to_try_next_run_as_they_stand, inputs_are_looked_at_before_anything_starts,
          a_disk_that_is_too_full_is_said_and_ends_the_run, a_disk_that_gets_room_again_is_told_in_the_report,
          a_server_that_does_not_answer_is_told_by_name, a_run_folder_is_of_one_job])
