"""steps: the dense step on the card, ours and PyTorch's by turns, so that both see the same clocks and the same heat."""
import queue
import subprocess
import sys
import threading
import time

from session import HERE, card_env, end_all, json_lines, last_lines
from smoke import KINDS

PRECISIONS = ["fp32", "tf32", "bf16"]
VARIANTS = ["eager", "compiled", "graphs"]
ROUNDS = 2
ROWS = {4096: 42000, 16384: 127000}  # unique keys of such a batch of the synthetic log: 10.2 and 7.7 an example
SECONDS = 0.2  # to warm up, and for the windows of a figure


def batches(s):
    return [8, 16] if s.dry else [4096, 16384]


def rows(s, batch):
    return ["--rows", 520 if s.dry else ROWS[batch]]


def size(s, batch, seconds):
    return ["--batch", batch, *rows(s, batch), *(["--steps", "1"] if s.dry else ["--seconds", seconds])]


def keys(s, names):
    return [f"step/{kind}/{batch}/{precision}/{name}" for kind in KINDS for batch in batches(s) for precision in PRECISIONS for name in names]


# ---- PyTorch -------------------------------------------------------------------------------------------------------


class Peer:
    """torch_step.py for one model and batch size: it compiles at its start and measures when it is asked."""

    def __init__(self, s, kind, batch):
        self.name, self.log = f"PyTorch {kind} {batch}", open(s.log / f"torch-{kind}-{batch}.log", "w", encoding="utf-8")
        words = [sys.executable, HERE / "torch_step.py", "--device", "cpu" if s.dry else "cuda", "--kind", kind, "--batch", batch,
                 *rows(s, batch)]
        env = card_env(TORCHINDUCTOR_COMPILE_THREADS="2")
        self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env,
                                        start_new_session=True)
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.log.write(line)
            for r in json_lines(line):
                self.answers.put(r)
        self.answers.put({"error": "it has ended", "ended": True})

    def answer(self, seconds):
        try:
            return self.answers.get(timeout=max(0.1, seconds))
        except queue.Empty:
            return {"error": f"no answer in {seconds:.0f} s", "ended": True}

    def measure(self, precision, variant, seconds, limit):
        try:
            self.process.stdin.write(f"{precision} {variant} {seconds}\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": "it has ended", "ended": True}
        return self.answer(limit)

    def close(self):
        end_all(self.process)
        self.log.close()


TORCH_ASK = """import importlib.util, sys
if importlib.util.find_spec("torch") is None:
    sys.exit(4)
import torch
print(torch.__version__)
sys.exit(0 if torch.cuda.is_available() else 3)"""


def torch_find(s):
    """True when PyTorch can be measured. If it is not installed, that is reported; if it is, and does not work or sees no card, that is a failure."""
    code, out = s.run("PyTorch?", [sys.executable, "-c", TORCH_ASK], 80, card_env())
    if code == 0 or (code == 3 and s.dry):
        s.about["PyTorch"] = out.strip().splitlines()[-1]
        return True
    if code == 4:
        s.notes.append("PyTorch's figures are left out: it is not installed here")
    elif code == 3:
        s.fail("PyTorch is installed and sees no card:\n" + last_lines(out, 4))
    else:
        s.judge("import torch", code, out)
    return False


class Peers:
    """All of PyTorch's processes; they get ready while the input is made."""

    def __init__(self, s):
        self.all, self.begin, self.out_of_work = {}, time.monotonic(), {}
        if not torch_find(s):
            return
        s.want(keys(s, VARIANTS))
        self.all = {(kind, batch): Peer(s, kind, batch) for kind in KINDS for batch in batches(s)}

    def wait_ready(self, s):
        """Each says what it has made ready, or could not."""
        for (kind, batch), peer in list(self.all.items()):
            for _ in range(len(PRECISIONS) * len(VARIANTS)):
                r = peer.answer(s.left())
                if "error" in r:
                    s.fail(f"{peer.name} {r.get('precision', '')} {r.get('variant', '')}: {r['error']}")
                    self.out_of_work[kind, batch, r.get("precision"), r.get("variant")] = True
                if r.get("ended"):
                    self.drop(kind, batch)
                    break
        if self.all:
            s.say(f"PyTorch is ready after {time.monotonic() - self.begin:.0f} s")

    def drop(self, kind, batch):
        peer = self.all.pop((kind, batch), None)
        if peer:
            peer.close()

    def measure(self, s, kind, batch, precision, variant, seconds):
        peer = self.all.get((kind, batch))
        if peer is None or (kind, batch, precision, variant) in self.out_of_work:
            return None
        r = peer.measure(precision, variant, seconds, min(30, s.left()))
        if "error" not in r:
            return r["ms"]
        s.fail(f"{peer.name} {precision} {variant}: {r['error']}")
        if r.get("ended"):
            self.drop(kind, batch)
        return None

    def close(self):
        for kind, batch in list(self.all):
            self.drop(kind, batch)


# ---- ours beside it ------------------------------------------------------------------------------------------------


def add(s, key, ms, **more):
    """A figure of several runs: all of them are kept, and shown as their mean and how far they are apart."""
    r = s.figures.setdefault(key, {"ms": []})
    r["ms"].append(ms)
    r.update(more)


def ours(s, batch, precision, seconds, name, words=()):
    words = ["--precision", precision, *words, *size(s, batch, seconds), "device", *KINDS]
    for r in s.gpu_step(f"step {batch} {precision} {name}", words, 60):
        key = f"step/{r['kind']}/{batch}/{precision}/{name}"
        counted = s.figures.get(key, {}).get("counters") or {}  # counters of the earlier runs
        counters = {k: n + counted.get(k, 0) for k, n in (r["counters"] or {}).items()}
        add(s, key, r["ms"], products_ms=r["products_ms"], counters=counters)


def stage_steps(peers):
    """By turns: ours, then PyTorch's three, and all of it once more."""
    def stage(s):
        seconds = 0.005 if s.dry else SECONDS
        s.want(keys(s, ["ours", "not deterministic"]))
        for _ in range(ROUNDS):
            for batch in batches(s):
                for precision in PRECISIONS:
                    ours(s, batch, precision, seconds, "ours")
                    for kind in KINDS:
                        for variant in VARIANTS:
                            ms = peers.measure(s, kind, batch, precision, variant, seconds)
                            if ms is not None:
                                add(s, f"step/{kind}/{batch}/{precision}/{variant}", ms)
                    ours(s, batch, precision, seconds, "not deterministic", ["--deterministic", "no"])
        for key in [k for k in s.figures if k.startswith("step/") and len(s.figures[k]["ms"]) < ROUNDS]:
            s.fail(f"{key}: {len(s.figures[key]['ms'])} of {ROUNDS} runs")
    return stage


def stage_copies(s):
    """The step's copies alone, and the step as the worker calls it, with one lane and with four."""
    modes = [("copies", 1), ("whole", 1), ("whole", 4)]
    s.want([f"copies/{kind}/{batch}/{mode}/{lanes}" for kind in KINDS for batch in batches(s) for mode, lanes in modes])
    for batch in batches(s):
        for mode, lanes in modes:
            words = ["--precision", "tf32", "--lanes", lanes, *size(s, batch, SECONDS), mode, *KINDS]
            for r in s.gpu_step(f"step {batch} {mode} {lanes} lanes", words, 60):
                kept = {k: r[k] for k in ("ms", "examples_per_second", "bytes_up", "bytes_down")}
                s.figure(f"copies/{r['kind']}/{batch}/{mode}/{lanes}", kept)
