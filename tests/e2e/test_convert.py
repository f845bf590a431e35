#!/usr/bin/env python3
"""test_convert: text, event files and kept rows of one log train the very same tables; `shoal convert` writes, checks and refuses."""
from lib import *


def convert(job, *words):
    return subprocess.run([SHOAL, "convert", str(job), *map(str, words)], capture_output=True, text=True, timeout=120)


def job_of(space, name, **over):
    return job_file(space / name, space / "log.tsv", **{"train.consistency": "bsp", "train.epochs": 2, "data.valid": str(space / "valid.tsv"),
                                                        "data.negatives": 0.6, "data.max_bad": 0.5, **over})


def result(report):
    return digests(report), report["bad_lines"], report["valid"]["auc"], report["valid"]["logloss"]


def text_events_and_kept_rows_train_the_same(space):
    synth(space / "log.tsv", 20000)
    synth(space / "valid.tsv", 5000, seed=2)
    with open(space / "log.tsv", "a", encoding="utf-8") as f:
        f.write("".join(f"{i}\tno line\n" for i in range(300)))
    job = job_of(space, "text.yaml")
    text = result(run_job(job, space / "text"))
    assert text[1] > 0, text
    for split in ("train", "valid"):
        done = convert(job, "--split", split, "--out", space / f"{split}.events")
        assert done.returncode == 0 and "rows in" in done.stdout, done
    over = {"data.format": "events", "data.train": str(space / "train.events"), "data.valid": str(space / "valid.events")}
    report = run_job(job_of(space, "events.yaml", **over), space / "events", workers=2)
    assert result(report) == text, (report, text)
    looked = [json.loads((space / run / "report.json").read_text())["input"] for run in ("text", "events")]
    assert looked[1] is not None and looked[1]["rows"] == 20000 and looked[1]["whole"] is True, looked[1]
    assert [(f["name"], f["kind"]) for f in looked[1]["fields"]] == [(f["name"], f["kind"]) for f in looked[0]["fields"]], looked
    assert [f["values"] for f in looked[1]["fields"] if f["kind"] == "category"] == [f["values"] for f in looked[0]["fields"] if f["kind"] == "category"], looked
    assert report["valid"]["unseen"] == json.loads((space / "text" / "report.json").read_text())["valid"]["unseen"]
    assert all("/log.tsv:20" in w and "2 columns between tabs" in w for w in report["bad_where"]), report["bad_where"]
    kept = job_of(space, "kept.yaml", **{"data.cache": str(space / "cache")})
    assert result(run_job(kept, space / "kept", workers=2)) == text
    assert len(list((space / "cache").glob("*.rows"))) == 2
    again = run_job(kept, space / "again", extra=["--set", "model.hidden=[4]"])  # a variant: nothing is made anew
    assert len(list((space / "cache").glob("*.rows"))) == 2 and again["bad_lines"] == text[1]
    bounded = run_job(job_of(space, "bounded.yaml", **{"data.cache": str(space / "small"), "data.cache_max": "1M"}), space / "bounded")
    assert result(bounded) == text
    assert not any(p.name.endswith(".rows") and p.stat().st_size > 2**20 for p in (space / "small").iterdir())


def what_is_wrong_is_said(space):
    synth(space / "log.tsv", 2000)
    synth(space / "valid.tsv", 100)
    job, out = job_of(space, "job.yaml"), space / "log.events"
    assert convert(job, "--out", out).returncode == 0
    done = convert(job, "--out", out)
    assert done.returncode == 73 and "is there already" in done.stderr, done
    assert convert(job, "--out", space / "no" / "x").returncode == 73
    assert convert(job).returncode == 64 and convert("--check", space / "log.tsv").returncode == 65
    assert convert(space / "none.yaml", "--out", space / "y").returncode == 66
    told = json.loads(convert("--check", out, "--json").stdout)
    assert told["rows"] == 2000 and told["blocks"] == 1 and len(told["columns"]) == 40, told
    data = bytearray(out.read_bytes())
    data[len(data) // 2] ^= 1
    out.write_bytes(data)
    done = convert("--check", out)
    assert done.returncode == 74 and "log.events: block 0 of 1 is damaged" in done.stderr, done
    run = Run(job_of(space, "bad.yaml", **{"data.format": "events", "data.train": str(out), "data.valid": None}), space / "bad")
    assert run.wait() == 74 and "block 0 of 1 is damaged" in run.output(), run.output()


def what_is_killed_leaves_nothing(space):
    """However the command ends while the file is written; of a signal that it can tell of, it tells."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 60000, 1))
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        said = subprocess.Popen([SHOAL, "convert", str(job), "--out", "log.events"], cwd=str(space), stderr=subprocess.PIPE, text=True)
        writes = 0
        while said.poll() is None and not writes:
            for child in pathlib.Path(f"/proc/{said.pid}/task/{said.pid}/children").read_text().split():
                with contextlib.suppress(OSError):
                    open_there = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")]
                    if any("log.events" in name or f"{space}/#" in name for name in open_there):  # with a name, or without
                        writes = int(child)
        assert writes, said.communicate()
        said.send_signal(number)
        words = said.communicate()[1]
        if number != signal.SIGKILL:
            assert f"was killed by signal {int(number)} " in words and "nothing was written" in words and said.returncode == 69, (words, said.returncode)
        while os.path.exists(f"/proc/{writes}/fd/0"):  # the command's death ends it
            time.sleep(0.01)
        assert not list(space.path.glob("log.events*")), list(space.path.glob("log.events*"))


if __name__ == "__main__":
    main([what_is_killed_leaves_nothing, text_events_and_kept_rows_train_the_same, what_is_wrong_is_said])
