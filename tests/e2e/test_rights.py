#!/usr/bin/env python3
"""test_rights: run folders that cannot be written or read: what works without writing works, the rest is refused before any work, with advice that works."""
import fcntl
import re

from lib import *

NOBODY = 65534


def shoal(*words, inside=()):
    return subprocess.run([*map(str, inside), str(SHOAL), *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def good(*words, inside=()):
    got = shoal(*words, inside=inside)
    assert got.returncode == 0, (words, got)
    return got


def trained(space, name, **over):
    train = synth(space / "train.tsv", 2000, 1)
    job = job_file(space / "job.yaml", train, **over)
    run_job(job, space / name, 2)
    return space / name


def read_only(*folders):
    """Words before a command that sees these as mounts that are read only."""
    inside = "".join(f"mount --bind {f} {f} && mount -o remount,ro,bind {f} && " for f in folders)
    return ["unshare", "-m", "sh", "-c", inside + 'exec "$@"', "sh"]


def ways(run):
    """By each: words before a command, and what it is told is the cause."""
    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "a-w", run], check=True)
        yield (), "Permission denied"
        subprocess.run(["chmod", "-R", "u+w", run], check=True)
        return
    yield read_only(run), "Read-only file system"
    other = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    run.parent.chmod(0o755)
    if subprocess.run([*map(str, other), "test", "-x", SHOAL], check=False).returncode == 0:
        subprocess.run(["chmod", "-R", "a+rX", run], check=True)
        yield other, "Permission denied"


def files(run):
    return {str(p): p.stat().st_mtime_ns for p in sorted(run.rglob("*"))}


def place(space, inside):
    """A folder in which the command may write."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=space.path))
    if inside and inside[0] == "setpriv":
        os.chown(folder, NOBODY, NOBODY)
    return folder


def what_needs_no_writing_works_and_the_rest_is_refused(space):
    """Each said "cannot lock", some when daemons had started."""
    run = trained(space, "run", **{"checkpoint.at_end": True})
    log, checkpoint = space / "train.tsv", run / "checkpoints" / "000001"
    scores, rows, copied = space / "scores", space / "rows", 0
    good("predict", "--from", run, "--in", log, "--out", scores)
    good("export", run, "emb", "--format", "tsv", "--out", rows)
    key = next(line.split("\t")[0] for line in (rows / "emb.tsv").read_text().splitlines()[1:])
    digest, figures = good("digest", "--run-dir", run).stdout, json.loads(good("eval", "--from", run, "--in", log).stdout)
    for inside, why in ways(run):
        out, before = place(space, inside), files(run)
        got = shoal("checkpoint", "create", "--run-dir", run, inside=inside)
        assert got.returncode == 77 and "which this user cannot write" in got.stderr and "COPY" not in got.stderr, got
        got = shoal("report", run / "report.json", inside=inside)
        assert got.returncode == 73 and "--html FILE" in got.stderr, got
        good("report", run / "report.json", "--html", out / "page.html", inside=inside)
        for words in (["status", "--run-dir", run], ["checkpoint", "list", run / "checkpoints"], ["checkpoint", "verify", checkpoint]):
            good(*words, inside=inside)
        note = f"{run} cannot be written; the rows are those of the checkpoint of its end, {checkpoint}"
        got = good("digest", "--run-dir", run, inside=inside)
        assert note in got.stderr and got.stdout == digest, got
        for words in (["tables"], ["inspect", "emb", key]):
            got = good(words[0], "--run-dir", run, *words[1:], "--json", inside=inside)
            assert note in got.stderr and json.loads(got.stdout), got
        assert "has rows and no pushes" in shoal("blame", "emb", key, "--run-dir", run, inside=inside).stderr
        assert note in good("predict", "--from", run, "--in", log, "--out", out / "scores", inside=inside).stderr
        assert (out / "scores").read_bytes() == scores.read_bytes()
        assert note in good("export", run, "emb", "--format", "tsv", "--out", out / "rows", inside=inside).stderr
        assert (out / "rows/emb.tsv").read_bytes() == (rows / "emb.tsv").read_bytes()
        got = good("eval", "--from", run, "--in", log, inside=inside)
        assert note in got.stderr and json.loads(got.stdout)["auc"] == figures["auc"], (got, figures)
        good("export", checkpoint, "emb", "--out", out / "again", inside=inside)
        # as advised
        copied += 1
        copy = out / f"copy-{copied}"
        subprocess.run([*map(str, inside), "sh", "-c", f"cp -a {run} {copy} && chmod -R u+w {copy}"], check=True)
        assert good("digest", "--run-dir", copy, inside=inside).stdout == digest
        assert files(run) == before
    assert copied > 0


def one_folder_that_cannot_be_written_is_named(space):
    """Without a checkpoint there is a copy alone; daemons had started, and ended."""
    run = trained(space, "run")
    log, scores = space / "train.tsv", space / "scores"
    good("predict", "--from", run, "--in", log, "--out", scores)
    inner = run / "server-1" / "shard-0"
    for inside, why in ways(inner):
        inside = inside if inside[:1] != ["setpriv"] else read_only(inner)
        for words in (["digest", "--run-dir", run], ["predict", "--from", run, "--in", log, "--out", space / "x"], ["export", run, "emb", "--out", space / "y"]):
            got = shoal(*words, inside=inside)
            assert got.returncode == 77 and f"{inner} cannot be written (" in got.stderr and "COPY" in got.stderr, got
            assert "its checkpoint" not in got.stderr and "exit status" not in got.stderr, got
        copy = place(space, inside) / "copy"
        subprocess.run([*map(str, inside), "sh", "-c", f"cp -a {run} {copy} && chmod -R u+w {copy}"], check=True)
        good("predict", "--from", copy, "--in", log, "--out", copy / "scores", inside=inside)
        assert (copy / "scores").read_bytes() == scores.read_bytes()
        assert why


def a_run_that_is_in_use_is_not_to_be_copied_yet(space):
    """A copy of files that change is none."""
    run = trained(space, "run", **{"checkpoint.at_end": True})
    with open(run / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for inside, _ in ways(run):
            got = shoal("digest", "--run-dir", run, inside=inside)
            assert got.returncode == 73 and f"{run} is in use by another process: wait for its end; then copy it" in got.stderr, got
            got = shoal("predict", "--from", run, "--in", space / "train.tsv", "--out", place(space, inside) / "scores", inside=inside)
            assert got.returncode == 73 and "is in use by another process" in got.stderr, got


def a_run_that_may_not_be_read_is_no_missing_one(space):
    """It was said to be no folder of a run."""
    run = trained(space, "run")
    for inside, _ in ways(run):
        run.chmod(0 if os.geteuid() != 0 else 0o700)
        if inside[:1] != ["unshare"]:
            out = place(space, inside)
            for words in (["digest", "--run-dir", run], ["status", "--run-dir", run], ["predict", "--from", run, "--in", space / "train.tsv", "--out", out / "x"],
                          ["export", run, "emb", "--out", out / "y"], ["local", space / "job.yaml", "--start-from", run, "--run-dir", out / "z"]):
                got = shoal(*words, inside=inside)
                assert got.returncode == 77 and re.search(f"{run} may not be read by this user: run this as its owner", got.stderr), got
        run.chmod(0o755)


if __name__ == "__main__":
    main([what_needs_no_writing_works_and_the_rest_is_refused, one_folder_that_cannot_be_written_is_named, a_run_that_is_in_use_is_not_to_be_copied_yet,
          a_run_that_may_not_be_read_is_no_missing_one])
