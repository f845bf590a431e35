"""ha: coordinators that stand by, over a real ZooKeeper on loopback (deploy/test-ha).

SHOAL_KILLS sets how many coordinators die (default 5), SHOAL_BIN the folder of the programs."""
from fleet import Fleet as AnyFleet
from fleet import bsp_job, shoal, within
from lib import *
from test_seen import asked

KILLS = int(os.environ.get("SHOAL_KILLS", "5"))
JAR = pathlib.Path("/usr/share/java/zookeeper.jar")
LEADS, STANDS = "this coordinator leads", "stands by: the coordinator at"


class ZooKeeper:
    """One server of it. tickTime=500: a session of 1.5 s ends within 2 s."""

    def __init__(self, space):
        self.port, self.folder, self.process = free_port(), space / "zookeeper", None
        self.folder.mkdir()
        self.settings = space / "zoo.cfg"
        self.settings.write_text(f"tickTime=500\ndataDir={self.folder}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n")

    def start(self):
        self.process = subprocess.Popen(["java", "-Xmx512m", "-cp", f"/etc/zookeeper/conf:{JAR}", "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                         str(self.settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        within(30, "ZooKeeper to listen", self.listens)

    def listens(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


class Fleet(AnyFleet):
    """Two coordinators, x and y, of one file."""

    def __init__(self, space, zookeeper):
        super().__init__(space, "f")
        self.store = f"store=zookeeper://127.0.0.1:{zookeeper.port}/shoal"
        self.own = {who: f"ipc://{space.path}/f-{who}.sock" for who in "xy"}
        self.endpoint = ",".join(self.own.values())

    def coordinate(self, who):
        return self.start(who, "--set", f"listen={self.own[who]}", "--set", f"data_dir={self.folder(who)}", "--set", self.store, "--set",
                          f"report={self.space / 'report.json'}", "--set", f"shards={self.shards}", "--set", "lease=2s", "--set", f"metrics=unix:{self.http(who)}",
                          program="shoal-coordinator")

    def http(self, who):
        return self.space / f"{who}.http"

    def shown(self, who):
        """What its HTTP says: of health, readiness, the page without its frame, and {series: value}."""
        page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", asked(self.http(who), "/").partition("<main")[2].partition("<script")[0]))
        series = dict(line.rsplit(" ", 1) for line in asked(self.http(who), "/metrics").splitlines() if not line.startswith("#"))
        return asked(self.http(who), "/healthz"), asked(self.http(who), "/readyz"), page, series

    def up(self):
        self.coordinate("x")
        within(15, "x to lead", lambda: self.leads("x"))
        self.coordinate("y")
        within(15, "y to stand by", lambda: STANDS in self.said("y"))
        for i in range(self.shards):
            self.server(f"s{i}")
        return self

    def leads(self, who):
        """What the process said last of the two."""
        said = self.said(who)
        return said.rfind(LEADS) > max(said.rfind("this one leads no longer"), said.rfind("nothing more can be promised"))

    def leader(self):
        return next((who for who in "xy" if who in self.running and self.leads(who)), None)

    def kill(self, who):
        """Kills it; returns the seconds until another one led."""
        process, begun = self.running.pop(who), time.monotonic()
        process.kill()
        process.wait()
        other = "y" if who == "x" else "x"
        end = begun + 15
        while not self.leads(other):
            assert time.monotonic() < end, self.said(other)
            time.sleep(0.01)
        return time.monotonic() - begun

    def submit(self, job, workers=2):
        for i in range(workers):
            self.start(f"w{i}", "train", "--config", job, "--coordinator", self.endpoint, program="shoal-worker")
        return subprocess.Popen([SHOAL, "submit", job, "--coordinator", self.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ended(self, submission, seconds=300):
        text = submission.communicate(timeout=seconds)[0]
        assert submission.returncode == 0, text[-3000:]
        return json.loads((self.space / "report.json").read_text())


def calm(space, train, epochs):
    return digests(run_job(bsp_job(space, "calm.yaml", train, epochs), space / "calm", 2, 2))


def killed_coordinators_leave_the_undisturbed_digest(space):
    """The leading coordinator dies during a job, again and again; each time the other one leads within 2.5 s."""
    train, epochs, took = synth(space / "train.tsv", 6000, 5), 12 * KILLS, []
    expected = calm(space, train, epochs)
    with ZooKeeper(space) as zookeeper, Fleet(space, zookeeper).up() as fleet:
        submission = fleet.submit(bsp_job(space, "job.yaml", train, epochs))
        rng = random.Random(47)
        while len(took) < KILLS and submission.poll() is None:
            time.sleep(rng.uniform(0.5, 1.5))
            within(15, "one to lead", fleet.leader)
            who = fleet.leader()
            took.append(fleet.kill(who))
            fleet.coordinate(who)
            within(15, f"{who} to stand by", lambda: STANDS in fleet.said(who))
        got = digests(fleet.ended(submission))
    print(f"      from kill to lead: {', '.join(f'{s:.2f}' for s in took)} s", flush=True)
    assert len(took) == KILLS, f"the job was over after {len(took)} kills"
    assert got == expected, f"{got}, undisturbed {expected}"
    assert max(took) < 2.5, took


def a_frozen_leader_stands_by_when_it_runs_again(space):
    """It stands still for longer than its session; the other one leads, and the job goes on."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = calm(space, train, 20)
    with ZooKeeper(space) as zookeeper, Fleet(space, zookeeper).up() as fleet:
        submission = fleet.submit(bsp_job(space, "job.yaml", train, 20))
        time.sleep(1)
        fleet.running["x"].send_signal(signal.SIGSTOP)
        within(5, "y to lead", lambda: fleet.leads("y"))
        fleet.running["x"].send_signal(signal.SIGCONT)
        within(5, "x to stand by", lambda: fleet.said("x").rfind(STANDS) > fleet.said("x").rfind(LEADS))
        got = digests(fleet.ended(submission))
    assert got == expected, f"{got}, undisturbed {expected}"


def a_job_outlives_an_absence_of_zookeeper(space):
    """Without ZooKeeper no coordinator leads; when it is back one does, and the job goes on."""
    train = synth(space / "train.tsv", 6000, 5)
    expected = calm(space, train, 20)
    with ZooKeeper(space) as zookeeper, Fleet(space, zookeeper).up() as fleet:
        submission = fleet.submit(bsp_job(space, "job.yaml", train, 20))
        time.sleep(1)
        zookeeper.kill()
        within(5, "x to lead no longer", lambda: fleet.leader() is None)
        time.sleep(2)
        zookeeper.start()
        within(15, "a coordinator to lead", fleet.leader)
        got = digests(fleet.ended(submission))
    assert got == expected, f"{got}, undisturbed {expected}"


def a_standby_says_that_it_is_one(space):
    """It is healthy and ready, names the leader, and tells no figure that an alert could take for a fault; without ZooKeeper none leads, and both say why."""
    with ZooKeeper(space) as zookeeper, Fleet(space, zookeeper).up() as fleet:
        within(15, "the shards", lambda: [v for k, v in fleet.shown("x")[3].items() if k.startswith("shoal_shard_ready{")] == ["1", "1"])
        within(15, "the page", lambda: "Servers" in fleet.shown("x")[2])
        healthy, ready, page, series = fleet.shown("y")
        assert (healthy, ready) == ("ok\n", "ready\n") and f"stands by. The one that leads is at {fleet.own['x']}" in page, (healthy, ready, page)
        own = {name for name in series if name.startswith("shoal_")} - {'shoal_loop_silent_seconds{loop="coordinator"}', 'shoal_ready{loop="coordinator"}'}
        assert series["shoal_coordinator_leads"] == "0" and series['shoal_ready{loop="coordinator"}'] == "1", series
        begun, asked_y = time.monotonic(), shoal("status", "--coordinator", fleet.own["y"])
        assert asked_y.returncode == 69 and f"{fleet.own['y']} stands by: the coordinator at {fleet.own['x']} leads" in asked_y.stderr, asked_y
        assert time.monotonic() - begun < 3, "it waited"
        assert not [name for name in own if not re.match("shoal_(build_info|coordinator_leads|coordinator_store_losses|refused_keys|process|log_|series_)", name)], own
        fleet.kill("x")
        begun, asked_y = time.monotonic(), shoal("status", "--coordinator", fleet.own["y"])
        assert asked_y.returncode == 0, asked_y  # y still names x, which is gone: it is asked until it leads
        print(f"      an answer {time.monotonic() - begun:.1f} s after the leader's death", flush=True)
        within(5, "y to say that it leads", lambda: fleet.shown("y")[3]["shoal_coordinator_leads"] == "1" and "Servers" in fleet.shown("y")[2])
        fleet.coordinate("x")
        within(5, "x to name y", lambda: fleet.own["y"] in fleet.shown("x")[2])
        zookeeper.kill()
        for who in "xy":
            within(10, f"{who} to say why", lambda w=who: "does not know which coordinator does; ZooKeeper: " in fleet.shown(w)[1]
                   and "which one leads (ZooKeeper: " in fleet.shown(w)[2])
            assert fleet.shown(who)[0] == "ok\n" and fleet.shown(who)[3]["shoal_coordinator_leads"] == "0", fleet.shown(who)


def many_small_tasks_are_given_out(space):
    """Tasks of one batch, of 64 rows: what a worker asks for is a transaction each."""
    train = synth(space / "train.tsv", 60000, 5)
    job = job_file(space / "job.yaml", train, **{"durability": None, "train.batch": 64, "train.task_batches": 1, "train.lanes": 8, "model.kind": "probe",
                                                 "model.hidden": None, "tables[0].dim": 1, "train.consistency": "async",
                                                 "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1})
    with ZooKeeper(space) as zookeeper, Fleet(space, zookeeper).up() as fleet:
        report = fleet.ended(fleet.submit(job))
    tasks = -(-60000 // 64)
    print(f"      {tasks / report['seconds']:.0f} tasks a second", flush=True)


if __name__ == "__main__":
    main([killed_coordinators_leave_the_undisturbed_digest, a_frozen_leader_stands_by_when_it_runs_again, a_job_outlives_an_absence_of_zookeeper,
          a_standby_says_that_it_is_one, many_small_tasks_are_given_out])
