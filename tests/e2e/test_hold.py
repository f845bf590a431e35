#!/usr/bin/env python3
"""test_hold: one command at a time in a folder: the next one waits for the end of the one before, or is refused in words and harms nothing."""
import fcntl
import gzip

from lib import *

BREAKS = int(os.environ.get("SHOAL_KILLS", "8"))


@contextlib.contextmanager
def held(*folders):
    """Another process has them."""
    with contextlib.ExitStack() as all_of_them:
        for folder in folders:
            lock = all_of_them.enter_context(open(pathlib.Path(folder) / "lock", "ab"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def shoal(*words, status=0):
    got = subprocess.run([str(SHOAL), *map(str, words)], capture_output=True, text=True, timeout=200, check=False)
    assert got.returncode == status, (words, got.returncode, got.stdout[-1000:], got.stderr[-2000:])
    return got.stdout if status == 0 else got.stderr


def broken_off(space, job, name="run"):
    """A run that was killed while it trained, and whose daemons have ended."""
    run = Run(job, space / name, 2)
    started(run)
    break_off(run)
    with held(*(run.dir / daemon for daemon in ("coordinator", "server-0", "server-1"))):
        return run


def who_starts_again_at_once_waits_for_what_still_ends(space):
    """The daemons of a run that was killed end after it: those with much memory some seconds later."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "train.epochs": longer(10)})
    calm = run_job(job, space / "calm", 2)
    first = Run(job, space / "run", 2)
    started(first)
    break_off(first)
    with held(*(space / "run" / name for name in ("coordinator", "server-0", "server-1"))):
        second = Run(job, space / "run", 2)
        until(second, "its daemons to wait", lambda: second.logs().count("waiting for its end") == 3)
        time.sleep(2)
        assert second.running(), second.output()
    assert second.wait() == 0, second.output()
    assert second.logs().count("waiting for its end") == 3 and "starting it again" not in second.output(), second.output()
    assert digests(second.report()) == digests(calm)


def who_is_told_to_end_while_it_waits_ends_well(space):
    """systemd showed it as failed."""
    for daemon, config in (("server", "name: s1\nlisten: ipc://{0}/s\ncoordinator: ipc://{0}/c\n"), ("coordinator", "listen: ipc://{0}/c\nshards: 1\n")):
        (space / daemon).mkdir()
        file = space / f"{daemon}.yaml"
        file.write_text(config.format(space) + f"data_dir: {space / daemon}\n", encoding="utf-8")
        with held(space / daemon):
            waits = subprocess.Popen([BIN / f"shoal-{daemon}", "--config", str(file)], stderr=subprocess.PIPE, text=True)
            said = [waits.stderr.readline()]
            while "waiting for its end" not in said[-1]:
                assert said[-1], said
                said.append(waits.stderr.readline())
            waits.terminate()
            assert waits.wait(60) == 0, said + waits.stderr.readlines()


def a_second_run_in_the_same_folder_is_refused_and_harms_nothing(space):
    """The first run restarts its daemons with files that the second one would have overwritten."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"train.consistency": "bsp", "train.epochs": longer(100)})
    run = Run(job, space / "run", 1)
    started(run)
    until(run, "the names in its job file", lambda: "\nnames: " in (space / "run/job.yaml").read_text())
    files = {p: p.read_bytes() for p in sorted((space / "run").glob("*.yaml"))}
    begun = time.monotonic()
    second = subprocess.run([SHOAL, "local", str(job), "--run-dir", str(space / "run"), "--servers", "2"], capture_output=True, text=True, timeout=100, check=False)
    still_going(run)
    assert second.returncode == 73 and "is in use by another shoal command" in second.stderr, (second.returncode, second.stderr)
    assert time.monotonic() - begun < PATIENCE * 10 and {p: p.read_bytes() for p in sorted((space / "run").glob("*.yaml"))} == files
    strike(run, "server-0")
    assert run.wait() == 0, run.output()


def a_look_at_a_run_that_starts_leaves_it_alone(space):
    """Not even one that would read its rows, were it over."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": longer(20)})
    run = broken_off(space, job)
    assert "is over and left no report" in shoal("status", "--run-dir", run.dir, status=69)
    for none in (space / "missing", space.path):  # nor is anything left in a folder that is no run's
        assert "nor that of a run of `shoal local` (no coordinator.yaml)" in shoal("status", "--run-dir", none, status=66)
        assert not (none / "lock").exists()
    with held(run.dir):
        for verb in (["status"], ["doctor", "--cluster"]):
            assert "does not answer yet: ask again" in shoal(*verb, "--run-dir", run.dir, status=69)
        assert "in use by another shoal command: wait" in shoal("digest", "--run-dir", run.dir, status=73)
    asked = subprocess.Popen([SHOAL, "digest", "--run-dir", run.dir], stdout=subprocess.PIPE, text=True)
    with held(run.dir / "server-1"):
        time.sleep(1)
        assert asked.poll() is None, "a server that still ends is waited for"
    assert asked.communicate(timeout=60)[0] and asked.returncode == 0


def a_look_makes_no_rows_where_none_were_kept(space):
    """The servers of a run in memory that was broken off start after it."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"durability": "memory", "train.epochs": longer(20)})
    run = broken_off(space, job)
    for verb in ("digest", "tables"):
        assert "kept nothing (durability: memory)" in shoal(verb, "--run-dir", run.dir, status=78)
    assert not list(run.dir.glob("server-*/shard-*/rows"))
    again = Run(job, run.dir, 2)
    assert again.wait() == 0, again.output()
    assert "the job begins anew" in again.output()
    assert "holds rows of a durable shard" not in again.logs("server-*") + again.output() and again.logs("server-0").count("1 shards ready") == 2


def a_run_in_memory_that_was_broken_off_goes_back_to_its_checkpoint(space):
    """Once it had gone back it was told that its job is running, for ever."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"durability": "memory", "train.epochs": longer(20), "checkpoint.every_batches": 10})
    run = Run(job, space / "run", 2)
    until(run, "a checkpoint", lambda: numbered(run.dir / "checkpoints"))
    for _ in range(2):
        break_off(run)
        run = Run(job, space / "run", 2)
        started(run)  # a return that is broken off itself is no second one
    assert run.wait() == 0, run.output()
    assert run.output().count("goes on from its newest checkpoint") == 1 and "begins anew" not in run.output(), run.output()
    assert run.report()["went_back"] == 2 and run.report()["examples"] == 4000 * longer(20)


def a_run_in_memory_goes_back_whenever_it_is_broken_off(space):
    """Also where its checkpoint gets its name at that moment, and while it goes back: it began anew. More often than a job goes back in vain by itself."""
    train, dice = synth(space / "train.tsv", 4000, 1), random.Random(int(os.environ.get("SHOAL_SEED", "3")))
    job = job_file(space / "job.yaml", train, **{"durability": "memory", "train.epochs": longer(40), "checkpoint.every_batches": 10})
    run = Run(job, space / "run", 2)
    until(run, "a checkpoint", lambda: numbered(run.dir / "checkpoints"), pause=0.001)
    for _ in range(BREAKS):
        break_off(run)
        assert "begins anew" not in run.output(), run.output()
        run = Run(job, space / "run", 2)
        time.sleep(dice.uniform(0, 0.8))
        still_going(run)
    assert run.wait() == 0, run.output()
    assert "goes on from its newest checkpoint" in run.output() and "begins anew" not in run.output(), run.output()
    assert run.report()["examples"] == 4000 * longer(40)
    print(f"      broken off {BREAKS} times, went back {run.report()['went_back']} times", flush=True)


def a_log_that_was_replaced_is_not_learnt_beside_the_other(space):
    """A later worker made an index of its own, and a part of each log went into one model: exit 0."""
    train, other = synth(space / "train.tsv", 4000, 1), synth(space / "other.tsv", 4000, 2)
    job = job_file(space / "job.yaml", train, **{"train.epochs": longer(40)})
    run = Run(job, space / "run")
    started(run)
    assert break_off(run, signal.SIGTERM) == 69
    train.rename(space / "right.tsv")
    other.rename(train)
    wrong = Run(job, space / "run")
    assert wrong.wait(60) == 78 and "all workers must see the same files" in wrong.output(), wrong.output()
    (space / "right.tsv").rename(train)
    again = Run(job, space / "run")
    assert again.wait() == 0, again.output()
    assert again.report()["examples"] == 4000 * longer(40)


def a_worker_that_has_no_cache_any_more_leaves_the_job_to_the_other(space):
    """A cache that one worker cannot make used to end the job for all."""
    packed, cache = space / "train.tsv.gz", space / "cache"
    packed.write_bytes(gzip.compress(synth(space / "train.tsv", 4000, 1).read_bytes()))
    job = job_file(space / "job.yaml", packed, **{"train.epochs": longer(100), "coordinator.lease": "2s", "data.cache": str(cache)})
    run = Run(job, space / "run", 1, 2)
    started(run)
    shutil.rmtree(cache)
    cache.write_text("", encoding="utf-8")
    assert run.signal("worker-1")
    assert run.wait() == 0, run.output()
    assert "going on without it" in run.output(), run.output()
    assert run.report()["examples"] == 4000 * longer(100)


def a_run_that_ended_without_its_page_gets_it(space):
    """Killed behind the job's end it was an earlier run, and status named a page that was not there."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train)
    was = run_job(job, space / "run")
    (space / "run/report.html").unlink()
    assert "report.html" not in shoal("status", "--run-dir", space / "run")
    assert digests(run_job(job, space / "run")) == digests(was)
    assert (space / "run/report.html").stat().st_size > 10000 and "report.html" in shoal("status", "--run-dir", space / "run")
    again = Run(job, space / "run")
    assert again.wait() == 73 and "which has ended" in again.output(), again.output()


def a_run_goes_on_with_what_it_began_with(space):
    """The other run has made another checkpoint since, or is gone: the same line was told that its job is running."""
    train = synth(space / "train.tsv", 4000, 1)
    run_job(job_file(space / "a.yaml", train, **{"checkpoint.at_end": True}), space / "a")
    job = job_file(space / "job.yaml", train, **{"train.epochs": longer(40)})
    run = Run(job, space / "run", extra=["--start-from", space / "a"])
    started(run)
    break_off(run)
    without = Run(job, space / "run")
    assert without.wait() == 73 and f"was begun with --start-from {space / 'a'}: give the same" in without.output(), without.output()
    (space / "a").rename(space / "gone")
    again = Run(job, space / "run", extra=["--start-from", space / "a"])
    assert again.wait() == 0, again.output()


def stop_job(run):
    """Has the coordinator of a run end its job, and itself."""
    still_going(run)
    ends = [path for path in run.sockets() if path.endswith("/coordinator")]
    got = subprocess.run([str(SHOAL), "stop", "--coordinator", f"ipc://{ends[0] if ends else '/gone'}"], capture_output=True, text=True, timeout=200, check=False)
    stopped_early(run)
    assert got.returncode == 0, got


def who_cannot_go_on_is_told_what_can(space):
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": longer(100), "checkpoint.every_batches": 10})
    run = Run(job, space / "run", 2)
    until(run, "a checkpoint", lambda: numbered(run.dir / "checkpoints"))
    stop_job(run)
    for _ in range(2):
        again = Run(job, space / "run", 2)
        assert again.wait(60) == 73 and "has failed or was stopped" in again.output(), again.output()
    newest = numbered(space / "run/checkpoints")[-1]
    assert f"name another --run-dir to begin anew, with --resume {newest} to go on" in again.output(), again.output()
    onward = Run(job, space / "on", 2, extra=["--resume", newest])
    started(onward)
    assert break_off(onward, signal.SIGTERM) == 69
    other = Run(job, space / "on", 1, extra=["--resume", newest])
    assert other.wait(60) == 73 and "was begun with --servers 2 --shards 1: say so" in other.output(), other.output()
    without = Run(job, space / "on", 2)
    assert without.wait(60) == 73 and f"was begun with --resume {newest}: give the same" in without.output(), without.output()
    (space / "on").rename(space / "moved")
    moved = Run(job, space / "moved", 2, extra=["--resume", newest])
    assert moved.wait(60) == 73 and "move it back" in moved.output(), moved.output()


def what_will_not_come_is_not_waited_for(space):
    """A server whose folder was emptied is refused, one that --no-restart leaves dead is gone: each kept the next run waiting without end."""
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": longer(100)})
    run = Run(job, space / "run")
    started(run)
    stop_job(run)
    dead = Run(job, space / "run", extra=["--no-restart", "--server-set", "nosuch=1"])
    assert dead.wait(60) == 69 and "has ended and --no-restart leaves it so" in dead.output(), dead.output()
    shutil.rmtree(run.dir / "server-0")
    emptied = Run(job, space / "run")
    assert emptied.wait(60) == 78 and "it was not taken: " in emptied.output() and "empty folder" in emptied.output(), emptied.output()


def a_second_run_of_a_job_with_the_same_checkpoints_is_refused(space):
    """Each removed the other's: the newest `keep` of the job's name stayed, whosever they were."""
    train = synth(space / "train.tsv", 4000, 1)
    over = {"checkpoint.dir": str(space / "kept"), "checkpoint.every_batches": 10, "checkpoint.keep": 1}
    job = job_file(space / "job.yaml", train, **{**over, "train.epochs": longer(100)})
    run = Run(job, space / "first")
    started(run)
    second = Run(job, space / "second")
    refused = second.wait()
    still_going(run)
    assert refused == 73 and "another coordinator trains a job named e2e with checkpoints in" in second.output(), second.output()
    assert run.wait() == 0, run.output()
    # at_end: on a slow disk a short job may be over before one of its checkpoints by batches is whole
    short = job_file(space / "short.yaml", train, **{**over, "train.epochs": 2, "checkpoint.at_end": True})
    assert run_job(short, space / "third")["checkpoints_made"] > 0
    assert len(list((space / "kept").glob("0*"))) == 1


def many_that_read_an_ended_run_take_turns(space):
    train = synth(space / "train.tsv", 4000, 1)
    job = job_file(space / "job.yaml", train)
    run_job(job, space / "run", 2)
    words = [[str(SHOAL), "predict", "--from", str(space / "run"), "--in", str(train)], [str(SHOAL), "digest", "--run-dir", str(space / "run")]] * 2
    asked = [subprocess.Popen(w, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for w in words]
    said = [(one.communicate(timeout=150), one.returncode) for one in asked]
    assert all(code == 0 for _, code in said), said
    assert said[0][0][0] == said[2][0][0] and len(said[0][0][0].splitlines()) == 4001


def a_second_sweep_in_the_same_folder_is_refused_and_harms_nothing(space):
    """It took the first one's runs for what a killed one has left, and removed them."""
    train, valid = synth(space / "train.tsv", 4000, 1), synth(space / "valid.tsv", 1000, 2)
    job = job_file(space / "job.yaml", train, **{"data.valid": str(valid), "train.epochs": longer(100)})
    words = [str(SHOAL), "sweep", str(job), "--set", "tables[0].dim=4,8", "--dir", str(space / "sweep"), "--at-once", "1"]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list(space.path.glob("sweep/*/server-0/shard-0")) and first.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    second = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    if first.poll() is not None:
        too_soon(first.returncode, "the first sweep was over: " + "".join(first.communicate()))
    assert second.returncode == 73 and "in use by another shoal command" in second.stderr, second
    assert first.communicate(timeout=200)[0] and first.returncode == 0
    assert json.loads((space / "sweep/sweep.json").read_text())["variants"][1]["auc"] > 0


def a_second_bench_in_the_same_folder_is_refused(space):
    (space / "bench").mkdir()
    with held(space / "bench"):
        assert "in use by another shoal command" in shoal("bench", "--only", "train", "--train-rows", 1000, "--dir", space / "bench", status=73)


def runs_begun_in_one_second_have_folders_of_their_own(space):
    train = synth(space / "train.tsv", 2000, 1)
    job = job_file(space / "job.yaml", train)
    runs = [subprocess.Popen([SHOAL.resolve(), "local", job], cwd=space.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [(run.communicate(timeout=100), run.returncode) for run in runs]
    assert all(code == 0 for _, code in said), said
    assert len(list(space.path.glob("runs/*/report.json"))) == 4


def two_that_make_one_log_leave_a_whole_one(space):
    out = space / "log.tsv"
    words = [str(SHOAL), "synth", "--rows", "20000", "--out", str(out)]
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [(one.communicate(timeout=100)[1], one.returncode) for one in both]
    assert all(code == 0 for _, code in said), said
    assert len(out.read_text().splitlines()) == 20000 and [p.name for p in space.path.glob("log.tsv*.part")] == []


if __name__ == "__main__":
    main([who_starts_again_at_once_waits_for_what_still_ends, who_is_told_to_end_while_it_waits_ends_well, a_second_run_in_the_same_folder_is_refused_and_harms_nothing,
          a_look_at_a_run_that_starts_leaves_it_alone, a_look_makes_no_rows_where_none_were_kept,
          a_run_in_memory_that_was_broken_off_goes_back_to_its_checkpoint, a_run_in_memory_goes_back_whenever_it_is_broken_off, what_will_not_come_is_not_waited_for,
          a_log_that_was_replaced_is_not_learnt_beside_the_other, a_worker_that_has_no_cache_any_more_leaves_the_job_to_the_other, a_run_that_ended_without_its_page_gets_it, a_run_goes_on_with_what_it_began_with, who_cannot_go_on_is_told_what_can,
          a_second_run_of_a_job_with_the_same_checkpoints_is_refused, many_that_read_an_ended_run_take_turns,
          a_second_sweep_in_the_same_folder_is_refused_and_harms_nothing, a_second_bench_in_the_same_folder_is_refused,
          runs_begun_in_one_second_have_folders_of_their_own, two_that_make_one_log_leave_a_whole_one])
