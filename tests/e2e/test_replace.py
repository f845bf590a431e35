#!/usr/bin/env python3
"""test_replace: a server's disk is lost for good, without replicas, with real daemons. The commands are typed as the manual and the errors print them."""
import re

from fleet import *

# the probe model counts: a row that is lost or learnt twice changes the digest
KEYS = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}


def prepared(space, **more):
    train = synth(space / "train.tsv", 6000, 1)
    points = space / "points"
    points.mkdir(exist_ok=True)
    return job_file(space / "job.yaml", train, **KEYS, **{"train.epochs": longer(12), "train.batch": 64, "checkpoint.dir": str(points), **more}), points


def begun(fleet, job):
    """The job trains, and a checkpoint is made; returns the whole run's digests."""
    worker = fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
    assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
    training(fleet)
    got = shoal("checkpoint", "create", "here", "--coordinator", fleet.endpoint)
    if got.returncode != 0 or fleet.state().get("state") == "done":
        raise TooShort("train")
    return worker


def lost(fleet, who):
    """Its process is killed, its folder removed."""
    fleet.running[who].kill()
    fleet.running.pop(who).wait()
    if fleet.state().get("state") == "done":
        raise TooShort("train")
    shutil.rmtree(fleet.folder(who))


def ended(space, fleet, whole):
    within(120, "the job's end", lambda: fleet.state().get("state") in ("done", "failed"))
    assert fleet.state()["state"] == "done", fleet.told()
    within(15, "the report", lambda: (space / "report.json").exists())
    report = json.loads((space / "report.json").read_text())
    assert digests(report) == whole
    assert report["went_back"] == 1, report["went_back"]


def ordered(way, fleet):
    """The order is given; until the lease of the dead server is over, it says to ask again. Returns the batches and the examples that are lost."""
    got = shoal(*way.split(), "--coordinator", fleet.endpoint)
    who = way.split()[1]
    while got.returncode != 0:
        wait = re.search(rf"server {who} beats, .* ask again after (\d+) s", got.stderr)
        assert wait, got
        time.sleep(int(wait[1]))
        got = shoal(*way.split(), "--coordinator", fleet.endpoint)
    told = re.search(rf"takes the shards of {who} \(1 of {fleet.shards}\); the job goes on from the checkpoint; (\d+) batches after the checkpoint are lost "
                     r"\((\d+) examples", got.stdout)
    assert told and int(told[1]) * 64 >= int(told[2]), got.stdout
    return int(told[1]), int(told[2])


def an_empty_folder_takes_the_lost_shard(space):
    """Under its old name: the refusal of the empty folder names the command, and the other server's folder stays."""
    job, points = prepared(space)
    whole = digests(run_job(job, space / "whole"))
    with Fleet(space, "a").up() as fleet:
        begun(fleet, job)
        kept = (fleet.folder("s0") / "name").stat().st_ino
        lost(fleet, "s1")
        fleet.server("s1")
        told = fleet.refused("server s1 comes with an empty folder")
        way = re.search(r"shoal (replace s1 --from CHECKPOINT)", told)
        assert way, told
        ordered(way[1].replace("CHECKPOINT", str(points / "here")), fleet)
        ended(space, fleet, whole)
        fleet.fits()
        assert (fleet.folder("s0") / "name").stat().st_ino == kept


def another_server_takes_the_lost_shard(space):
    """A server of another name comes after the order. The coordinator dies in between. The old folder, which comes to light later, is refused."""
    job, points = prepared(space)
    whole = digests(run_job(job, space / "whole"))
    with Fleet(space, "a").up() as fleet:
        begun(fleet, job)
        fleet.running["s1"].kill()
        fleet.running.pop("s1").wait()
        fleet.folder("s1").rename(space / "old")
        ordered(f"replace s1 --from {points / 'here'}", fleet)
        fleet.running["coordinator"].kill()
        fleet.running.pop("coordinator").wait()
        fleet.coordinator()
        fleet.server("s2")
        ended(space, fleet, whole)
        fleet.fits()
        (space / "old").rename(fleet.folder("s1"))
        fleet.server("s1")
        fleet.refused("server s1 comes with the rows of shard")


def typed(line, **values):
    """Types a command as a text has it, with its words in capitals replaced."""
    return shoal(*[str(values.get(word, word)) for word in line.split()])


def lines(folder):
    return len((folder / "emb.tsv").read_text().splitlines()) - 1


def what_the_others_hold_is_kept(space):
    """Before the order the other server's rows are kept and exported, as the problems of the status tell. All that is written says what is missing."""
    job, points = prepared(space)
    whole = digests(run_job(job, space / "whole"))
    with Fleet(space, "a").up() as fleet:
        begun(fleet, job)
        lost(fleet, "s1")
        told = within(15, "the problem", lambda: re.search(r"shoal (replace s1 --from CHECKPOINT); .*: shoal (checkpoint create NAME --without s1)", fleet.told().stdout))
        refused = shoal("checkpoint", "create", "plain", "--coordinator", fleet.endpoint)
        assert refused.returncode == 69 and told[2] in refused.stderr, refused
        got = typed(f"{told[2]} --coordinator {fleet.endpoint}", NAME="half")
        shard = re.search(r"it lacks (shard \d \(server s1\)): (\d+) of 64 tablets of table emb", got.stdout)
        assert got.returncode == 0 and shard, got
        for look in (shoal("checkpoint", "list", points), shoal("checkpoint", "verify", points / "half")):
            assert look.returncode == 0 and f"no whole checkpoint: it lacks {shard[1]}" in look.stdout, look
        out = space / "half"
        refused = shoal("export", points / "half", "--format", "tsv", "--out", out)
        assert refused.returncode == 66 and shard[1] in refused.stderr and "--missing-ok" in refused.stderr and not out.exists(), refused
        refused = shoal("export", points / "half", "--since", points / "here", "--out", out, "--missing-ok")
        assert refused.returncode == 66 and "would count as erased" in refused.stderr and not out.exists(), refused
        refused = shoal("export", points / "here", "--since", points / "half", "--out", out, "--missing-ok")
        assert refused.returncode == 66 and "would count as new" in refused.stderr and not out.exists(), refused
        got = shoal("export", points / "half", "emb", "--format", "tsv", "--out", out, "--missing-ok")
        assert got.returncode == 0 and f"not all rows of emb: {shard[2]} of its 64 tablets are missing" in got.stdout and lines(out) > 0, got
        refused = shoal("replace", "s1", "--from", points / "half", "--coordinator", fleet.endpoint)
        assert refused.returncode == 78 and "no job goes on with it" in refused.stderr, refused
        ordered(told[1].replace("CHECKPOINT", str(points / "here")), fleet)
        fleet.server("s2")
        ended(space, fleet, whole)
    began = run_job(job, space / "began", servers=2, extra=["--start-from", points / "half", "--set", "train.epochs=1"])
    told = [note for note in began["notes"] if f"table emb: {shard[2]} of 64 tablets are not in the checkpoint" in note]
    assert told, began["notes"]
    shutil.move(space / "began" / "server-1", space / "away")
    refused = shoal("export", space / "began", "emb", "--format", "tsv", "--out", space / "b")
    assert refused.returncode == 66 and re.search(r"no server-\*/shard-\* folder has the rows of shard \d", refused.stderr) and "--missing-ok" in refused.stderr, refused
    got = shoal("export", space / "began", "emb", "--format", "tsv", "--out", space / "b", "--missing-ok")
    assert got.returncode == 0 and "not all rows of emb" in got.stdout, got
    shutil.move(space / "away", space / "began" / "server-1")
    assert shoal("export", space / "began", "emb", "--format", "tsv", "--out", space / "c").returncode == 0
    assert 0 < lines(space / "b") < lines(space / "c")


def a_job_begins_with_what_the_others_held(space):
    """There is no checkpoint of the job: it is stopped, and the rows of the other server are what the next one begins with. No other folder is emptied."""
    job, points = prepared(space)
    with Fleet(space, "a").up() as fleet:
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        training(fleet)
        kept = (fleet.folder("s0") / "name").stat().st_ino
        lost(fleet, "s1")
        within(15, "the problem", lambda: "--without s1" in fleet.told().stdout)
        got = shoal("checkpoint", "create", "half", "--without", "s1", "--coordinator", fleet.endpoint)
        rows = re.search(r"half: (\d+) rows", got.stdout)
        assert got.returncode == 0 and rows, got
        order = ["replace", "s1", "--from", points / "half", "--coordinator", fleet.endpoint]
        refused = shoal(*order)
        assert refused.returncode == 78 and "stop the job first (shoal stop)" in refused.stderr, refused
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
        within(15, "the job's end", lambda: fleet.state().get("state") not in ("train", "setup"))
        got = shoal(*order)
        way = re.search(r"shoal submit JOB (--start-from CHECKPOINT --set fresh=all)", got.stdout)
        assert got.returncode == 0 and way and "how much is not known" in got.stdout, got
        fleet.server("s2")
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        words = way[1].replace("CHECKPOINT", str(points / "half")).split()
        got = shoal("submit", job, "--coordinator", fleet.endpoint, *words, "--set", "train.skip=true")
        assert got.returncode == 0, got
        report = json.loads((space / "report.json").read_text())
        assert sum(table["rows"] for table in report["tables"]) == int(rows[1]), (report["tables"], rows[1])
        fleet.fits()
        assert (fleet.folder("s0") / "name").stat().st_ino == kept


if __name__ == "__main__":
    main([an_empty_folder_takes_the_lost_shard, another_server_takes_the_lost_shard, what_the_others_hold_is_kept,
          a_job_begins_with_what_the_others_held])
