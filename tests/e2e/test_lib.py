#!/usr/bin/env python3
"""test_lib: libshoal as installed: header and library are enough, a fleet that is restarted under a program, keys and roles, a worker in C and its deaths."""
from library import *
from test_keys import Keyed

CODES = {"ok": 0, "unreachable": 4, "denied": 7, "stopped": 11}


def codes(program, *words):
    """What each call gave, as {call: code}, and all that was said."""
    got = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert got.returncode == 0, got
    return {m[1]: int(m[2]) for m in re.finditer(r"^(\w+) (\d+)", got.stdout, re.M)}, got.stdout


def the_header_and_the_library_are_enough(space):
    root = installed(space)
    assert [p.name for p in next(root.rglob("shoal.h")).parent.iterdir()] == ["shoal.h"]
    compiled(space, "library_calls")
    compiled(space, "library_calls", compiler=("cc", "-std=gnu17"))
    needed = subprocess.run(["readelf", "-d", space / "library_calls"], capture_output=True, text=True, check=True).stdout
    assert "libshoal.so.1" in needed and "zmq" not in needed, needed


def rows_outlive_a_fleet(space):
    program = compiled(space, "library_calls")
    with Fleet(space, "f") as fleet:
        fleet.up()
        job = counting_job(space, "job.yaml", synth(space / "train.tsv", 2000, 1), 1, **{"durability": "journal"})
        ended(fleet, submit(fleet, job))
        got, said = codes(program, fleet.endpoint, "-", "emb")
        assert {got[call] for call in ("open", "find", "fetch", "state", "assign", "again")} == {0}, said
        assert "found 1 1 1, first 7" in said, said
        fleet.kill("s0")
        got, said = codes(program, fleet.endpoint, "-", "emb", 1500)
        assert got["fetch"] == CODES["unreachable"] and "again" in got, said
        fleet.server("s0")
        fleet.fits()
        got, said = codes(program, fleet.endpoint, "-", "emb")
        assert "found 1 1 1, first 7" in said, said
        got, said = codes(program, fleet.endpoint, "-", "nothing")
        assert got["find"] == 3 and "emb" in said, said
    got, said = codes(program, fleet.endpoint, "-", "emb", 1000)
    assert got["open"] == CODES["unreachable"], said


def a_key_file_decides(space):
    """Calls by roles: serve reads rows alone, worker joins jobs too, admin writes; eve is on no list."""
    program = compiled(space, "library_calls")
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 4000, 1))
    ok, no, late = 0, CODES["denied"], CODES["stopped"]
    with Keyed(space).up() as f:
        worker = f.worker(job)
        assert f.ask("ann", "submit", job).returncode == 0
        assert worker.wait(60) == 0
        for key, wanted in (("srv", {"open": ok, "fetch": ok, "state": no, "assign": no, "join": no}),
                            ("w1", {"open": ok, "fetch": ok, "state": no, "assign": no, "join": late}),
                            ("ann", {"open": ok, "fetch": ok, "state": ok, "assign": ok, "join": no})):
            got, said = codes(program, f.endpoint, space / f"{key}.key", "emb")
            assert {call: got.get(call) for call in wanted} == wanted, (key, said)
        got, said = codes(program, f.endpoint, space / "eve.key", "emb", 1500)
        assert got["open"] != ok, said
        got, said = codes(program, f.endpoint, "-", "emb", 1500)
        assert got["open"] != ok, said


def job_of(space, epochs=2, **over):
    return counting_job(space, "job.yaml", synth(space / "train.tsv", 8000, 5), epochs,
                        **{"model.kind": "external", "model.hidden": None, "tables[0].init.kind": "zero", "tables[0].optimizer.lr": 1.0, **over})


def counted(space, epochs=2):
    """The digest of the table that the built-in probe makes of the same job."""
    job = job_of(space, epochs, **{"model.kind": "probe"})
    report = run_job(job, space / "probe")
    return digests(report)["emb"]


def a_program_counts_what_the_probe_counts(space):
    program, wanted = compiled(space, "counting_worker"), counted(space)
    job = job_of(space, **{"data.valid": [str(synth(space / "valid.tsv", 1000, 6))]})
    report = run_job(job, space / "run", servers=2, workers=2, extra=("--worker", program))
    assert digests(report)["emb"] == wanted
    assert report["valid"]["examples"] == 1000, report["valid"]
    assert {b["backend"] for b in report["backends"]} == {"external"}, report["backends"]
    said = pathlib.Path(f"{space / 'run'}.out").read_text()
    again = re.search(r"\S+ local \S+ .*--worker \S+.* --servers 2 --workers 2", said)
    assert again and "()" not in said, said


def killed(run, program, name):
    """Kills the program of that name, which is no child of `shoal local` itself."""
    def found():
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == [str(program).encode(), name.encode()]:
                    return int(entry.name)
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(until(run, name, found), signal.SIGKILL)


def deaths_change_no_count(space):
    epochs = longer(6)
    program, wanted = compiled(space, "counting_worker"), counted(space, epochs)
    run = Run(job_of(space, epochs), space / "run", servers=2, workers=2, extra=("--worker", f"exec env SHOAL_TEST_FAIL=3 {program} worker-$SHOAL_WORKER"))
    started(run)
    for n in (0, 1):
        killed(run, program, f"worker-{n}")
        strike(run, f"server-{n}")
    assert run.wait() == 0, run.output()[-3000:]
    assert digests(run.report())["emb"] == wanted


def a_worker_is_of_one_job(space):
    """A worker that was away beyond its lease is given the next job, whose rows are of another width: it leaves, and does not compute with the first one's."""
    program = compiled(space, "counting_worker")
    job = job_of(space, longer(200))
    with Fleet(space, "f", shards=1) as fleet:
        fleet.up().fits()
        os.environ["SHOAL_COORDINATOR"] = fleet.endpoint
        away, _ = (fleet.start(name, program=program) for name in ("w0", "w1"))
        first = subprocess.Popen([SHOAL, "submit", job, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        training(fleet)
        away.send_signal(signal.SIGSTOP)
        time.sleep(5)  # the lease is 2 s
        other = job_file(space / "other.yaml", space / "train.tsv", **{
            "job": "other", "space": "other", "model.kind": "external", "model.hidden": None, "tables[0].dim": 4})
        second = subprocess.Popen([SHOAL, "submit", other, "--coordinator", fleet.endpoint], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        within(30, "the next job to wait", lambda: " other " in shoal("jobs", "--coordinator", fleet.endpoint).stdout)
        under_way(first)
        away.send_signal(signal.SIGCONT)
        away.wait(60)
        under_way(first)
        assert away.returncode == 70 and "another job" in away.log.read_text(), away.log.read_text()
        for submission in (first, second):
            submission.kill()
            submission.communicate()
    del os.environ["SHOAL_COORDINATOR"]



if __name__ == "__main__":
    main([the_header_and_the_library_are_enough, rows_outlive_a_fleet, a_key_file_decides, a_program_counts_what_the_probe_counts,
          deaths_change_no_count, a_worker_is_of_one_job])
