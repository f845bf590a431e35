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
    return job_file(space / "job.yaml", train, **KEYS, **{"train.epochs": 12, "train.batch": 64, "checkpoint.dir": str(points), **more}), points


def begun(fleet, job):
    """The job trains, and a checkpoint is made; returns the whole run's digests."""
    worker = fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
    assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
    within(30, "the job to train", lambda: fleet.state().get("state") == "train" and fleet.state()["examples"] > 1000)
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
    """The order is given; until the lease of the dead server is over, it says to ask again."""
    got = shoal(*way.split(), "--coordinator", fleet.endpoint)
    if got.returncode != 0:
        wait = re.search(r"server s1 beats, .* ask again after (\d+) s", got.stderr)
        assert wait, got
        time.sleep(int(wait[1]))
        got = shoal(*way.split(), "--coordinator", fleet.endpoint)
    assert got.returncode == 0, got
    told = re.search(r"takes the shards of s1 \(1 of 2\); the job goes on from the checkpoint; (\d+) batches after the checkpoint are lost \((\d+) examples", got.stdout)
    assert told and int(told[1]) * 64 >= int(told[2]), got.stdout
    return got.stdout


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


if __name__ == "__main__":
    main([an_empty_folder_takes_the_lost_shard, another_server_takes_the_lost_shard])
