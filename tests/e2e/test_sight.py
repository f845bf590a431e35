#!/usr/bin/env python3
"""test_sight: whatever stops work is seen and named: each situation is made with real daemons, and `shoal status` and `shoal doctor --cluster`
must both tell the truth of it. Those with networks of their own need root and `ip netns`."""
import re

from fleet import *
from test_keys import PARTS, Keyed

LONG = {"model.kind": "lr", "train.epochs": 100000, "train.consistency": "ssp", "train.staleness": 1, "train.lanes": 4, "coordinator.lease": "2s"}


def told(fleet, text, doctor=69, seconds=20):
    """Waits until status and doctor both hold the text, and the doctor ends so."""
    def look():
        status = fleet.told()
        d = fleet.doctor()
        return re.search(text, status.stdout) and (re.search(text, d.stdout) or doctor == 0) and d.returncode == doctor
    try:
        within(seconds, f"both to say: {text}", look)
    except AssertionError as e:
        raise AssertionError(f"{e}\n{fleet.told()}\n{fleet.doctor()}") from None


def worker(fleet, job, who="w"):
    return fleet.start(who, "train", "--config", job, "--coordinator", fleet.endpoint, "--name", who, program="shoal-worker")


def begun(space, name="a", **keys):
    """A fleet of two servers with a job that does not end by itself."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{**LONG, **keys})
    fleet = Fleet(space, name).up()
    fleet.fits()
    worker(fleet, job)
    assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
    within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
    return fleet, job


def goes_on(fleet):
    before = within(20, "the status", fleet.state)["examples"]
    within(60, "the job to go on", lambda: fleet.state().get("examples", 0) > before)
    within(20, "nothing to be wrong", lambda: fleet.state().get("problems") == [] and "waiting" not in fleet.state())
    fleet.fits()


def a_dead_server_is_named_and_so_is_a_stopped_one(space):
    fleet, _ = begun(space)
    with fleet:
        fleet.running["s1"].send_signal(signal.SIGSTOP)
        told(fleet, r"server s1 \(shard \d, .*\) is not heard for \d+ s")
        within(20, "the job to wait for it", lambda: fleet.state().get("waiting", "").startswith("waits for server s1"))
        fleet.running["s1"].send_signal(signal.SIGCONT)
        goes_on(fleet)
        fleet.running["s1"].kill()
        fleet.running["s1"].wait()
        told(fleet, r"server s1 \(shard \d, .*\) is not heard for \d+ s")
        fleet.server("s1")
        goes_on(fleet)


def a_refused_server_is_named_with_the_reason(space):
    fleet, _ = begun(space)
    with fleet:
        fleet.stop("s1")
        fleet.server("s1", folder=space / "empty")
        told(fleet, "server s1 .* is there and is not taken: .*comes with an empty folder")
        within(20, "the job to name it", lambda: "is there and is refused" in fleet.state().get("waiting", ""))
        fleet.stop("s1")
        fleet.server("s1")
        goes_on(fleet)


def a_server_too_many_is_named(space):
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        fleet.server("s2")
        told(fleet, "server s2 .* is there and is not taken: .*the 2 shards belong to other servers.*shoal add s2")
        fleet.stop("s2")
        within(30, "it to be forgotten", lambda: fleet.doctor().returncode == 0)


def a_worker_without_a_job_is_listed(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 600, 1))
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        worker(fleet, job, "idle-one")
        told(fleet, "worker +idle-one +waits for a job", doctor=0)
        assert "1 without a job" in fleet.doctor().stdout


def a_key_that_is_not_listed_is_named(space):
    """A worker whose key the coordinator does not know: its unit looked well, and nothing told of it. A line in the list, and it comes in."""
    with Keyed(space).up() as f:
        f.fits()
        f.start("eve", "shoal-worker", "run", "--set", f"coordinator={f.endpoint}", "--set", f"keys={space / 'eve.key'}", "--set", "name=eve")
        pub = f.lines["eve"].split()[0][:10]
        told(f, re.escape(f"the key {pub}.. is refused, shown from 127.0.0.1 for") + r" \d+ s, \d+ times: the allow-list has no such key")
        f.lines["eve"] = f.lines["eve"].replace(" admin ", " worker ")
        f.allow(*[n for n in PARTS if n != "coordinator"])
        told(f, "worker +eve +waits for a job", doctor=0)


def a_full_disk_is_named(space):
    with small_disk(space, "400M") as disk:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
        with Fleet(space, "a") as fleet:
            fleet.coordinator()
            fleet.server("s0", "--set", "disk_free=100MiB", "--set", "journal.segment=1MiB")
            fleet.server("s1", "--set", "disk_free=100MiB", "--set", "journal.segment=1MiB", folder=disk / "s1")
            fleet.fits()
            worker(fleet, job)
            assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
            within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
            free = shutil.disk_usage(disk).free
            (disk / "ballast").write_bytes(bytes(free - (40 << 20)))
            told(fleet, r"server s1 \(shard \d\) takes no pushes for \d+ s: too little of its disk is free", seconds=40)
            (disk / "ballast").unlink()
            goes_on(fleet)


def a_disk_that_hangs_is_told_as_that(space):
    """It looked like a dead server; the server's one line blamed the coordinator."""
    with frozen_disk(space) as disk:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
        with Fleet(space, "a") as fleet:
            fleet.coordinator()
            fleet.server("s0")
            fleet.server("s1", "--set", "journal.segment=1MiB", "--set", "disk_free=1MiB", folder=disk / "s1")
            fleet.fits()
            worker(fleet, job)
            assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
            within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
            subprocess.run(["fsfreeze", "--freeze", disk], check=True)
            try:
                within(30, "the server to name its disk", lambda: f"the disk of {disk / 's1'} has not answered for" in fleet.said("s1"))
                told(fleet, r"server s1 \(shard \d\): its disk has not answered for \d+ s: .* a restart would hang as well")
                within(20, "the job to wait for its disk", lambda: re.match("waits for server s1.*its disk has not answered for", fleet.state().get("waiting", "")))
                assert "start it again" not in fleet.told().stdout, fleet.told()
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
            within(20, "the server to tell the end", lambda: "answers again" in fleet.said("s1"))
            goes_on(fleet)


def a_checkpoint_folder_that_hangs_stops_nothing_else(space):
    """The coordinator stood still with it: no lane, no beat and no status, until its watchdog killed it."""
    with frozen_disk(space) as disk:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{**LONG, "checkpoint.dir": str(disk / "kept")})
        with Fleet(space, "a").up() as fleet:
            fleet.fits()
            worker(fleet, job)
            assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait").returncode == 0
            within(60, "the job to train", lambda: fleet.state().get("examples", 0) > 0)
            create = ["checkpoint", "create", "--coordinator", fleet.endpoint]
            subprocess.run(["fsfreeze", "--freeze", disk], check=True)
            asking = subprocess.Popen([SHOAL, *create], stderr=subprocess.PIPE, text=True)
            try:
                told(fleet, rf"checkpoint folder {disk / 'kept'} has not answered for \d+ s", seconds=30)
                for _ in range(3):
                    before = fleet.state().get("examples", 0)
                    within(5, "the job to go on", lambda: fleet.state().get("examples", 0) > before)
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
            within(20, "the coordinator to tell the end", lambda: "answers again" in fleet.said("coordinator"))
            assert "stood still" not in fleet.said("coordinator"), fleet.said("coordinator")
            goes_on(fleet)
            assert asking.wait(60) == 0 and (disk / "kept" / "000001").exists(), asking.stderr.read()
            assert shoal(*create).returncode == 0


def a_submitted_job_is_told_that_its_folder_hangs(space):
    with frozen_disk(space) as disk:
        job = job_file(space / "job.yaml", synth(space / "train.tsv", 600, 1), **{"checkpoint.dir": str(disk / "kept")})
        with Fleet(space, "a").up() as fleet:
            fleet.fits()
            subprocess.run(["fsfreeze", "--freeze", disk], check=True)
            try:
                asked = shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait")
                assert asked.returncode == 69 and f"checkpoint folder {disk / 'kept'} has not answered for" in asked.stderr, asked
                time.sleep(4)  # no client asks for it any more
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
            within(20, "the coordinator to tell the end", lambda: "answers again" in fleet.said("coordinator"))
            time.sleep(1)
            assert fleet.state().get("job", "") == "" and not list((disk / "kept").glob(".job*")), fleet.state()
            worker(fleet, job)
            done = shoal("submit", job, "--coordinator", fleet.endpoint)
            assert done.returncode == 0, done


def a_coordinator_that_is_away_is_told(space):
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        fleet.running["coordinator"].send_signal(signal.SIGSTOP)
        for got in (shoal("status", "--coordinator", fleet.endpoint), fleet.doctor()):
            assert got.returncode == 69 and "coordinator" in got.stderr, got
        fleet.running["coordinator"].send_signal(signal.SIGCONT)
        fleet.fits()
        fleet.stop("coordinator")
        for got in (shoal("status", "--coordinator", fleet.endpoint), fleet.doctor()):
            assert got.returncode == 69 and "coordinator" in got.stderr, got


def a_lost_state_of_the_coordinator_is_told(space):
    fleet, _ = begun(space)
    with fleet:
        fleet.stop("w", "coordinator")
        fleet.folder("coordinator").rename(space / "aside")
        fleet.coordinator()
        told(fleet, "took the cluster over from its servers: a job that ran before is not known here")


def a_failed_job_has_its_reason(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 600, 1))
    with Fleet(space, "a").up() as fleet:
        fleet.fits()
        worker(fleet, job)
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--set", "data.test=/nowhere.tsv").returncode == 66
        assert re.search("ended: .*nowhere", shoal("status", "--coordinator", fleet.endpoint).stdout)
        assert re.search("ended: .*nowhere", fleet.doctor().stdout)


def a_rate_is_told_or_none(space):
    """Never "0 a second" of a job that trains: it was so for the first seven seconds of each."""
    fleet, job = begun(space)
    with fleet:
        assert shoal("stop", "--coordinator", fleet.endpoint).returncode == 0
        within(20, "the job to end", lambda: fleet.state().get("state") == "stopped")
        worker(fleet, job, "w3")
        assert shoal("submit", job, "--coordinator", fleet.endpoint, "--no-wait", "--start-from", "fleet").returncode == 0
        seen = []
        def rates():
            state = fleet.state()
            if state.get("state") == "train" and state["examples"] > 0:
                seen.append(state["rate"])
            return seen and seen[-1]
        within(30, "a rate", rates)
        assert 0 not in seen, seen


# ---- networks of their own ----

class Nets:
    """A bridge, and a network namespace with an address of its own for each name; gone at the end. Skips without root or `ip`."""

    def __init__(self, *names):
        self.tag, self.at = f"sg{os.getpid() % 10000}", {}
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Skip("needs root and `ip` for network namespaces")
        if self.ip("link", "add", f"{self.tag}b", "type", "bridge", check=False).returncode != 0:
            raise Skip("no bridge can be made here")
        self.ip("link", "set", f"{self.tag}b", "up")
        for i, name in enumerate(names):
            space, near, far = f"{self.tag}{name}", f"{self.tag}v{i}", f"{self.tag}w{i}"
            self.at[name] = f"10.231.7.{i + 1}"
            self.ip("netns", "add", space)
            self.cable(near, far)
            self.ip("link", "set", near, "master", f"{self.tag}b", "up")
            self.ip("link", "set", far, "netns", space)
            self.ip("-n", space, "addr", "add", f"{self.at[name]}/24", "dev", far)
            self.ip("-n", space, "link", "set", far, "up")
            self.ip("-n", space, "link", "set", "lo", "up")

    def ip(self, *words, check=True):
        return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)

    def cable(self, near, far):
        """Makes the two ends of a machine's way to the bridge."""
        self.ip("link", "add", near, "type", "veth", "peer", "name", far)

    def run(self, name, *words):
        return ["ip", "netns", "exec", f"{self.tag}{name}", *map(str, words)]

    def cut(self, name, other):
        """Nothing goes from name to other any more; what comes from there comes."""
        self.ip("-n", f"{self.tag}{name}", "route", "add", "blackhole", f"{self.at[other]}/32")

    def heal(self, name, other):
        self.ip("-n", f"{self.tag}{name}", "route", "del", "blackhole", f"{self.at[other]}/32")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for i, name in enumerate(self.at):
            self.ip("link", "del", f"{self.tag}v{i}", check=False)  # the kernel takes its time for those of a namespace that goes
            self.ip("netns", "del", f"{self.tag}{name}", check=False)
        self.ip("link", "del", f"{self.tag}b", check=False)


class Far(Fleet):
    """A fleet in which each daemon has a machine of its own, as far as the network goes; without keys."""

    def __init__(self, space, nets):
        super().__init__(space, "n")
        self.nets, self.endpoint = nets, f"tcp://{nets.at['c']}:7000"

    def start(self, who, *words, program=None):
        self.logs += 1
        log = self.space / f"{self.name}-{who}-{self.logs}.log"
        net = "c" if who == "coordinator" else who
        with open(log, "w", encoding="utf-8") as f:
            process = subprocess.Popen(self.nets.run(net, BIN / (program or "shoal-server"), *words), stdout=f, stderr=f)
        process.log = log
        self.running[who] = process
        return process

    def tcp(self, who, *words, listen="0.0.0.0"):
        return super().server(who, "--set", f"listen=tcp://{listen}:7100", "--set", "insecure_plaintext=true", *words)

    def shoal(self, *words, net="c"):
        return subprocess.run(self.nets.run(net, SHOAL, *words, "--coordinator", self.endpoint), capture_output=True, text=True, timeout=120, check=False)

    def doctor(self):
        return self.shoal("doctor", "--cluster")

    def state(self):
        got = self.shoal("status", "--json")
        return json.loads(got.stdout) if got.returncode == 0 else {}

    def worker(self, who, job):
        return self.start(who, "train", "--config", job, "--coordinator", self.endpoint, "--name", who, "--insecure-plaintext", program="shoal-worker")

    def begin(self, job):
        got = self.shoal("submit", job, "--no-wait")
        assert got.returncode == 0, got


def a_server_at_all_addresses_is_told_by_one(space):
    """`listen: tcp://0.0.0.0` without `advertise`: workers were told 0.0.0.0, dialled themselves, and the job stayed at 0 examples."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 600, 1), **{"train.epochs": 1})
    with Nets("c", "s0", "s1", "w") as nets, Far(space, nets) as fleet:
        fleet.coordinator("--set", "insecure_plaintext=true")
        fleet.tcp("s0")
        fleet.tcp("s1", listen="[::]")
        fleet.fits()
        assert {s["endpoint"] for s in fleet.state()["servers"]} == {f"tcp://{nets.at[s]}:7100" for s in ("s0", "s1")}, fleet.state()["servers"]
        fleet.worker("w", job)
        got = fleet.shoal("submit", job)
        assert got.returncode == 0, got


def a_name_without_an_address_is_told(space):
    """`advertise` with a name that does not resolve: the server's log, status and doctor say so."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 600, 1), **LONG)
    with Nets("c", "s0", "s1", "w") as nets, Far(space, nets) as fleet:
        fleet.coordinator("--set", "insecure_plaintext=true")
        fleet.tcp("s0")
        fleet.tcp("s1", "--set", "advertise=no-such-host.invalid")
        within(15, "the doctor to dial", lambda: "no-such-host.invalid has no address" in fleet.doctor().stdout)
        assert fleet.doctor().returncode == 69
        within(15, "the server to warn", lambda: "advertise: the name no-such-host.invalid has no address" in fleet.said("s1"))
        fleet.worker("w", job)
        fleet.begin(job)
        within(60, "the status to tell", lambda: any("worker w gets no answer from server s1" in p and "has no address on the worker's machine" in p
                                                     for p in fleet.state().get("problems", [])))
        within(20, "the job to wait for it", lambda: "gets no answer from server s1" in fleet.state().get("waiting", ""))


def a_worker_cut_off_from_one_server_is_named_and_got_round(space):
    """One way, between one worker and one server: the job stopped for ever, and status and doctor said that all was well."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **LONG)
    with Nets("c", "s0", "s1", "w1", "w2") as nets, Far(space, nets) as fleet:
        fleet.coordinator("--set", "insecure_plaintext=true")
        fleet.tcp("s0")
        fleet.tcp("s1")
        fleet.fits()
        fleet.worker("w1", job)
        fleet.worker("w2", job)
        fleet.begin(job)
        within(60, "both to have lanes", lambda: sorted(w["lanes"] for w in fleet.state().get("workers", [])) == [2, 2])
        nets.cut("w1", "s1")
        within(30, "the two to be named", lambda: any(f"worker w1 gets no answer from server s1 (tcp://{nets.at['s1']}:7100) for" in p
                                                      for p in fleet.state().get("problems", [])))
        assert fleet.doctor().returncode == 69
        within(60, "w1 to have no lane", lambda: [w["lanes"] for w in fleet.state().get("workers", []) if w["name"] == "w1"] == [0])
        before = within(20, "the status", fleet.state)["examples"]
        within(30, "the job to go on", lambda: fleet.state().get("examples", 0) > before)
        assert not any("worker w2" in p for p in fleet.state().get("problems", [])), fleet.state()
        nets.heal("w1", "s1")
        within(120, "w1 to have lanes again", lambda: any(w["name"] == "w1" and w["lanes"] > 0 for w in fleet.state().get("workers", [])))
        fleet.fits()


if __name__ == "__main__":
    main([a_dead_server_is_named_and_so_is_a_stopped_one, a_refused_server_is_named_with_the_reason, a_server_too_many_is_named,
          a_worker_without_a_job_is_listed, a_key_that_is_not_listed_is_named, a_full_disk_is_named, a_disk_that_hangs_is_told_as_that,
          a_checkpoint_folder_that_hangs_stops_nothing_else, a_submitted_job_is_told_that_its_folder_hangs, a_coordinator_that_is_away_is_told,
          a_lost_state_of_the_coordinator_is_told, a_failed_job_has_its_reason, a_rate_is_told_or_none, a_server_at_all_addresses_is_told_by_one,
          a_name_without_an_address_is_told, a_worker_cut_off_from_one_server_is_named_and_got_round])
