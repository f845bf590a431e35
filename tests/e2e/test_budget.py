#!/usr/bin/env python3
"""test_budget: a server keeps to its memory and disk, and what it trains is what one without bounds trains, bit for bit."""
from bisect import bisect
from itertools import accumulate

from lib import *

MIB = 1 << 20


def zipf_log(path, rows, columns, keys, exponent=1.05, seed=1):
    """Each value of each line drawn by Zipf's law over `keys` keys, the frequent ones anywhere among them."""
    dice = random.Random(seed)
    sums = list(accumulate((k + 1) ** -exponent for k in range(keys)))
    with open(path, "w", encoding="utf-8") as f:
        f.write("label," + ",".join(f"c{i}" for i in range(columns)) + "\n")
        for _ in range(rows):
            f.write(f"{int(dice.random() < 0.3)}," + ",".join(str(bisect(sums, dice.random() * sums[-1])) for _ in range(columns)) + "\n")
    return path


def shard_status(run):
    """Returns the status of the only shard from `shoal status`; None while there is no answer."""
    done = subprocess.run([SHOAL, "status", "--json", "--run-dir", str(run.dir)], capture_output=True, text=True, check=False)
    status = json.loads(done.stdout) if done.returncode == 0 and done.stdout else {}
    servers = status.get("servers")
    return servers[0] if isinstance(servers, list) and servers else None  # an ended run's report has a number there


def peak_memory(run):
    peak = 0
    for pid in run.children("server-0"):
        try:
            text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        peak = max([peak] + [int(x.split()[1]) * 1024 for x in text.split("\n") if x.startswith("VmHWM")])
    return peak


def watch(run, timeout=900):
    """To the end of the run: its report, the highest VmHWM of its server, the highest of each figure of its shard."""
    peak, most, end = 0, {}, time.monotonic() + timeout
    while run.running() and time.monotonic() < end:
        peak = max(peak, peak_memory(run))
        for name, value in (shard_status(run) or {}).items():
            if isinstance(value, (int, float)):
                most[name] = max(most.get(name, 0), value)
        time.sleep(0.2)
    status = run.wait(10)
    assert status == 0, f"exit status {status}:\n{run.output()[-3000:]}"
    report = run.report()
    return report, max(peak, report["peak_server_rss_bytes"]), most


def table_of_four_budgets_trains_as_in_memory(space):
    budget, columns, dim = 16 * MIB, 8, 64
    train = zipf_log(space / "train.csv", 54000, columns, 1000000)
    over = {"data.format": "csv", "data.label": "label", "model.hidden": [8], "tables[0].dim": dim, "train.consistency": "bsp", "train.batch": 256,
            "train.epochs": 1, "journal.max": 64 * MIB}
    job = job_file(space / "job.yaml", train, **over)
    calm, free_peak, free = watch(Run(job, space / "calm"))
    row_bytes = 8 + 2 * 4 * dim
    size = calm["tables"][0]["rows"] * row_bytes
    assert size >= 4 * budget, f"{size} bytes of rows are not four times {budget}"
    assert free.get("evicted", 0) == 0 and free_peak > budget * 1.05 + 64 * MIB, (free, free_peak)  # so the bound is one
    tight, peak, most = watch(Run(job, space / "tight", 1, 1, ["--server-set", f"memory={budget}"]))
    print(f"      {size / MIB:.0f} MiB of rows under {budget / MIB:.0f} MiB: {most.get('evicted', 0):.0f} evicted, {most.get('fetched', 0):.0f} fetched, "
          f"peak {peak / MIB:.0f} MiB (without a bound {free_peak / MIB:.0f})", flush=True)
    assert most.get("evicted", 0) > 50000 and most.get("fetched", 0) > 10000 and most.get("rows_store", 0) > 50000, most
    assert digests(tight) == digests(calm)
    assert peak <= budget * 1.05 + 64 * MIB, f"peak {peak}, budget {budget}"
    assert 0 < most["memory_max"] <= budget and most["memory_bytes"] > 0 and most["disk_bytes"] > 0, most
    assert tight["restarts"] == 0


def server_says(run, words):
    until(run, f"the server to say {words!r}", lambda: words in run.logs("server-0*"), pause=0.1)


def disk_that_somebody_else_fills_stops_nothing_for_good(space):
    """The file system is filled while a job runs, first below the watermark, then wholly; later it is given back."""
    with small_disk(space, "256m") as mount:
        train = synth(space / "train.tsv", 60000, 6)
        over = {"model.kind": "probe", "tables[0].dim": 1, "tables[0].optimizer.kind": "sgd", "train.consistency": "async", "train.prefetch": 4,
                "train.batch": 128, "train.epochs": longer(12), "journal.max": 16 * MIB, "coordinator.lease": "30s"}
        job = job_file(space / "job.yaml", train, **over)
        expected = digests(run_job(job, space / "calm"))
        run = Run(job, space / "run", 1, 1, ["--server-set", f"data_dir={mount}/data", "--server-set", f"disk_free={64 * MIB}",
                                             "--server-set", f"journal.segment={MIB}"])
        until(run, "rows", lambda: (shard_status(run) or {}).get("rows", 0) > 0, pause=0.05)
        before = run.children("server-0")
        fill(mount / "filler", 48 * MIB)
        server_says(run, "pushes are refused")
        until(run, "a beat to tell it", lambda: (shard_status(run) or {}).get("disk_short"), 20, 0.2)
        fill(mount / "filler", 0)
        time.sleep(3)
        still_going(run)
        assert run.children("server-0") == before, "the server did not live through a full disk"
        worker_log = run.logs("worker-0*")
        os.unlink(mount / "filler")
        server_says(run, "pushes are taken")
        assert run.wait(300) == 0, run.output()[-3000:]
        report = run.report()
        assert digests(report) == expected, (digests(report), expected)
        assert report["restarts"] == 0 and report["worker_deaths"] == 0, report
        print(f"      the worker said: {worker_log.strip().splitlines()[-1:]}", flush=True)


def a_checkpoint_goes_onto_a_disk_of_twice_its_rows(space):
    """Also where memory has little more room than the rows take, beside a network whose rows are 40 times as wide."""
    lines, columns = 25000, 8
    names = [f"c{k}" for k in range(columns)]
    with open(space / "train.csv", "w", encoding="utf-8") as out:
        print("label", *names, sep=",", file=out)
        for i in range(lines):
            print(i % 2, *range(i * columns, (i + 1) * columns), sep=",", file=out)
    keys = {"data.format": "csv", "data.label": "label", "tables[0].dim": 16, "checkpoint.at_end": True, "train.batch": 1024}
    report = run_job(job_file(space / "job.yaml", space / "train.csv", **keys), space / "made")
    [at] = [p for p in (space / "made/checkpoints").iterdir() if (p / "manifest.json").exists()]
    bytes_of_rows = lines * columns * (8 + 17 * 8)
    small = ["--server-set", f"journal.segment={MIB}", "--server-set", f"disk_free={MIB}"]
    for memory in ("256MiB", "2GiB"):
        with small_disk(space, 2 * bytes_of_rows) as mount:
            run = Run(at / "job.yaml", space / f"run-{memory}", 1, 1, ["--resume", str(at), "--set", "checkpoint.at_end=false", *small, "--server-set", f"memory={memory}", "--server-set", f"data_dir={mount}/data"])
            assert run.wait(120) == 0, run.output()[-2000:]
            assert digests(run.report()) == digests(report), memory
        mount.rmdir()


if __name__ == "__main__":
    main([a_checkpoint_goes_onto_a_disk_of_twice_its_rows, table_of_four_budgets_trains_as_in_memory, disk_that_somebody_else_fills_stops_nothing_for_good])
