#!/usr/bin/env python3
"""test_golden: folders that earlier versions have left (tests/golden/VERSION, written by tests/golden/make) open with the programs of today: servers
killed in the middle of a job, a checkpoint, a coordinator's store. Digests, rows and the pushes that changed them come back as the version that wrote them
told them, and the job goes on to the end that it had there. One changed byte is refused with the name of its file.

A version that cannot be opened any more has a file `refused` in its folder, with the sentence that names it and the way over: it must be said."""
from lib import *

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import golden  # noqa: E402 - of that folder


def versions():
    found = sorted(p.parent for p in GOLDEN.glob("*/expected.json") if not (p.parent / "refused").exists())
    assert found, f"no golden files in {GOLDEN}"
    return found


def each(space):
    """Every version: what is expected of it, and its folders unpacked."""
    for folder in versions():
        where = space / folder.name
        where.mkdir()
        yield json.loads((folder / "expected.json").read_text(encoding="utf-8")), golden.unpack(folder, where)


def same(told, expected, what):
    """Says which entry differs, not both dictionaries."""
    differs = {k: (told.get(k), expected.get(k)) for k in {*told, *expected} if told.get(k) != expected.get(k)}
    assert not differs, f"{what}, now and then: {differs}"


def trains_alike(expected, report):
    """True when this machine computes the same bits as the one that made the files."""
    here = f"{report['kernel']}, {golden.library()}"
    if here != expected["kernel"]:
        print(f"      {expected['made_by']} trained with {expected['kernel']}, this machine has {here}: its last digests are not compared", flush=True)
    return here == expected["kernel"]


def killed_servers_come_back(space):
    for expected, where in each(space):
        keys = {table: some + (expected["erased"] if table == "page" else []) for table, some in expected["keys"].items()}
        shutil.copytree(where / "fleet", where / "read")
        same(golden.read_folders(where / "read"), expected["killed"]["digests"], "digests of the folders")
        with golden.Folder(where / "fleet").start_all() as fleet:
            fleet.ready()
            told = golden.read_running(fleet, keys)
            for what in ("digests", "rows", "pushes"):
                same(told[what], expected["killed"][what], what)
            fleet.until("cold rows", lambda: sum(s.get("rows_store", 0) for s in fleet.status().get("servers", [])) > 0)
            names = {p.name for p in (fleet.where / "coordinator").iterdir()}
            assert "store" in names and "state.log" not in names and ("state.log.0.2.0" in names) == (expected["version"] == "0.2.0"), names
            assert fleet.worker().wait(60) == 0, fleet.logs()[-3000:]
            fleet.until("report", lambda: (fleet.where / "report.json").exists())
            report = json.loads((fleet.where / "report.json").read_text(encoding="utf-8"))
            assert (report["job"], report["final_epoch"]) == ("golden", 3), report
            if trains_alike(expected, report):
                same(golden.digests_reported(fleet.where), expected["ended"], "digests at the end")


def checkpoint_goes_on(space):
    for expected, where in each(space):
        folder = where / "checkpoint/middle"
        golden.shoal("checkpoint", "verify", folder)
        same(golden.read_checkpoint(folder, where), expected["checkpoint"], "rows of the checkpoint")
        for servers in (1, 2):
            golden.shoal("local", "job.yaml", "--resume", "middle", "--servers", servers, "--run-dir", f"on-{servers}", where=where / "checkpoint")
            report = json.loads((where / f"checkpoint/on-{servers}/report.json").read_text(encoding="utf-8"))
            assert report["final_epoch"] == 3, report
            if trains_alike(expected, report):
                same(golden.digests_reported(where / f"checkpoint/on-{servers}"), expected["ended"], f"digests at the end, {servers} servers")


def flip(file, share=0.4):
    whole = bytearray(file.read_bytes())
    whole[int(len(whole) * share)] ^= 16
    file.write_bytes(whole)


def ends_with(where, status, *words):
    """Returns the output of a daemon that cannot start."""
    done = subprocess.run([BIN / words[0], *words[1:]], capture_output=True, text=True, timeout=60, check=False, cwd=where)
    assert done.returncode == status, f"{words}: exit status {done.returncode}, {status} expected:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def one_changed_byte_is_refused_by_name(space):
    server = ("shoal-server", "--set", f"listen=ipc://{space}/s.sock", "--set", "data_dir=server-0", "--set", f"coordinator=ipc://{space}/none")
    coordinator = ("shoal-coordinator", "--set", f"listen=ipc://{space}/c.sock", "--set", "data_dir=coordinator")
    for _, where in each(space):
        fleet, shard = where / "fleet", where / "fleet/server-0/shard-0"
        live = sorted(shard.glob("journal/seg-*"))[0], sorted(shard.glob("rows/MANIFEST-*"))[0], max(shard.glob("rows/*.sst"), key=lambda p: p.stat().st_size)
        state = fleet / "coordinator/state.log"  # of 0.2.0
        if not state.exists():
            state = max((fleet / "coordinator/store").glob("*.sst"), key=lambda p: p.stat().st_size)
        for file, words in (*((f, server) for f in live), (state, coordinator)):
            damaged = where / f"damaged-{file.name}"  # a server that starts changes its folder
            shutil.copytree(fleet, damaged)
            flip(damaged / file.relative_to(fleet))
            said = ends_with(damaged, 74, *words)
            assert file.name in said, f"{file}: {said}"
        files = sorted(p for p in (where / "checkpoint/middle").rglob("*") if p.is_file() and p.stat().st_size > 0)
        for file in files:
            whole = file.read_bytes()
            flip(file)
            said = golden.shoal("checkpoint", "verify", where / "checkpoint/middle", status=74)
            assert file.name in said, f"{file}: {said}"
            file.write_bytes(whole)
        golden.shoal("checkpoint", "verify", where / "checkpoint/middle")


def version_that_is_too_old_is_refused(space):
    for folder in sorted(p.parent for p in GOLDEN.glob("*/refused")):
        words = " ".join((folder / "refused").read_text(encoding="utf-8").split())
        where = space / folder.name
        where.mkdir()
        golden.unpack(folder, where)
        done = subprocess.run([SHOAL, "digest", "--run-dir", where / "fleet"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and words in done.stderr, f"{words} is not said: {done}"


if __name__ == "__main__":
    main([killed_servers_come_back, checkpoint_goes_on, one_changed_byte_is_refused_by_name, version_that_is_too_old_is_refused])
