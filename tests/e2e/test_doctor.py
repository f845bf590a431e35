#!/usr/bin/env python3
"""test_doctor: `shoal doctor` beside real daemons: ports, the coordinator's calendar, crash reports; and a bundle without secrets."""

import shlex

from fleet import *

os.environ.pop("OPENBLAS_CORETYPE", None)  # pinned kernels would be a fault in every case

MOVED = BIN / "libmoved_clock.so"


def findings(*words, under=(), **env):
    """Check -> its findings, of a line with --json; the status is 69 exactly when there is a problem."""
    got = subprocess.run([*under, SHOAL, "doctor", "--json", *words], capture_output=True, text=True, check=False, env={**os.environ, **env})
    assert got.returncode in (0, 69), got
    found = json.loads(got.stdout)
    assert got.returncode == (69 if found["problems"] else 0), got
    assert found["problems"] == sum(f["problem"] for f in found["findings"]), found
    return {name: [f for f in found["findings"] if f["check"] == name] for name in {f["check"] for f in found["findings"]}}


def problems_of(found):
    """Without what the disk's speed has to say: other tests write to it at the same time."""
    return {(n, f["text"]) for n, of in found.items() for f in of if f["problem"] and " MB/s, and journal" not in f["text"] and "a synced write in " not in f["text"]}


def one(of, problem, part):
    assert len(of) == 1 and of[0]["problem"] == problem and part in of[0]["text"], (of, part)


def server_file(space, **over):
    keys = {"listen": f"tcp://127.0.0.1:{free_port()}", "data_dir": str(space / "s"), "insecure_plaintext": True, "coordinator": f"ipc://{space}/c.sock", **over}
    (space / "server.yaml").write_text("# the password is COMMENT-SECRET\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in keys.items() if v is not None))
    return space / "server.yaml", keys


def a_daemon_is_seen_beside_its_file(space):
    """The port is free, then its server's; a coordinator that is not there; a calendar that is a day ahead; a crash."""
    file, keys = server_file(space)
    fleet = Fleet(space, "f", shards=1)
    before = findings("--config", file)
    port = keys["listen"].rsplit(":", 1)[1]
    one(before["ports"], False, f"port {port} of listen is free")
    one(before["clock"], True, f"the coordinator at ipc://{space}/c.sock cannot be asked for its time: ")
    one(before["crashes"], False, "no crash report")
    assert not before["disk"][0]["problem"] or "MB/s" in before["disk"][0]["text"], before
    for by in ("0", "86400"):
        os.environ.update(LD_PRELOAD=str(MOVED), SHOAL_CLOCK_OF="coordinator", SHOAL_CLOCK_BY=by)
        (space / "coordinator.yaml").write_text(f"listen: ipc://{space}/c.sock\ndata_dir: {space}/c\n")
        fleet.start("coordinator", "--config", space / "coordinator.yaml", program="shoal-coordinator")
        for name in ("LD_PRELOAD", "SHOAL_CLOCK_OF", "SHOAL_CLOCK_BY"):
            del os.environ[name]
        if by == "0":
            fleet.start("server", "--config", file)
            within(20, "the server", lambda: "1 shards ready" in fleet.said("server"))
        within(10, "the coordinator", lambda: (space / "c.sock").exists())
        now = findings("--config", file)
        one(now["ports"], False, f"port {port} of listen is open: shoal-server runs as process {fleet.running['server'].pid}")
        one(now["clock"], by != "0", "agree within 3 s" if by == "0" else "s behind that of the coordinator")
        fleet.kill("coordinator")
    fleet.running["server"].send_signal(signal.SIGSEGV)
    fleet.running.pop("server").wait(60)
    one(findings("--config", file)["crashes"], True, f"1 crash reports in {space}/s, the newest crash-")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        one(findings("--config", file)["ports"], True, f"is taken by python3 (process {os.getpid()})")


def beneath(*mounts):
    """A command line before another, in a mount namespace of its own: (file or "", place) is mounted there; "" is an empty folder."""
    steps = [f"mount --bind {shlex.quote(str(what))} {at}" if what else f"mount -t tmpfs tmpfs {at}" for what, at in mounts]
    return ["unshare", "--mount", "sh", "-ec", " && ".join([*steps, 'exec "$@"']), "sh"]


# Per fault: the check, its sentence (or the part of it that this machine does not decide), keys of server.yaml, what runs before the command, its
# environment. {space}: the test's folder. The faults that no real machine can be given are in tests/cli/test_doctor.c, with all sentences.
FAULTS = [
    ("limits", "at most 512 files may be open, and a daemon needs 4,096 or more", {}, ["prlimit", "--nofile=512:512"], {}),
    ("limits", "at most 0 bytes of memory may be locked, so secret keys could be swapped to a disk", {}, ["prlimit", "--memlock=0:0"], {}),
    ("ports", "listen: 192.0.2.1:7100 is no address of this machine, so the daemon cannot listen there", {"listen": "tcp://192.0.2.1:7100"}, [], {}),
    ("ports", "the folder {space}/nowhere of listen is not there: make it (mkdir -p {space}/nowhere)", {"listen": "ipc://{space}/nowhere/s"}, [], {}),
    ("ports", "metrics: 192.0.2.1:9464: other machines reach this address, and without a token everybody there could read", {"metrics": "192.0.2.1:9464"}, [], {}),
    ("ports", "metrics: 192.0.2.1:9464 is no address of this machine", {"metrics": "192.0.2.1:9464", "metrics_token": "{space}/token"}, [], {}),
    ("ports", "the folder {space}/nowhere of metrics is not there", {"metrics": "unix:{space}/nowhere/m"}, [], {}),
    ("space", "disk: 1024000.0 GiB is more than the whole file system of {space}", {"disk": "1000TiB"}, [], {}),
    ("space", "GiB free, less than 1024000.0 GiB (disk_free): pushes are refused", {"disk_free": "1000TiB"}, [], {}),
    ("space", "journal.max and journal.keep may take 1024001.0 GiB together", {"journal.max": "1GiB", "journal.keep": "1000TiB"}, [], {}),
    ("memory", "memory: 1024000.0 GiB, which takes 1075200.1 GiB with messages and the store, is more than the", {"memory": "1000TiB"}, [], {}),
    ("keys", "keys: {space}/open.key: mode 0644 lets others than its owner at the key: chmod 0400 {space}/open.key", {"keys": "{space}/open.key"}, [], {}),
    ("keys", "allow: {space}/allow:1: ", {"allow": "{space}/allow"}, [], {}),
    ("keys", "allow: {space}/no-list cannot be read: No such file or directory; make it", {"allow": "{space}/no-list"}, [], {}),
    ("names", "advertise: tcp://no-such-host.invalid:1: the name no-such-host.invalid has no address", {"advertise": "no-such-host.invalid"}, [], {}),
    ("blas", "OPENBLAS_CORETYPE=Haswell pins kernels without AVX-512", {}, [], {"OPENBLAS_CORETYPE": "Haswell", "CPUINFO": "fpu avx2 avx512f"}),
    ("blas", "OPENBLAS_CORETYPE=SkylakeX asks for kernels with AVX-512", {}, [], {"OPENBLAS_CORETYPE": "SkylakeX", "CPUINFO": "fpu avx2"}),
    ("pages", "transparent huge pages are off, so every row costs more page faults", {}, "never", {}),
    ("gpu", "the GPU's driver is loaded, but its library libcuda.so.1 does not open: install libcuda1", {}, "driver", {}),
]


def before_line(space, under, env):
    """What the table names by a word needs a mount namespace; None: it cannot be had here."""
    if "CPUINFO" in env:
        (space / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {env.pop('CPUINFO')}\n")
        under = beneath((space / "cpuinfo", "/proc/cpuinfo"))
    elif under == "never":
        (space / "never").write_text("always madvise [never]\n")
        under = beneath((space / "never", "/sys/kernel/mm/transparent_hugepage/enabled"))
    elif under == "driver" and pathlib.Path("/proc/driver/nvidia").exists():
        return None
    elif under == "driver":
        under = beneath(("", "/proc/driver"))
        under[4] = under[4].replace("exec", "mkdir /proc/driver/nvidia && echo NVRM > /proc/driver/nvidia/version && exec")
    if list(under[:1]) == ["unshare"] and subprocess.run([*under, "true"], check=False, capture_output=True).returncode != 0:
        return None
    return under


def planted_faults_are_told_and_no_other(space):
    """Each fault of the table brings its sentence, and no check but its own says more than before."""
    (space / "token").write_text("abcdefghijklmnopqrst\n")
    (space / "token").chmod(0o400)
    (space / "allow").write_text("nonsense\n")
    assert shoal("keygen", space / "open.key").returncode == 0
    (space / "open.key").chmod(0o644)
    file, _ = server_file(space, coordinator=None)
    plain, skipped = problems_of(findings("--config", file)), 0
    for check, sentence, keys, under, env in FAULTS:
        sentence, env = sentence.replace("{space}", str(space)), dict(env)
        under = before_line(space, under, env)
        if under is None:
            skipped += 1
            continue
        file, _ = server_file(space, coordinator=None, **{k: v.replace("{space}", str(space)) for k, v in keys.items()})
        of = problems_of(findings("--config", file, under=under, **env)) - plain
        assert len(of) == 1 and next(iter(of))[0] == check and sentence in next(iter(of))[1], (check, sentence, of)
    if skipped:
        raise Skip(f"{skipped} faults need a mount namespace; the others are told")


def the_command_that_is_advised_ends_the_finding(space):
    """chmod and mkdir as the sentences have them are typed; each finding is gone then, and no other has come."""
    assert shoal("keygen", space / "open.key").returncode == 0
    (space / "open.key").chmod(0o644)
    (space / "token").write_text("abcdefghijklmnopqrst\n")
    (space / "token").chmod(0o644)
    (space / "allow").write_text("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 worker w1\n")
    (space / "allow").chmod(0o666)
    file, _ = server_file(space, coordinator=None)
    plain = problems_of(findings("--config", file))
    file, _ = server_file(space, coordinator=None, keys=f"{space}/open.key", allow=f"{space}/allow", listen=f"ipc://{space}/a/s",
                          metrics=f"127.0.0.1:{free_port()}", metrics_token=f"{space}/token")

    def now():
        return problems_of(findings("--config", file)) - plain
    found = now()
    assert len(found) == 4, found
    while found:
        words = re.search(r"\b(chmod \d+ [^\s,;]+|mkdir -p [^\s,;)]+)", min(found)[1])[1]
        subprocess.run(words.split(), check=True)
        left = now()
        assert left < found and len(left) == len(found) - 1, (words, left)
        found = left


def what_hangs_is_left_after_ten_seconds(space):
    """A folder on a disk that hangs, and a name server that does not answer: the report comes, and names both. All other checks have ended."""
    with frozen_disk(space) as disk, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        file, _ = server_file(space, data_dir=str(disk), coordinator="tcp://a-name.example:7100", advertise="another.example")
        (space / "resolv.conf").write_text("nameserver 127.0.0.9\noptions timeout:30\n")
        under = beneath((space / "resolv.conf", os.path.realpath("/etc/resolv.conf")))
        try:
            deaf.bind(("127.0.0.9", 53))
        except OSError:
            raise Skip("port 53 of 127.0.0.9 cannot be had here") from None
        subprocess.run(["fsfreeze", "--freeze", disk], check=True)
        begun = time.monotonic()
        try:
            found = findings("--config", file, under=under)
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
        assert time.monotonic() - begun < 25
        one(found["disk"], True, "this check has not ended after 10 s: a disk or a file system of the network does not answer: see the kernel's log (dmesg)")
        for name in ("names", "clock"):
            one(found[name], True, "this check has not ended after 10 s: a name server does not answer: see /etc/resolv.conf, or give addresses in place")
        assert {"limits", "memory", "ports", "crashes", "blas"} <= found.keys(), found
        begun = time.monotonic()
        got = subprocess.run([*under, SHOAL, "doctor", "--cluster", "--coordinator", "tcp://a-name.example:7100"], capture_output=True, text=True, check=False)
        assert got.returncode == 69 and "after 10 s no address: a name server does not answer: see /etc/resolv.conf" in got.stderr, got
        assert time.monotonic() - begun < 25


def any_machine_gets_a_report(space):
    """An ordinary user, no /proc/sys, no /sys, no /run (a container without systemd), not even /proc: what cannot be seen is not called a fault."""
    plain = {name for name, _ in problems_of(findings())}
    lives = [["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]] if os.geteuid() == 0 else []
    lives += [beneath(("", at)) for at in ("/proc/sys", "/sys", "/run", "/proc")]
    ran = 0
    for under in lives:
        if subprocess.run([*under, SHOAL, "--version"], check=False, capture_output=True).returncode != 0:
            continue
        more = {name for name, _ in problems_of(findings(under=under))} - plain
        assert not more, (under, more)
        ran += 1
    if not ran:
        raise Skip("no mount namespace here")


def another_build(space, name):
    """A copy of a program with another build id, as a build of the same version with one line changed would have."""
    whole = (BIN / name).read_bytes()
    note = whole.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
    (space / name).write_bytes(whole[:note] + bytes(b ^ 255 for b in whole[note:note + 20]) + whole[note + 20:])
    (space / name).chmod(0o755)
    return space / name, whole[note:note + 6].hex()


def daemons_that_do_not_fit_are_told(space):
    """Two builds of the servers, a calendar a day ahead, a smaller budget, and what the coordinator says: each with its sentence, and the status."""
    other, build = another_build(space, "shoal-server")
    with Fleet(space, "f", shards=3) as fleet:
        fleet.coordinator()
        fleet.server("s0", "--set", "memory=4GiB")
        fleet.server("s1", "--set", "memory=1GiB")
        fleet.start("s2", "--set", f"listen={fleet.at('s2')}", "--set", f"data_dir={fleet.folder('s2')}", "--set", "name=s2", "--set", "memory=4GiB",
                    "--set", f"coordinator={fleet.endpoint}", program=other)

        def told():
            got = shoal("doctor", "--cluster", "--json", "--coordinator", fleet.endpoint)
            found = json.loads(got.stdout)
            assert got.returncode == (69 if found["problems"] else 0) and found["cluster"]["shards"] == 3, got
            return [(f["check"], f["text"]) for f in found["findings"] if f["problem"] or f["note"]]

        def only(*sentences):
            def fit():
                now = told()
                seen.append(now)
                return len(now) == len(sentences) and all(any(c == check and part in t for c, t in now) for check, part in sentences)
            seen = []
            try:
                within(20, f"the doctor to say {sentences}", fit)
            except AssertionError as e:
                raise AssertionError(f"{e}, but {seen[-1]}") from None
        budgets = ("budgets", ", and server s1 0.9 GiB, whose memory is full first")
        only(("builds", build), budgets)
        fleet.stop("s2")
        only(("problems", "server s2 (shard "), budgets)
        os.environ.update(LD_PRELOAD=str(MOVED), SHOAL_CLOCK_OF="name=s2", SHOAL_CLOCK_BY="86400")
        fleet.server("s2", "--set", "memory=4GiB")
        for name in ("LD_PRELOAD", "SHOAL_CLOCK_OF", "SHOAL_CLOCK_BY"):
            del os.environ[name]
        only(("clocks", "the calendar of server s2 is 86400 s ahead of the coordinator's: run a time service"), budgets)
        fleet.stop("s2")
        fleet.server("s2", "--set", "memory=4GiB")
        only(budgets)
        assert fleet.doctor().returncode == 0


def a_server_that_only_follows_is_asked(space):
    """It leads no shard, so it is no line of the status's servers. Its build and its silence are told."""
    other, build = another_build(space, "shoal-server")
    with Fleet(space, "f", shards=1) as fleet:
        fleet.coordinator("--set", "replicas=2")
        fleet.server("s0")
        fleet.start("s1", "--set", f"listen={fleet.at('s1')}", "--set", f"data_dir={fleet.folder('s1')}", "--set", "name=s1",
                    "--set", f"coordinator={fleet.endpoint}", program=other)

        def led_by():
            copies = fleet.state().get("cluster", {}).get("copies", [{}])[0]
            return copies.get("in_sync") == 2 and copies["leader"]
        leader = within(20, "both copies in sync", led_by)
        told = within(20, "the doctor to tell of two builds", lambda: (d := fleet.doctor().stdout) and build in d and d)
        follower = "s1" if leader == "s0" else "s0"
        assert "servers s0 and s1 have version" in told or "servers s1 and s0 have version" in told, told
        os.rename(fleet.at(follower).removeprefix("ipc://"), space / "away")  # it beats, and no newcomer reaches it
        within(20, "the doctor to tell of its silence", lambda: f"server {follower}/0 does not answer this machine" in fleet.doctor().stdout)
        os.rename(space / "away", fleet.at(follower).removeprefix("ipc://"))
        within(20, "the doctor to reach it", lambda: "does not answer this machine" not in fleet.doctor().stdout)


def a_bundle_has_what_is_needed_and_no_secret(space):
    """Findings, settings, status, log, report, crash report; no key, no command, no comment."""
    made = shoal("keygen", space / "c.key", "--role", "admin")
    assert made.returncode == 0, made
    secret = re.search(r"(?m)^secret\s+(\S+)", (space / "c.key").read_text(encoding="utf-8"))[1]
    train = synth(space / "train.tsv", 3000)
    job = job_file(space / "job.yaml", f"cat {train}")
    job.write_text(job.read_text().replace(json.dumps(f"cat {train}"), json.dumps({"cmd": f"PASSWORD=COMMAND-SECRET cat {train}"})), encoding="utf-8")
    run_job(job, space / "run")
    (space / "run/server-0/crash-1796000001-shoal-server-1.txt").write_text("shoal-server has crashed: signal 11\n")
    (space / "shadow").write_text("LINKED-SECRET\n")
    (space / "run/server-0/crash-1796000002-shoal-server-1.txt").symlink_to(space / "shadow")
    file, _ = server_file(space, keys=str(space / "c.key"), listen=f"ipc://{space}/s.sock", insecure_plaintext=None)
    for config, ending in ((file, "tar.gz"), (job, "tar.gz"), *([(file, "tar.zst")] if shutil.which("zstd") else [])):
        out = space / f"b.{ending}"
        got = shoal("doctor", "--config", config, "--run-dir", space / "run", "--bundle", out)
        assert got.returncode == 0 and "look through it before you send it" in got.stderr, got
        assert out.stat().st_mode & 0o777 == 0o600
        unpacked = space / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir()
        subprocess.run(["tar", "-xf", out, "-C", unpacked], check=True)
        names = {p.name for p in unpacked.iterdir()}
        assert {"doctor.json", "settings.yaml", "journal.txt", "uname.txt", "os-release", "log-coordinator.log", "log-server-0.log", "report.json",
                "crash-1796000001-shoal-server-1.txt"} <= names and ".shoal-lock" not in names, names
        assert json.loads((unpacked / "doctor.json").read_text())["findings"]
        whole = b"".join(p.read_bytes() for p in unpacked.iterdir())
        for word in (secret, "COMMAND-SECRET", "COMMENT-SECRET", "LINKED-SECRET"):
            assert word.encode() not in whole, word
        assert b"data_dir" in whole or config == job
    got = subprocess.run([SHOAL, "doctor", "--bundle", "host:1.tar.gz"], cwd=space.path, capture_output=True, text=True, check=False)
    assert got.returncode == 0 and "doctor.json" in " ".join(subprocess.run(["tar", "--force-local", "-tf", space / "host:1.tar.gz"], capture_output=True, text=True, check=True).stdout.split()), got
    got = shoal("doctor", "--bundle", space / "b.zip")
    assert got.returncode == 64 and "ends in .tar.zst or .tar.gz" in got.stderr, got
    assert not list(pathlib.Path(tempfile.gettempdir()).glob("shoal-doctor-*"))


def unpacked(bundle, at):
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir()
    subprocess.run(["tar", "-xf", bundle, "-C", at], check=True)
    return {p.name: p.read_text(errors="replace") for p in at.iterdir()}


def secrets_in_every_place_stay_here(space):
    """Commands that a worker sets, a job's and its publish, users and passwords in URLs, the token's file, the environment, a log that names a URL."""
    (space / "worker.yaml").write_text(f"coordinator: tcp://u:S1-SECRET@127.0.0.1:7000\nmetrics_token: {space}/token\n"
                                       'set: ["data.train={cmd: \\"P=S2-SECRET x\\"}", "data.valid=cmd:P=S3-SECRET x"]\n')
    (space / "coordinator.yaml").write_text(f"listen: ipc://{space}/c.sock\ndata_dir: {space}/c\nstore: zookeeper://u:S4-SECRET@127.0.0.1:2181/p\n")
    job_file(space / "job.yaml", "https://u:S5-SECRET@h.example/log", **{"checkpoint.dir": str(space / "k"), "checkpoint.publish": "P=S6-SECRET x"})
    (space / "token").write_text("S7-SECRET-abcdefghijkl\n")
    (space / "token").chmod(0o400)
    (space / "run/log").mkdir(parents=True)
    (space / "run/log/x.log").write_text("got https://u:S8@SECRET@h.example/x, not https://h.example/a@b, user@h.example\n")
    env = {**os.environ, "AWS_SECRET_ACCESS_KEY": "S9-SECRET", "SHOAL_COORDINATOR": "tcp://u:S10-SECRET@127.0.0.1:7999"}
    for name in ("worker", "coordinator", "job"):
        got = subprocess.run([SHOAL, "doctor", "--config", space / f"{name}.yaml", "--run-dir", space / "run", "--bundle", space / "b.tar.gz"],
                             capture_output=True, text=True, check=False, env=env)
        assert got.returncode == 0, got
        packed = unpacked(space / "b.tar.gz", space / "unpacked")
        assert len(packed["settings.yaml"]) > 50
        for file, text in packed.items():
            assert "SECRET" not in text, (name, file, text)
        assert re.search(r"got https://\*+@h\.example/x, not https://h\.example/a@b, user@h\.example", packed["log-x.log"]), packed["log-x.log"]


def a_bundle_is_made_or_says_what_is_missing(space):
    """No coordinator and no journalctl: both are told in their files. A full TMPDIR, a full folder of the bundle: an error and no file. An ordinary user."""
    tools = space / "bin"
    tools.mkdir()
    for name in ("tar", "gzip", "uname"):
        (tools / name).symlink_to(shutil.which(name))
    out = space / "b.tar.gz"
    got = subprocess.run([SHOAL, "doctor", "--coordinator", "tcp://127.0.0.1:1", "--bundle", out], capture_output=True, text=True, check=False,
                         env={**os.environ, "PATH": str(tools)})
    packed = unpacked(out, space / "unpacked")
    assert got.returncode == 0 and "journalctl: cannot run it: No such file" in packed["journal.txt"] and "no answer" in packed["status.json"], (got, packed)
    with small_disk(space, "64k") as full:
        subprocess.run(["dd", "if=/dev/zero", f"of={full / 'x'}"], check=False, capture_output=True)
        got = subprocess.run([SHOAL, "doctor", "--bundle", out], capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(full)})
        assert got.returncode == 73 and "set TMPDIR to a folder with 100 MB free" in got.stderr and not list(full.glob("shoal-doctor-*")), got
        got = shoal("doctor", "--bundle", full / "b.tar.gz")
        assert got.returncode == 73 and "was not made" in got.stderr and not (full / "b.tar.gz").exists(), (got, list(full.iterdir()))
    if os.geteuid() == 0:
        home = space / "home"
        home.mkdir()
        os.chown(home, 65534, 65534)
        space.path.chmod(0o755)
        got = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", SHOAL, "doctor", "--bundle", home / "b.tar.gz"],
                             capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(home)})
        assert got.returncode == 0 and "doctor.json" in unpacked(home / "b.tar.gz", space / "unpacked"), got


def lines_that_contradict(space):
    for words in (("--cluster", "--config", space / "server.yaml"), ("--cluster", "--bundle", space / "b.tar.gz")):
        got = shoal("doctor", *words)
        assert got.returncode == 64 and "give one of them" in got.stderr, got
    (space / "server.yaml").write_text("listn: x\n")
    got = shoal("doctor", "--config", space / "server.yaml")
    assert got.returncode == 78 and "server.yaml:1" in got.stderr, got


if __name__ == "__main__":
    main([a_daemon_is_seen_beside_its_file, planted_faults_are_told_and_no_other, the_command_that_is_advised_ends_the_finding,
          what_hangs_is_left_after_ten_seconds,
          any_machine_gets_a_report, daemons_that_do_not_fit_are_told, a_server_that_only_follows_is_asked, a_bundle_has_what_is_needed_and_no_secret,
          secrets_in_every_place_stay_here, a_bundle_is_made_or_says_what_is_missing, lines_that_contradict])
