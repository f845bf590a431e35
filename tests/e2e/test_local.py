#!/usr/bin/env python3
"""test_local: what `shoal local` leaves open to others, and where it may run."""
import re

from lib import *


def long_run(space, name, **over):
    return Run(job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{"train.epochs": longer(20000), **over}), space / name)


def stop(run):
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def nobody_else_gets_in(space):
    """Sockets in a folder of one's own, no port; what is written is this user's alone."""
    run = long_run(space, "run")
    until(run, "the job to train", lambda: len(run.sockets()) == 2 and "train" in run.output())
    folder = pathlib.Path(run.sockets()[0]).parent
    pids = [str(pid) for name in ("coordinator", "server-0", "worker-0") for pid in run.children(name)]
    own = {os.readlink(fd) for pid in pids for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if os.path.islink(fd)}
    tcp = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    assert not [line for line in tcp if line[3] == "0A" and f"socket:[{line[9]}]" in own], tcp  # 0A: listening
    loose = [f"{path} {oct(path.stat().st_mode)}" for path in [folder, *folder.rglob("*"), run.dir, *run.dir.rglob("*")]
             if path.exists() and path.stat().st_mode & 0o077 and not path.is_socket()]
    assert not loose, loose
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as open_to_all:  # the tree may lie in a folder that other users cannot read
            program = pathlib.Path(shutil.copy(SHOAL, open_to_all))
            program.parent.chmod(0o755)
            got = subprocess.run([program, "status", "--coordinator", f"ipc://{folder}/coordinator"], user="nobody", capture_output=True, text=True)
        assert got.returncode == 77, (got.returncode, got.stderr)
    got = subprocess.run([SHOAL, "status", "--run-dir", str(run.dir)], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    stop(run)
    assert not folder.exists(), "the sockets' folder is left behind"


def a_deep_run_folder_works(space):
    deep = space / "/".join(["a-folder-of-thirty-characters-"] * 9)
    deep.parent.mkdir(parents=True)
    assert len(str(deep)) > 270
    run = Run(job_file(space / "job.yaml", synth(space / "train.tsv", 3000, 1)), deep)
    assert run.wait() == 0, run.output()[-2000:]
    assert run.report()["examples"] == 3000


def a_run_folder_may_have_any_name(space):
    """Names that YAML or a pattern would read in another way: each run keeps to its own folder, also when it is asked after its end."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 1500, 1), **{"data.test": str(space / "train.tsv"), "checkpoint.at_end": True})
    names, above = ("a #1", "a #2", "c: d", 'q"x', "b\\x", """[0]* it's 'q"\\ # {x}: y"""), space / "r"
    above.mkdir()

    def said(*words):
        got = subprocess.run([str(SHOAL), *map(str, words)], capture_output=True, text=True, timeout=100, env={**os.environ, "TMPDIR": str(above / names[-1])})
        assert got.returncode == 0, (words, got.returncode, got.stderr)
        return got.stdout
    for name in names:
        report = run_job(job, above / name)
        assert (above / name / "checkpoints").is_dir() and (above / name / "cache").is_dir(), (name, list(above.iterdir()))
        shown = said("digest", "--run-dir", above / name)
        assert all(t["digest"] in shown for t in report["tables"]), (name, shown)
    said("checkpoint", "create", "mine", "--run-dir", above / name)
    for place in (above / name, above / name / "checkpoints/mine"):
        assert json.loads(said("eval", "--from", place))["examples"] == 1500
    said("local", job, "--run-dir", above / f"{name}-on", "--resume", above / name)
    assert {p.name for p in above.iterdir() if p.is_dir()} == {*names, f"{name}-on"}


def the_runtime_folder_is_used_where_it_is_short(space):
    for name, used in (("r", True), ("r" * 80, False)):
        own = pathlib.Path("/tmp") / f"{name}{random.randrange(10**6)}"
        own.mkdir(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(own)
        try:
            run = long_run(space, f"run-{used}")
            until(run, "the sockets", lambda: len(run.sockets()) == 2)
            assert (own in pathlib.Path(run.sockets()[0]).parents) == used, run.sockets()
            stop(run)
            own.rmdir()
        finally:
            del os.environ["XDG_RUNTIME_DIR"]


def servers_share_the_machines_memory(space):
    """Each would else take its part of the whole, whatever there is beside it."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 2000))
    told = {}
    for count in (1, 2, 3):
        run_job(job, space / f"run-{count}", count)
        told[count] = [int(line.split()[1]) for i in range(count) for line in (space / f"run-{count}/server-{i}.yaml").read_text().splitlines()
                       if line.startswith("memory: ")]
    assert told[1] == [] and len(told[2]) == 2 and len(told[3]) == 3, told
    assert abs(sum(told[2]) - sum(told[3])) <= 3 and sum(told[2]) < 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), told


def what_the_daemons_warned_of_is_told_at_the_end(space):
    """A job that ends with 0 gives no reason to look into logs: here checkpoints on the way find no room. With the daemon's name, and ten lines at most."""
    with small_disk(space, "40m") as disk:
        over = {"checkpoint.dir": str(disk / "kept"), "checkpoint.every_batches": 10, "train.epochs": longer(40)}
        run = Run(job_file(space / "job.yaml", synth(space / "train.tsv", 10000, 1), **over), space / "run")
        until(run, "a checkpoint", lambda: numbered(disk / "kept"))
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as f:
            while f.write(bytes(1 << 12)):
                pass
        assert run.wait() == 0, run.output()
    said = [line for line in run.output().splitlines() if line.startswith(("coordinator: ", "server-0: "))]
    # the step of a checkpoint that meets the full disk goes by the moment
    assert any(" is given up" in line or "no checkpoint could be begun" in line for line in said) and 0 < len(said) == len(set(said)) <= 10, run.output()
    assert not re.search("epoch [01]   0 examples", run.output()), run.output()


def a_job_whose_worker_refused_has_failed(space):
    """By its own fault: it does not go on, and what asks for its tables says why."""
    train = synth(space / "train.tsv", 500, 1)
    columns = [{"name": f"C{i}", "type": "skip"} for i in range(1, 27)]
    run = Run(job_file(space / "job.yaml", train, **{"model.kind": "dlrm", "data.columns": columns}), space / "run")
    assert run.wait() == 78 and "all numbers make one together" in run.output(), run.output()
    assert "all numbers make one together" in (space / "run/failed").read_text()
    got = subprocess.run([SHOAL, "predict", "--from", str(space / "run"), "--in", str(train), "--out", str(space / "scores.csv")], capture_output=True, text=True)
    assert got.returncode == 66 and "the job of the run in" in got.stderr and "failed (worker-0 cannot run" in got.stderr, got


if __name__ == "__main__":
    main([what_the_daemons_warned_of_is_told_at_the_end, a_job_whose_worker_refused_has_failed, nobody_else_gets_in, a_deep_run_folder_works, a_run_folder_may_have_any_name, the_runtime_folder_is_used_where_it_is_short, servers_share_the_machines_memory])
