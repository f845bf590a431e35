#!/usr/bin/env python3
"""test_seen: faults of a fleet are seen in the coordinator's metrics, on its page, in `shoal status` and in `shoal doctor --cluster`, in words that name
them. tests/sight has all faults, and a bound of 5 s, with what is here."""
import html
import http.client
import threading

from fleet import *
from test_sight import LONG

EVERY = 0.25  # seconds between two questions
LIMIT = 15.0 * PATIENCE  # seconds for which a fault is made, unless all four have told of it
AWAY = 40.0 * PATIENCE  # seconds until it must be told no longer, after its end
SLOW_DISK = BIN / "libslow_disk.so"

# What each place must say: a sentence that a pattern describes, and the labels of shoal_problem_seconds. Written before the product was looked at.
EXPECTED = {
    "stopped_server": ("server_silent", "s1", r"server s1 \(shard \d.*\) is not heard for \d+ s: .*(process|machine|network).*start it again"),
    "hung_loop": ("loop_hangs", "s1", r"server s1 \(shard \d.*\): its loop has made no progress for \d+ s.*restart"),
    "hung_disk": ("disk_hangs", "s1", r"server s1 \(shard \d.*\): its disk has not answered for \d+ s: look at .*disk"),
    "hung_sync": ("(disk|loop)_hangs", "s1", r"server s1 \(shard \d.*\): its (disk has not answered|loop has made no progress) for \d+ s.*disk"),
    "slow_link": ("server_slow", "s1", r"server s1 \(shard \d.*\) answers worker w1 in \d+ ms, the others in [\d.]+ ms: see the network"),
    "cut_off": ("worker_cut_off", "w1", r"worker w1 gets no answer from server s1 \(tcp:.*\) for \d+ s, and the server is heard here: see the network"),
    "stopped_worker": ("worker_silent", "w1", r"worker w1 is not heard for \d+ s: .*(process|machine|network).*lanes"),
    "full_disk": ("disk_short", "s1", r"server s1 \(shard \d.*\) takes no pushes for \d+ s: too little of its disk is free: .*(free|disk_free)"),
    "refused_server": ("server_refused", "s1", r"server s1 .*is there and is not taken: .*comes with an empty folder"),
    "surplus_server": ("server_refused", "s2", r"server s2 .*is there and is not taken: .*the 2 shards belong to other servers.*shoal add s2"),
    "no_workers": ("no_workers", "e2e", r"job e2e has no worker for \d+ s: start .*worker"),
    "old_checkpoint": ("checkpoint_late", "e2e", r"job e2e has made no checkpoint for \d+ s: checkpoint.every_minutes .*; the last one that failed: .+"),
}


class Unix(http.client.HTTPConnection):
    """HTTP over a unix socket, which no network namespace hides."""

    def __init__(self, path):
        super().__init__("localhost", timeout=5)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def asked(path, page):
    """The text of a page; empty where there is no answer."""
    link = Unix(path)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(link):
        link.request("GET", page, headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        return link.getresponse().read().decode()
    return ""


class Places:
    """The four places of a fleet with `http`, the socket of its coordinator's metrics, and `asks`, which runs a command. Each returns the lines that it has."""

    def status(self):
        return self.asks("status").stdout.splitlines()

    def checked(self):
        return self.asks("doctor", "--cluster").stdout.splitlines()

    def page(self):
        return re.sub(r"<[^>]*>", "", re.sub(r"</(li|td|p|h\d)>", "\n", html.unescape(asked(self.http, "/")))).splitlines()

    def metrics(self):
        return [line for line in asked(self.http, "/metrics").splitlines() if line.startswith("shoal_problem")]


class Place(threading.Thread):
    """Asks one place until it is told to end."""

    def __init__(self, name, ask, pattern):
        super().__init__(daemon=True)
        self.name, self.ask, self.pattern = name, ask, re.compile(pattern)
        self.first, self.text, self.last, self.asks = None, None, 0.0, 0
        self.ends = False

    def run(self):
        while not self.ends:
            begun = time.monotonic()
            found = next((line.strip() for line in self.ask() if self.pattern.search(line)), None)
            now = time.monotonic()
            self.asks += 1
            if found is not None:
                self.last = now
                if self.first is None:
                    self.first, self.text = now, found
            time.sleep(max(0, EVERY - (now - begun)))

    def told(self):
        return self.first is not None

    def silent(self, since):
        return self.asks > 0 and self.last < since


def places_of(fleet, fault):
    kind, of, sentence = EXPECTED[fault]
    return [Place("metrics", fleet.metrics, rf'^shoal_problem_seconds{{problem="{kind}",of="{of}"}} '), Place("page", fleet.page, sentence),
            Place("status", fleet.status, sentence), Place("doctor", fleet.checked, sentence)]


TABLE = []  # (fault, place, seconds until told, seconds until silent, text)


def reached(until, places, done):
    while time.monotonic() < until and not all(done(place) for place in places):
        time.sleep(0.02)


def looked_at(fleet, fault, begin, end, since=None, calm=True):
    """Makes a fault and ends it; adds to the table what the four places told of it. `since`: when the fault began, where `begin` cannot
    say it. calm: it waits until the places tell of it no longer."""
    within(30, "nothing to be wrong", lambda: fleet.state().get("problems") == [])
    places = places_of(fleet, fault)
    try:
        for place in places:
            place.start()
        time.sleep(1)
        early = [place.name for place in places if place.told()]
        assert not early, f"{fault}: told before it was: {early}"
        begun = since or time.monotonic()
        begin()
        reached(begun + LIMIT, places, Place.told)
        if not all(place.told() for place in places):
            print("\n".join(fleet.status() + fleet.checked() + fleet.metrics()), flush=True)
        end()
        ended = time.monotonic()
        reached(ended + AWAY * calm, places, lambda place: place.told() and time.monotonic() - max(place.last, ended) > 2)
    finally:
        for place in places:
            place.ends = True
        for place in places:
            place.join()
    for place in places:
        TABLE.append((fault, place.name, place.first - begun if place.told() else None, max(0, place.last - ended), place.text))


class Near(Places, Fleet):
    """Two servers and two workers, with the lease of the packages. The syncs of s1 can hang."""

    def __init__(self, space):
        super().__init__(space, "f")
        self.http, self.hangs = space / "c.http", space / "hangs"

    def asks(self, *words):
        return shoal(*words, "--coordinator", self.endpoint)

    def up(self):
        self.coordinator("--set", "lease=10s", "--set", f"metrics=unix:{self.http}")
        self.server("s0", "--set", "durability=fsync")
        os.environ.update(LD_PRELOAD=str(SLOW_DISK), SHOAL_HUNG_SYNCS=str(self.hangs))
        self.server("s1", "--set", "durability=fsync")
        del os.environ["LD_PRELOAD"], os.environ["SHOAL_HUNG_SYNCS"]
        self.fits()
        job = job_file(self.space / "job.yaml", synth(self.space / "train.tsv", 6000, 1), **{**LONG, "coordinator.lease": None, "durability": None})
        for who in ("w1", "w2"):
            self.start(who, "train", "--config", job, "--coordinator", self.endpoint, "--name", who, program="shoal-worker")
        assert shoal("submit", job, "--coordinator", self.endpoint, "--no-wait").returncode == 0
        within(60, "both workers to train", lambda: sorted(w["lanes"] for w in self.state().get("workers", [])) == [2, 2])
        return self


def stopped_processes_a_hanging_disk_and_a_surplus_server_are_seen_at_four_places(space):
    with Near(space).up() as fleet:
        for fault, who in (("stopped_worker", "w1"), ("stopped_server", "s1")):
            process = fleet.running[who]
            looked_at(fleet, fault, lambda p=process: p.send_signal(signal.SIGSTOP), lambda p=process: p.send_signal(signal.SIGCONT))
        looked_at(fleet, "hung_sync", fleet.hangs.touch, fleet.hangs.unlink)
        looked_at(fleet, "surplus_server", lambda: fleet.server("s2"), lambda: fleet.stop("s2"), calm=False)
    for fault, place, told, gone, text in TABLE:
        assert told is not None and gone < AWAY, (fault, place, told, gone, text)


if __name__ == "__main__":
    main([stopped_processes_a_hanging_disk_and_a_surplus_server_are_seen_at_four_places])
