#!/usr/bin/env python3
"""test_owner: the owner of each row, with real daemons: folders lost, put back, swapped, of other servers, and another number of shards. The probe model
counts, so a row that is read as a new one changes the digest. All printed advice is followed."""
import re

from fleet import *

KEYS = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}
ROWS = 6000


def prepared(space):
    """The job file, and what its tables are after 1, 2 and 3 epochs."""
    train = synth(space / "train.tsv", ROWS, 1)
    job = job_file(space / "job.yaml", train, **KEYS)
    whole = []
    for epochs in (1, 2, 3):
        more = job_file(space / f"job-{epochs}.yaml", train, **KEYS, **{"train.epochs": epochs})
        whole.append(digests(run_job(more, space / f"whole-{epochs}")))
    assert len({str(w) for w in whole}) == 3, "each epoch counts"
    return job, whole


def lost_coordinator_folder_is_taken_over(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        before = json.loads(shoal("doctor", "--cluster", "--coordinator", fleet.endpoint, "--json").stdout)["cluster"]
        fleet.stop("coordinator", "s1")
        fleet.folder("coordinator").rename(space / "aside")
        fleet.coordinator()
        told = within(15, "s0 to wait", lambda: (d := fleet.doctor()).returncode == 69 and "waits for the others: server s0/0" in d.stdout and d)
        assert "no cluster yet" in told.stdout, told.stdout
        fleet.server("s1")
        fleet.taken_over()
        after = json.loads(shoal("doctor", "--cluster", "--coordinator", fleet.endpoint, "--json").stdout)["cluster"]
        assert (after["id"], after["map_epoch"]) == (before["id"], before["map_epoch"])
        assert "taken over from its 2 shards" in fleet.said("coordinator")
        assert fleet.job(job) == whole[1]


def lost_coordinator_says_the_way_back_to_its_job(space):
    """The folder is lost while a job trains: log, status and doctor name the newest checkpoint and the way, which is typed and ends as if nothing had been."""
    train = synth(space / "train.tsv", ROWS, 1)
    points = space / "points"
    points.mkdir()
    job = job_file(space / "job.yaml", train, **KEYS, **{"train.epochs": longer(12), "train.batch": 64, "checkpoint.dir": str(points)})
    whole = digests(run_job(job, space / "whole"))
    root = ("--set", f"checkpoint_root={points}")
    with Fleet(space, "a") as fleet:
        fleet.coordinator(*root)
        for i in range(2):
            fleet.server(f"s{i}")
        worker = fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        training(fleet)
        got = shoal("checkpoint", "create", "here", "--coordinator", fleet.endpoint)
        if got.returncode != 0 or fleet.state().get("state") == "done":
            raise TooShort("train")
        fleet.running["coordinator"].kill()
        fleet.running.pop("coordinator").wait()
        worker.kill()
        worker.wait()
        shutil.rmtree(fleet.folder("coordinator"))
        fleet.coordinator(*root)
        fleet.taken_over()
        for said in (fleet.said("coordinator"), fleet.doctor().stdout, shoal("status", "--coordinator", fleet.endpoint).stdout):
            way = re.search(r"newest checkpoint is of job e2e, .*?: shoal (submit JOB --resume \S+ --set fresh=all)", said)
            assert way and f"--resume {points}/here" in way[1], said
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        got = shoal(*way[1].replace("JOB", str(job)).split(), "--coordinator", fleet.endpoint)
        assert got.returncode == 0, got
        assert digests(json.loads((space / "report.json").read_text())) == whole


def another_number_of_shards_is_refused_and_the_way_is_told(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        fleet.stop("coordinator")
        fleet.server("s2")
        process = fleet.coordinator(shards=3)
        assert process.wait(60) == 78
        text = fleet.said("coordinator")
        assert "set `shards: 2`" in text and "shoal add SERVER" in text and "shoal drain SERVER" in text, text
        fleet.stop("s2")
        fleet.coordinator()  # the first advice
        fleet.fits()
        assert fleet.job(job) == whole[1]
        # a cluster of another size can also begin with a checkpoint
        long = job_file(space / "long.yaml", space / "train.tsv", **KEYS, **{"train.epochs": 30, "checkpoint.dir": str(space / "points"),
                                                                         "train.batch": 64})
        fleet.start("worker", "train", "--config", long, "--coordinator", fleet.endpoint, program="shoal-worker")
        assert shoal("submit", long, "--coordinator", fleet.endpoint, "--no-wait", "--start-from", "fleet").returncode == 0
        made = within(30, "a checkpoint", lambda: (g := shoal("checkpoint", "create", "all", "--coordinator", fleet.endpoint)).returncode == 0 and g)
        assert made.returncode == 0, made
        within(60, "the job's end", lambda: "job e2e: done" in shoal("status", "--coordinator", fleet.endpoint).stdout)
        expected = digests(json.loads((space / "report.json").read_text()))
        fleet.stop()
        with Fleet(space, "b", shards=3).up() as larger:
            got = larger.job(long, "--resume", space / "points" / "all")
            assert got == expected, (got, expected)
            assert "3 shards" in larger.doctor().stdout


def empty_folder_under_an_old_name_is_refused(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        fleet.stop("s1")
        fleet.folder("s1").rename(space / "aside")
        fleet.server("s1")
        told = fleet.refused("server s1 comes with an empty folder")
        assert "Bring its data_dir back" in told, told
        fleet.stop("s1")
        shutil.rmtree(fleet.folder("s1"))
        (space / "aside").rename(fleet.folder("s1"))
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]


def another_servers_folder_is_refused(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        fleet.stop("s0", "s1")
        shutil.copytree(fleet.folder("s0"), space / "copy")
        (space / "copy" / "name").write_text("s1\n", encoding="utf-8")
        fleet.server("s0")
        fleet.server("s1", folder=space / "copy")
        told = fleet.refused("server s1 comes with the rows of shard")
        assert "server s0 holds" in told or "server s1 holds" in told, told
        fleet.stop("s1")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]


def a_copy_of_a_running_server_is_refused(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        fleet.stop("s1")
        shutil.copytree(fleet.folder("s1"), space / "copy")
        fleet.server("s1")
        fleet.fits()
        fleet.server("twin", folder=space / "copy", name="s1")
        fleet.refused("two servers run as s1")
        fleet.stop("twin")
        fleet.stop("s1")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]


def a_second_coordinator_gets_no_part_of_a_fleet(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet, Fleet(space, "b") as second:
        assert fleet.job(job) == whole[0]
        second.coordinator()
        fleet.stop("s1")
        fleet.server("s1", coordinator=second.endpoint)
        told = within(15, "s1 to wait there", lambda: (d := second.doctor()).returncode == 69 and "server s1/0" in d.stdout and d)
        assert "no cluster yet" in told.stdout, told.stdout
        within(15, "s1 to be missed", lambda: fleet.doctor().returncode == 69)
        fleet.stop("s1")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]
        # all of them go over: it is the same cluster, under another coordinator; and back again
        fleet.stop("s0", "s1")
        for who in ("s0", "s1"):
            fleet.server(who, coordinator=second.endpoint)
        second.taken_over()
        assert second.job(job, "--start-from", "fleet") == whole[2]


def older_coordinator_folder_is_brought_up_to_date(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        fleet.stop("coordinator")
        shutil.copytree(fleet.folder("coordinator"), space / "before")
        fleet.coordinator()
        assert fleet.job(job) == whole[0]
        fleet.stop("coordinator")
        shutil.rmtree(fleet.folder("coordinator"))
        (space / "before").rename(fleet.folder("coordinator"))
        fleet.coordinator()
        fleet.fits()
        within(10, "the map to be taken", lambda: "is taken from shard" in fleet.said("coordinator"))
        assert fleet.job(job) == whole[1]


def older_coordinator_folder_of_mid_job_trains_nothing_again(space):
    """The copy is of a job that waits for its worker; it ended since, and its run was dropped."""
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
        fleet.stop("coordinator")
        shutil.copytree(fleet.folder("coordinator"), space / "before")
        fleet.coordinator()
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        within(60, "the job's end", lambda: "job e2e: done" in shoal("status", "--coordinator", fleet.endpoint).stdout)
        assert digests(json.loads((space / "report.json").read_text())) == whole[0]
        fleet.stop("coordinator", "worker")
        shutil.rmtree(fleet.folder("coordinator"))
        (space / "before").rename(fleet.folder("coordinator"))
        fleet.coordinator()
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        within(60, "the job to end", lambda: "--start-from fleet begins with them" in fleet.said("coordinator"))
        fleet.stop("worker")
        assert fleet.job(job, "--start-from", "fleet") == whole[1]  # as it says; twice, not three times


def older_server_folder_is_refused(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        fleet.stop("s1")
        shutil.copytree(fleet.folder("s1"), space / "before")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]
        time.sleep(6)  # it has told how far it is on disk
        fleet.stop("s1")
        fleet.server("s1", folder=space / "before")
        told = fleet.refused("server s1 comes with data that is older than it was")
        assert "Bring the newest data_dir back" in told, told
        fleet.stop("s1")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[2]


def rows_of_another_cluster_are_refused(space):
    job, whole = prepared(space)
    with Fleet(space, "a").up() as fleet:
        assert fleet.job(job) == whole[0]
        with Fleet(space, "b").up() as other:
            other.job(job)
            other.stop()
        fleet.stop("s1")
        fleet.server("s1", folder=space / "b-s1")
        told = fleet.refused("server s1 has rows of cluster")
        assert re.search("rows of cluster [0-9a-f]{32}, this is [0-9a-f]{32}", told), told
        fleet.stop("s1")
        fleet.server("s1")
        fleet.fits()
        assert fleet.job(job) == whole[1]


def a_checkpoint_of_another_model_is_refused_by_name(space):
    train = synth(space / "train.tsv", longer(ROWS), 1)
    job = job_file(space / "job.yaml", train, **{"train.epochs": 200, "train.batch": 64})
    run = Run(job, space / "run")
    until(run, "a checkpoint", lambda: shoal("checkpoint", "create", "one", "--run-dir", space / "run").returncode == 0)
    break_off(run, signal.SIGTERM)
    for key, value in (("model.hidden", [8, 16]), ("model.kind", "dcnv2"), ("features.fields", ["C1", "C2"]), ("tables[0].name", "other")):
        other = job_file(space / "other.yaml", train, **{"train.epochs": 200, "train.batch": 64, key: value})
        got = shoal("local", other, "--run-dir", space / "again", "--resume", space / "run" / "checkpoints" / "one")
        assert got.returncode == 78 and key.split(".")[1] in got.stderr + got.stdout, (key, got)
        assert "in the checkpoint it was" in got.stderr + got.stdout, got
        shutil.rmtree(space / "again", ignore_errors=True)


if __name__ == "__main__":
    main([lost_coordinator_folder_is_taken_over, lost_coordinator_says_the_way_back_to_its_job, another_number_of_shards_is_refused_and_the_way_is_told,
          empty_folder_under_an_old_name_is_refused, another_servers_folder_is_refused, a_copy_of_a_running_server_is_refused,
          a_second_coordinator_gets_no_part_of_a_fleet, older_coordinator_folder_is_brought_up_to_date,
          older_coordinator_folder_of_mid_job_trains_nothing_again, older_server_folder_is_refused,
          rows_of_another_cluster_are_refused, a_checkpoint_of_another_model_is_refused_by_name])
