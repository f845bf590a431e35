"""delayed: machines, as far as the network goes, joined by links with a round trip of their own: two, or any number on a bridge; and a stand-in device with a
step of its own. Needs root and tun devices (delay_link.c)."""
from lib import *
from test_sight import Far, Nets

ECHO = """import socket
with socket.create_server(("0.0.0.0", 7999)) as listener:
    print(flush=True)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (word := connection.recv(1)):
        connection.sendall(word)
"""
ASK = """import socket, sys, time
trips = []
with socket.create_connection((sys.argv[1], 7999)) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(30):
        began = time.monotonic()
        connection.sendall(b"x")
        connection.recv(1)
        trips.append(time.monotonic() - began)
print(sorted(trips)[15])
"""


def round_trip(nets, one, other):
    """Seconds of a round trip by TCP between two machines, a median of 30."""
    with subprocess.Popen(nets.run(other, sys.executable, "-c", ECHO), stdout=subprocess.PIPE) as echo:
        echo.stdout.readline()
        done = subprocess.run(nets.run(one, sys.executable, "-c", ASK, nets.at[other]), check=True, capture_output=True, text=True, timeout=60)
    return float(done.stdout)


class Link:
    """Two network namespaces, `near` and `far`, joined by a link whose round trip takes `seconds`. `places` says which of the two each daemon's is. It has
    what test_sight.Nets has as far as Far needs it."""

    def __init__(self, seconds, **places):
        tag = f"dl{os.getpid() % 100000}"
        self.space = {"near": f"{tag}n", "far": f"{tag}f"}
        self.places, self.link = {"near": "near", "far": "far", **places}, None
        self.at = {who: {"near": "10.78.0.1", "far": "10.78.0.2"}[side] for who, side in self.places.items()}
        self.words = [BIN / "delay_link", *self.space.values(), str(round(seconds * 1e6))]

    def ip(self, *words, check=True):
        return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)

    def run(self, who, *words):
        return ["ip", "netns", "exec", self.space[self.places[who]], *map(str, words)]

    def __enter__(self):
        if os.geteuid() != 0 or shutil.which("ip") is None or not os.path.exists("/dev/net/tun"):
            raise Skip("needs root, `ip` and tun devices, for a link with a delay")
        # pylint: disable-next=consider-using-with
        self.link = subprocess.Popen(self.words, stdout=subprocess.PIPE)
        try:
            self.join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self):
        """Gives each namespace its end of the link."""
        if self.link.stdout.readline() != b"ready\n":
            raise Skip("no tun device can be made here")
        for side, space in self.space.items():
            if self.ip("netns", "add", space, check=False).returncode != 0:
                raise Skip("no network namespace can be made here")
            self.ip("link", "set", space, "netns", space)
            self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("-n", space, "link", "set", space, "mtu", "65000", "txqueuelen", "10000", "up")
            self.ip("-n", space, "addr", "add", f"{self.at[side]}/30", "dev", space)

    def __exit__(self, *_):
        self.link.kill()
        self.link.wait()
        for space in self.space.values():
            self.ip("netns", "del", space, check=False)

    def trip(self):
        return round_trip(self, "near", "far")


class Spread(Nets):
    """A bridge with a network namespace for each name, between any two of which a round trip takes `seconds` more than it does without."""

    def __init__(self, seconds, *names):
        self.seconds, self.links = seconds, []
        try:
            super().__init__(*names)
        except BaseException:
            if self.at:
                self.__exit__()
            raise

    def cable(self, near, far):
        """A packet passes two of these on its way, so each takes half of the delay."""
        if self.seconds == 0:
            super().cable(near, far)
            return
        # pylint: disable-next=consider-using-with
        link = subprocess.Popen([BIN / "delay_link", near, far, str(round(self.seconds * 1e6 / 2))], stdout=subprocess.PIPE)
        self.links.append(link)
        if link.stdout.readline() != b"ready\n":
            raise Skip("no tun device can be made here")
        for end in (near, far):
            self.ip("link", "set", end, "mtu", "65000", "txqueuelen", "10000")

    def traffic(self, name):
        """Bytes that a machine has sent and received so far, with all headers."""
        text = subprocess.run(self.run(name, "cat", "/proc/net/dev"), check=True, capture_output=True, text=True).stdout
        counts = next(line.split(":")[1].split() for line in text.splitlines() if line.strip().startswith(f"{self.tag}w"))
        return int(counts[8]), int(counts[0])

    def __exit__(self, *_):
        for link in self.links:
            link.kill()
            link.wait()
        super().__exit__()


@contextlib.contextmanager
def device(step):
    """Workers that start meanwhile and whose job says `train.backend: cuda` have a device whose step takes so many seconds (broken_module.c)."""
    names = {"SHOAL_CUDA_MODULE": "libshoal_broken.so", "SHOAL_BROKEN_STEP": str(round(step * 1e6))}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def trained(space, job, round_trip, step, lanes):
    """Trains a job on a fleet whose worker is so far from its server and coordinator, and has such a device; returns the report."""
    with Link(round_trip, c="far", s0="far", w="near") as link, Far(space, link) as fleet, device(step):
        fleet.shards = 1
        fleet.coordinator("--set", "insecure_plaintext=true")
        fleet.tcp("s0", "--set", "durability=memory", "--set", "memory=1GiB")
        fleet.fits()
        worker = fleet.start("w", "train", "--config", job, "--coordinator", fleet.endpoint, "--name", "w", "--lanes", lanes, "--insecure-plaintext",
                             program="shoal-worker")
        got = subprocess.run(link.run("c", SHOAL, "submit", job, "--coordinator", fleet.endpoint), capture_output=True, text=True, timeout=300, check=False)
        assert got.returncode == 0, f"{got.stdout[-2000:]}{got.stderr[-2000:]}{worker.log.read_text(errors='replace')[-2000:]}"
        assert worker.wait(30) == 0
        report = json.loads((space / "report.json").read_text(encoding="utf-8"))
        for who in ("coordinator", "s0"):
            fleet.kill(who)
            shutil.rmtree(fleet.folder(who), ignore_errors=True)
    assert report["backend"] == "broken", f"the device was {report['backend']}"
    return report
