"""jobs: a job through `shoal local`, servers and workers on this host, and what was seen beside it: processor time of each program, how busy
the card was."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import session
from session import ROOT

TICKS = os.sysconf("SC_CLK_TCK")


# ---- beside a run --------------------------------------------------------------------------------------------------


def processes_under(folder):
    """(program, seconds of processor) of each process whose command line names the folder."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            stat = (entry / "stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        program = os.path.basename(words[0]).decode(errors="replace")
        if program.startswith("shoal") and any(str(folder).encode() in word for word in words):
            yield entry.name, program, (int(stat[11]) + int(stat[12])) / TICKS


class Watch(threading.Thread):
    """Looks twice a second; the last look at each process counts."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.seen, self.over = folder, {}, threading.Event()

    def run(self):
        while not self.over.wait(0.4):
            for pid, program, seconds in processes_under(self.folder):
                self.seen[pid] = (program, seconds)

    def seconds(self):
        self.over.set()
        self.join()
        total = {}
        for program, seconds in self.seen.values():
            total[program] = round(total.get(program, 0) + seconds, 1)
        return total


class Card:
    """Reads nvidia-smi twice a second; without it there is no output."""

    def __init__(self, folder):
        self.file = open(folder / "nvidia-smi.csv", "w+", encoding="utf-8")
        try:
            words = ["nvidia-smi", "-i", session.card(), "--query-gpu=utilization.gpu,clocks.sm,memory.used",
                     "--format=csv,noheader,nounits", "-lms", "500"]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.file, stderr=subprocess.DEVNULL)
        except OSError:
            self.process = None

    def end(self):
        if self.process is None:
            return
        self.process.kill()
        try:
            self.process.wait(session.KILL_SECONDS)
        except subprocess.TimeoutExpired:  # stuck in the driver; what it has written is read all the same
            pass

    def busy(self):
        """Mean share in per cent over the later half, where the job is past its start."""
        if self.process is None:
            return None
        self.end()
        self.file.seek(0)
        shares = [line.split(",")[0].strip() for line in self.file]
        shares = [float(x) for x in shares if x.replace(".", "", 1).isdigit()]
        later = shares[len(shares) // 2:]
        return round(sum(later) / len(later), 1) if later else None


# ---- a run ---------------------------------------------------------------------------------------------------------


def programs_with(s, folder, parse):
    """The folder of programs; with `parse`, one whose shoal-worker is told so many cores to parse with, because `shoal local` gives a worker
    its share of all."""
    if parse is None:
        return s.place.bin
    folder.mkdir()
    shutil.copy2(s.place.bin / "shoal", folder / "shoal")  # a copy: it looks for the others beside itself
    for name in ("shoal-server", "shoal-coordinator"):
        (folder / name).symlink_to(s.place.bin / name)
    worker = folder / "shoal-worker"
    worker.write_text(f'#!/bin/sh\nexec "{s.place.bin}/shoal-worker" "$@" --cores {parse}\n', encoding="utf-8")
    worker.chmod(0o755)
    return folder


def keep_logs(s, what, folder):
    for path in [folder / "run/report.json", *sorted(folder.glob("run/log/*.log"))]:
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            s.keep(what, f"-- {path.name}\n{text[-20000:]}")


def run_local(s, what, backend, servers, workers, sets, seconds, parse=None, io_threads=1):
    """The job's report, with "cpu_seconds" by program and "card_busy"; None: it failed, and that is told."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=s.scratch))
    env = s.place.env(**({"SHOAL_CUDA_MODULE": "libshoal_cudahost.so"} if s.dry else {}))
    words = [programs_with(s, folder / "bin", parse) / "shoal", "local", ROOT / "deploy/jobs/criteo-deepfm.yaml", "--servers", servers,
             "--workers", workers, "--run-dir", folder / "run", "--no-restart", "--worker-io-threads", io_threads,
             "--set", f"train.backend={backend}"]
    for setting in sets:
        words += ["--set", setting]
    watch, card = Watch(folder / "run"), Card(folder)
    watch.start()
    begin = time.monotonic()
    try:
        code, out = s.run(what, words, seconds, env)
        seen, busy = watch.seconds(), card.busy()
        keep_logs(s, what, folder)
        if not s.judge(what, code, out, 12):
            return None
        r = json.loads((folder / "run/report.json").read_text(encoding="utf-8"))
        if r.get("backend") != backend:
            s.fail(f"{what}: ran on {r.get('backend')} and not on {backend}")
            return None
        return dict(r, cpu_seconds=seen, card_busy=busy, wall_seconds=round(time.monotonic() - begin, 1))
    finally:
        watch.over.set()
        card.end()
        shutil.rmtree(folder, ignore_errors=True)
