#!/usr/bin/env python3
"""test_replicas: three servers hold two copies of each shard; one is killed, or its folder is lost, and the job ends as if nothing had.

SHOAL_KILLS sets how many servers die (default 3)."""
from fleet import Fleet as AnyFleet
from fleet import bsp_job, ended, settled, shoal, submit, under_way, within
from lib import *

KILLS = int(os.environ.get("SHOAL_KILLS", "3"))
SERVERS = ["s0", "s1", "s2"]


class Fleet(AnyFleet):
    """Each server has two copies: three shards, each on two servers."""

    def __init__(self, space, name):
        super().__init__(space, name, shards=3)

    def up(self, *words):
        self.coordinator("--set", "replicas=2", *words)
        for who in SERVERS:
            self.server(who)
        return self

    def server(self, who, *words, **more):
        return super().server(who, "--set", "shards=2", *words, **more)

    def copies(self):
        return self.state().get("cluster", {}).get("copies", [])

    def in_sync(self):
        """True when each shard has two copies in sync."""
        shards = self.copies()
        return len(shards) == 3 and all(sum(c["in_sync"] for c in s["copies"]) == 2 for s in shards)

    def wait_in_sync(self, seconds=30):
        within(seconds, "all copies in sync", self.in_sync)

    def leaders(self):
        return [c["name"] for s in self.copies() for c in s["copies"] if c["leads"]]


def copies_are_told(fleet):
    """Status and doctor of a fleet whose copies are all in sync."""
    for shard in fleet.copies():
        lead, follower = sorted(shard["copies"], key=lambda c: not c["leads"])
        assert 0 < shard["lease_left_ms"] <= 6000 and "lag_ms" not in lead, shard
        assert follower["lag_ms"] < 10000 and follower["lag_bytes"] >= 0 and "out_ms" not in follower, shard
        assert lead["beside"] == follower["name"], shard  # they have booted together
    at = ("--coordinator", fleet.endpoint)
    line = r"term \d+, 2 of 2 copies in sync; leads: server s\d; server s\d: \d+ records \([\d.]+ k?M?B, \d+ ms\) behind\n"

    def told():
        text, doctor = shoal("status", *at).stdout, shoal("doctor", "--cluster", *at)
        assert len(re.findall(line, text)) == len(re.findall(line, doctor.stdout)) == 3, (text, doctor)
        assert doctor.returncode == 0 and len(re.findall(r"note: shard \d: servers s\d and s\d are on one machine", doctor.stdout)) == 3, doctor
    settled(20, told)  # the problem of the server that was away goes a moment later


def copy_is_told_missing(fleet, who):
    """What is said of the copies of a server that is gone: the coordinator names another leader where it led."""
    def told():
        missed = [p for p in fleet.state().get("problems", []) if f"server {who} is not heard: start it again, not in sync for" in p]
        return sum(1 + int((re.search(r"; the same holds for (\d+) other shard", p) or (0, 0))[1]) for p in missed)
    within(20, f"{who}'s copies to be missed", lambda: told() == 2)
    doctor = shoal("doctor", "--cluster", "--coordinator", fleet.endpoint)
    assert doctor.returncode != 0 and f"server {who}: not heard, not in sync for " in doctor.stdout, doctor


def killed_servers_leave_the_undisturbed_digest(space):
    """Servers die one at a time while each shard has two copies in sync, and come back; the coordinator names another leader."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(20)), space / "calm", 1, 2))
    job, rng, died = bsp_job(space, "job.yaml", train, longer(20)), random.Random(21), 0
    with Fleet(space, "f").up() as fleet:
        fleet.wait_in_sync()
        submission = submit(fleet, job, 4)
        while died < KILLS and submission.poll() is None:
            time.sleep(rng.uniform(0.3, 1.0))
            if not fleet.in_sync():
                continue
            who = rng.choice(fleet.leaders())
            fleet.kill(who)
            died += 1
            time.sleep(rng.uniform(0.2, 1.5))
            fleet.server(who)
        got = ended(fleet, submission)
    if died == 0:
        raise TooShort("the job was over before a server died")
    assert got == expected, f"{got}, undisturbed {expected}"
    print(f"      {died} servers died", flush=True)


def a_lost_folder_is_filled_again(space):
    """A server is gone for good while a job trains: the job goes on without it; under its name an empty folder is filled again."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(20)), space / "calm", 1, 2))
    with Fleet(space, "f").up() as fleet:
        fleet.wait_in_sync()
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(20)), 4)
        time.sleep(1.5)
        under_way(submission)
        fleet.kill("s1")
        shutil.rmtree(fleet.folder("s1"))
        copy_is_told_missing(fleet, "s1")
        got = ended(fleet, submission)
        fleet.server("s1")
        fleet.wait_in_sync(60)
        copies_are_told(fleet)
    assert got == expected, f"{got}, undisturbed {expected}"


def a_server_is_replaced_by_another_one(space):
    """A server is gone for good while a job trains: its places are given up by an order, and a server of another name gets them."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = digests(run_job(bsp_job(space, "calm.yaml", train, longer(20)), space / "calm", 1, 2))
    with Fleet(space, "f").up("--set", "lease=2s", "--set", "shard_lease=2s") as fleet:
        fleet.wait_in_sync()
        to = ["--coordinator", fleet.endpoint]
        beats, leads = shoal("replace", "s1", *to), shoal("promote", "0", *to)
        assert beats.returncode != 0 and "stop it first" in beats.stderr, beats
        assert leads.returncode != 0 and "nothing to promote" in leads.stderr, leads
        submission = submit(fleet, bsp_job(space, "job.yaml", train, longer(20)), 4)
        time.sleep(1.5)
        under_way(submission)
        fleet.kill("s1")
        shutil.rmtree(fleet.folder("s1"))
        within(20, "the order to be taken", lambda: shoal("replace", "s1", *to).returncode == 0)
        fleet.server("s3")
        fleet.wait_in_sync(60)
        names = {c["name"] for s in fleet.copies() for c in s["copies"]}
        got = ended(fleet, submission)
    assert names == {"s0", "s2", "s3"}, names
    assert got == expected, f"{got}, undisturbed {expected}"


def leader_stands_still(fleet, who, other):
    """Two workers push after the last records were sent to the follower, which stands still: most often, the leader alone has these. Another copy leads."""
    late = ("w2", "w3")
    for number, names in ((signal.SIGSTOP, late), (signal.SIGSTOP, (other,)), (signal.SIGCONT, late), (signal.SIGSTOP, (who,)), (signal.SIGCONT, (other,))):
        for one in names:
            fleet.running[one].send_signal(number)
        time.sleep(0.2)
    within(20, "another copy to lead", lambda: who not in fleet.leaders())
    time.sleep(0.5)
    fleet.running[who].send_signal(signal.SIGCONT)
    fleet.wait_in_sync()


def a_stopped_leader_follows_when_it_goes_on(space):
    """It has records that no other copy has: it gives them up, as the same process, in the same folder."""
    train = synth(space / "train.tsv", 30000, 5)
    over = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "train.prefetch": 4, "train.batch": 64,
            "train.epochs": longer(20), "train.consistency": "async", "durability": None}  # many pushes at once
    expected = digests(run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 1, 2))
    with Fleet(space, "f").up("--set", "shard_lease=2s") as fleet:
        fleet.wait_in_sync()
        submission, gave_up = submit(fleet, job_file(space / "job.yaml", train, **over), 4), False
        within(20, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
        while not gave_up:
            shard = within(20, "the copies", fleet.copies)[0]["copies"]
            who, other = (next(c["name"] for c in shard if c["leads"] == leads) for leads in (True, False))
            leader_stands_still(fleet, who, other)
            gave_up = "no other copy has them" in fleet.said(who)
            if not gave_up:
                under_way(submission)  # until a leader has records alone
        got = ended(fleet, submission)
    assert got == expected, f"{got}, undisturbed {expected}"


def a_paused_leaders_lease_is_counted_down(space):
    """Status tells how long the lease of a silent leader runs; then another copy leads."""
    with Fleet(space, "f").up("--set", "shard_lease=20s") as fleet:
        fleet.wait_in_sync()
        who, seen = fleet.leaders()[0], []
        fleet.running[who].send_signal(signal.SIGSTOP)

        def led_by_another():
            text = shoal("status", "--coordinator", fleet.endpoint).stdout
            seen.extend(float(x) for x in re.findall(rf"leads: server {who}, silent, its lease ends in ([\d.]+) s; server s\d: ", text))
            return [leads for leads in fleet.leaders()[:1] if leads != who]

        within(20, "another copy to lead", led_by_another)
        fleet.running[who].send_signal(signal.SIGCONT)
        assert len(seen) > 1 and max(seen) <= 10 and seen == sorted(seen, reverse=True), seen
        fleet.wait_in_sync()


def erased_keys_leave_every_copy(space):
    """Erasing rewrites the files of all copies; a follower that takes over has not the rows either."""
    train = synth(space / "train.tsv", 4000, 3)
    with Fleet(space, "f").up() as fleet:
        fleet.wait_in_sync()
        ended(fleet, submit(fleet, job_file(space / "job.yaml", train, **{"durability": None}), 1))
        value = next(line.split("\t")[14] for line in train.read_text().splitlines() if line.split("\t")[14])
        at = ("--coordinator", fleet.endpoint)
        key = json.loads(shoal("inspect", "emb", f"0:{value}", "--json", *at).stdout)["key"]
        (space / "keys").write_text(key + "\n")
        got = shoal("erase", "emb", "--keys", space / "keys", "--receipt", space / "receipt.json", *at)
        assert got.returncode == 0, got
        receipt = json.loads((space / "receipt.json").read_text())["shards"]
        assert all(len(s["followers"]) == 1 and s["followers"][0]["sequence"] > 0 for s in receipt), receipt
        led = next(s["shard"] for s in receipt if s["keys"] == 1)
        raw = int(key, 16).to_bytes(8, "little")
        for who in SERVERS:
            for file in fleet.folder(who).glob("shard-*/journal/seg-*"):
                assert file.read_bytes().count(raw) <= 1, file
        fleet.kill(fleet.leaders()[led])
        within(20, "another copy to answer", lambda: shoal("inspect", "emb", key, *at).returncode == 66)


if __name__ == "__main__":
    main([killed_servers_leave_the_undisturbed_digest, a_lost_folder_is_filled_again, a_server_is_replaced_by_another_one,
          a_stopped_leader_follows_when_it_goes_on, a_paused_leaders_lease_is_counted_down, erased_keys_leave_every_copy])
