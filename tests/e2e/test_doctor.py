#!/usr/bin/env python3
"""test_doctor: `shoal doctor` beside real daemons: ports, the coordinator's calendar, crash reports; and a bundle without secrets."""

from fleet import *

MOVED = BIN / "libmoved_clock.so"


def findings(*words):
    """Check -> its findings, of a line with --json; the status is 69 exactly when there is a problem."""
    got = shoal("doctor", "--json", *words)
    found = json.loads(got.stdout)
    assert got.returncode == (69 if found["problems"] else 0), got
    assert found["problems"] == sum(f["problem"] for f in found["findings"]), found
    return {name: [f for f in found["findings"] if f["check"] == name] for name in {f["check"] for f in found["findings"]}}


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
    fleet.running.pop("server").wait(20)
    one(findings("--config", file)["crashes"], True, f"1 crash reports in {space}/s, the newest crash-")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        one(findings("--config", file)["ports"], True, f"is taken by python3 (process {os.getpid()})")


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


def lines_that_contradict(space):
    for words in (("--cluster", "--config", space / "server.yaml"), ("--cluster", "--bundle", space / "b.tar.gz")):
        got = shoal("doctor", *words)
        assert got.returncode == 64 and "give one of them" in got.stderr, got
    (space / "server.yaml").write_text("listn: x\n")
    got = shoal("doctor", "--config", space / "server.yaml")
    assert got.returncode == 78 and "server.yaml:1" in got.stderr, got


if __name__ == "__main__":
    main([a_daemon_is_seen_beside_its_file, a_bundle_has_what_is_needed_and_no_secret, lines_that_contradict])
