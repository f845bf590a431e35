#!/usr/bin/env python3
"""test_signed: a fleet that loads signed checkpoints alone: what a listed key has signed is restored, with the same tables; what has no signature,
another's, or was changed afterwards is refused in words, and the next good one is taken."""
import re

from fleet import *

KEYS = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "tables[0].optimizer.lr": 1.0}


class Signed(Fleet):
    """All its daemons ask for signatures."""

    def coordinator(self, *words, **other):
        return super().coordinator("--set", f"checkpoint_signers={self.space / 'signers'}", *words, **other)

    def server(self, who, *words, **other):
        return super().server(who, "--set", f"checkpoint_signers={self.space / 'signers'}", *words, **other)


def keys_make(space):
    """Two keys that sign; one is listed."""
    for name in ("ann", "eve"):
        got = shoal("keygen", space / f"{name}.key", "--role", "sign")
        assert got.returncode == 0 and re.fullmatch(rf"[0-9a-f]{{64}} # {name}\n", got.stdout), got
        assert (space / f"{name}.key").stat().st_mode & 0o777 == 0o400
        if name == "ann":
            (space / "signers").write_text("# whose checkpoints are good\n" + got.stdout)


def sign(space, path, key="ann", status=0):
    got = shoal("checkpoint", "sign", path, "--key", space / f"{key}.key")
    assert got.returncode == status, got
    return got.stdout + got.stderr


def verify(space, path, status, text):
    got = shoal("checkpoint", "verify", path, "--signers", space / "signers")
    assert got.returncode == status and text in got.stdout + got.stderr, (path, got)


def checkpoint_of(space):
    """A job of one epoch with a checkpoint of its end, and its tables."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **KEYS, **{"checkpoint.at_end": True})
    tables = digests(run_job(job, space / "run"))
    return job, tables, max((space / "run/checkpoints").iterdir())


def copy_of(space, path, name):
    shutil.copytree(path, space / name)
    return space / name


def byte_flip(file):
    whole = file.read_bytes()
    file.unlink()  # row files may be shared with a server's own
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


def refused(fleet, job, path, text):
    """The job does not begin, or ends, with 77 and the reason."""
    got = shoal("submit", job, "--coordinator", fleet.endpoint, "--start-from", path, "--set", "fresh=[all]")
    assert got.returncode == 77 and text in got.stdout + got.stderr, (path, got)


def signed_ones_are_loaded_and_no_others(space):
    job, tables, path = checkpoint_of(space)
    keys_make(space)
    good = copy_of(space, path, "good")
    assert "signed by " in sign(space, good)
    verify(space, good, 0, "signed by ")
    bad = {name: copy_of(space, good, name) for name in ("unsigned", "anothers", "rows", "manifest", "part", "job", "state", "gone", "cut")}
    (bad["unsigned"] / "signature").unlink()
    sign(space, bad["anothers"], "eve")
    byte_flip(max(p for p in bad["rows"].glob("part-0000/rows/*") if p.stat().st_size > 0))
    byte_flip(bad["manifest"] / "manifest.json")
    byte_flip(bad["part"] / "part-0000/manifest")
    byte_flip(bad["job"] / "job.yaml")
    byte_flip(bad["state"] / "coordinator.state")
    (bad["gone"] / "job.yaml").unlink()
    text = (bad["cut"] / "signature").read_text().splitlines(True)
    (bad["cut"] / "signature").write_text("".join(text[:1] + text[2:]))
    says = {"unsigned": "is not signed", "anothers": "none of the keys that are good here", "gone": "job.yaml", "cut": "is no whole signature"}
    for name, folder in bad.items():
        verify(space, folder, 77, "")
    more = job_file(space / "more.yaml", space / "train.tsv", **KEYS, **{"train.skip": True})
    with Signed(space, "f").up() as fleet:
        fleet.fits()
        worker = fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        for name, folder in bad.items():
            if name != "gone":
                refused(fleet, more, folder, says.get(name, "is not the file that was signed"))
        got = shoal("submit", more, "--coordinator", fleet.endpoint, "--start-from", bad["gone"], "--set", "fresh=[all]")
        assert got.returncode in (66, 77) and "job.yaml" in got.stdout + got.stderr, got
        got = shoal("submit", more, "--coordinator", fleet.endpoint, "--start-from", good, "--set", "fresh=[all]")
        assert got.returncode == 0, (got, fleet.said("coordinator")[-2000:])
        assert digests(json.loads((space / "report.json").read_text())) == tables
        # a new key is listed, and counts at once
        refused(fleet, more, bad["anothers"], "none of the keys")
        with open(space / "signers", "a", encoding="utf-8") as f:
            f.write((space / "eve.key.pub").read_text())
        got = shoal("submit", more, "--coordinator", fleet.endpoint, "--start-from", bad["anothers"], "--set", "fresh=[all]")
        assert got.returncode == 0, got
        assert digests(json.loads((space / "report.json").read_text())) == tables
        assert worker.poll() is None
    secret = re.search(r"^sign-secret (\S+)$", (space / "ann.key").read_text(), re.M).group(1)
    for file in [*space.path.glob("*.log"), good / "signature"]:
        assert secret not in file.read_text(errors="replace")


def restore_goes_on_with_a_signed_one_alone(space):
    """`shoal checkpoint restore`, of a job in its midst, with the job file that is kept in it; and a job's own are signed as they are made."""
    keys_make(space)
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1),
                   **{**KEYS, "train.epochs": longer(4), "checkpoint.dir": str(space / "points"), "checkpoint.every_batches": 20, "checkpoint.keep": 0,
                      "checkpoint.publish": [str(SHOAL), "checkpoint", "sign", "--key", str(space / "ann.key")]})
    with Fleet(space, "a", 1).up() as fleet:
        fleet.stop("coordinator")
        fleet.coordinator("--set", "publish=true")
        fleet.fits()
        whole = fleet.job(job)
    points = sorted(p for p in (space / "points").iterdir() if p.suffix != ".tmp")
    signed = [p for p in points if (p / "signature").exists()]
    if not signed:
        raise TooShort(points)
    verify(space, signed[0], 0, "signed by ")
    bare = copy_of(space, signed[0], "bare")
    (bare / "signature").unlink()
    with Signed(space, "b", 1).up() as fleet:
        fleet.fits()
        fleet.start("worker", "run", "--set", f"coordinator={fleet.endpoint}", program="shoal-worker")
        got = shoal("checkpoint", "restore", bare, "--coordinator", fleet.endpoint, "--set", "checkpoint.publish=[]")
        assert got.returncode == 77 and "is not signed" in got.stderr, got
        got = shoal("checkpoint", "restore", signed[0], "--coordinator", fleet.endpoint, "--set", "checkpoint.publish=[]")
        assert got.returncode == 0, (got, fleet.said("coordinator")[-2000:])
        assert digests(json.loads((space / "report.json").read_text())) == whole


def daemons_and_tools_say_what_is_wrong(space):
    """A list that cannot be gone by keeps a daemon from starting; what is damaged gets no signature; verify tells whose there is."""
    _, _, path = checkpoint_of(space)
    keys_make(space)
    for who, program in (("c", "shoal-coordinator"), ("s", "shoal-server")):
        for status, text, says in ((66, None, "cannot read the list"), (78, "", "lists no key"), (78, "0123\n", ":1: a line is")):
            if text is not None:
                (space / "list").write_text(text)
            words = [BIN / program, "--set", f"listen=ipc://{space / who}.sock", "--set", f"data_dir={space / who}", "--set",
                     f"checkpoint_signers={space / 'list'}"]
            got = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False)
            assert got.returncode == status and says in got.stderr, got
        (space / "list").unlink()
    got = shoal("checkpoint", "verify", path)
    assert got.returncode == 0 and "it is not signed" in got.stdout, got
    key = (space / "ann.key.pub").read_text().strip()
    assert f"signed by {key}" in sign(space, path)
    got = shoal("checkpoint", "verify", path)
    assert got.returncode == 0 and f"signed by {key}" in got.stdout, got
    bad = copy_of(space, path, "bad")
    byte_flip(bad / "coordinator.state")
    before = (bad / "signature").read_bytes()
    assert "damaged" in sign(space, bad, status=74)
    assert (bad / "signature").read_bytes() == before
    got = shoal("checkpoint", "sign", path)
    assert got.returncode == 64 and "--key FILE" in got.stderr, got
    shoal("keygen", space / "curve.key")
    assert "sign-public" in sign(space, path, "curve", status=78)
    got = shoal("keygen", space / "x.key", "--role", "sign", "--coordinator", space / "curve.key.pub")
    assert got.returncode == 64, got


if __name__ == "__main__":
    main([signed_ones_are_loaded_and_no_others, restore_goes_on_with_a_signed_one_alone, daemons_and_tools_say_what_is_wrong])
