#!/usr/bin/env python3
"""run: what tests/gpu/run does on a machine with a GPU, within five minutes.

    run.py [--build DIR] [--results FILE] [--seconds 290] [--keep] [--dry]

1. builds what it needs in the build folder (made when it is not there);
2. correctness: every test program of tests/dense with module cuda;
3. speed: the step on the device of DeepFM, DCNv2 and DLRM; the share outside matrix products; whole-way training, servers and workers on
   this host; the same steps in PyTorch, when it is installed;
4. compute-sanitizer (memcheck, racecheck) on a few steps, when the tool is there.

Writes RESULTS.md beside this file: what was measured, nothing else. A stage that finds no time left is left out and named. Exit status 0
when everything that ran was right, 1 when not. --dry: the same stages on the host's stand-in for a device, tiny: it tests this script."""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KINDS = ["deepfm", "dcnv2", "dlrm"]
PRECISIONS = ["fp32", "tf32", "bf16"]


class Session:
    def __init__(self, o):
        self.o = o
        self.module = "cudahost" if o.dry else "cuda"
        self.end = time.monotonic() + o.seconds
        self.build = pathlib.Path(o.build).resolve()
        self.bin = self.build / "bin"
        self.failures = []
        self.notes = []
        self.sections = []
        self.device = self.products = {p: {} for p in PRECISIONS}  # by model: what step.c says
        self.whole = {1: {}, 4: {}}
        self.torch = {}
        self.env = dict(os.environ, CK_DEFAULT_TIMEOUT="100")

    def left(self, most=1e9):
        return max(0.0, min(most, self.end - time.monotonic()))

    def say(self, text):
        print(f"[{self.o.seconds - self.left():5.0f} s] {text}", flush=True)

    def fail(self, text):
        self.failures.append(text)
        self.say("FAILED: " + text)

    def run(self, words, seconds, env=None):
        """(exit status or None when the time was over, output). What it started is ended with it."""
        seconds = self.left(seconds)
        if seconds < 1:
            return None, "no time left"
        p = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             cwd=ROOT, env=env or self.env, start_new_session=True)
        try:
            out, _ = p.communicate(timeout=seconds)
            return p.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, _ = p.communicate()
            return None, out


def last_lines(text, count=8):
    return "\n".join(text.strip().splitlines()[-count:])


def json_lines(text):
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


def command_output(words):
    try:
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


# ---- build -----------------------------------------------------------------------------------------------------


def stage_build(s):
    if s.o.dry:
        return
    if not (s.build / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        code, out = s.run(["cmake", "-S", ROOT, "-B", s.build, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DSHOAL_CUDA=ON"], 60)
        if code != 0:
            raise SystemExit("tests/gpu/run: cmake fails:\n" + last_lines(out, 20))
    code, out = s.run(["cmake", "--build", s.build, "--parallel", str(os.cpu_count() or 4)], 240)
    if code != 0:
        raise SystemExit("tests/gpu/run: the build fails or takes longer than the time there is; build first:\n" + last_lines(out, 20))
    if not (s.bin / "libshoal_cuda.so").exists():
        raise SystemExit(f"tests/gpu/run: {s.bin} has no libshoal_cuda.so; configure with -DSHOAL_CUDA=ON")
    s.say("built")


# ---- correctness -----------------------------------------------------------------------------------------------


def stage_tests(s):
    """Every test program of tests/dense on the module, some at a time."""
    programs = sorted(s.bin.glob("dense_test_*"))
    if s.o.dry:
        programs = [p for p in programs if p.name in ("dense_test_fm", "dense_test_fc", "dense_test_cuda_ops")]
    env = dict(s.env, SHOAL_DENSE_BACKEND=s.module)
    begin = time.monotonic()

    def one(program):
        return program.name, *s.run([program], 100, env)

    passed, skipped = 0, []
    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        for name, code, out in pool.map(one, programs):
            if code == 77:
                skipped.append(name)
            elif code == 0:
                passed += 1
            elif code is None:
                s.notes.append(f"{name}: no time left")
            else:
                s.fail(f"{name}: exit status {code}\n{last_lines(out)}")
    if not programs:
        s.fail(f"no test program in {s.bin}")
    s.say(f"tests of dense with module {s.module}: {passed} of {len(programs)} programs passed, {len(skipped)} skipped")
    s.sections.append(("Correctness", [
        f"- {passed} of {len(programs)} test programs of tests/dense passed with module {s.module}, in {time.monotonic() - begin:.0f} s: "
        "gradients against finite differences, kernels and 20-step loss curves against the CPU, the same bits at each run"
        + (f"; skipped: {', '.join(skipped)}" if skipped else "")]))


def stage_sanitizer(s):
    tool = shutil.which("compute-sanitizer") or next(iter(sorted(map(str, pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")))), None)
    if s.o.dry or not tool:
        s.notes.append("compute-sanitizer is not on this machine")
        return
    lines = []
    for check in ("memcheck", "racecheck"):
        kinds = [*KINDS, "xdeepfm", "mmoe"] if check == "memcheck" else KINDS
        begin = time.monotonic()
        code, out = s.run([tool, "--tool", check, "--error-exitcode", "9", s.bin / "gpu_step", "--module", s.module, "--batch", "300", "--rows",
                           "2000", "--steps", "2", "whole", *kinds], 45)
        if code is None:
            s.notes.append(f"compute-sanitizer {check}: no time left")
        elif code != 0:
            s.fail(f"compute-sanitizer {check}: exit status {code}\n{last_lines(out, 20)}")
        else:
            lines.append(f"- compute-sanitizer {check}: clean, on 6 steps each of {', '.join(kinds)}, in {time.monotonic() - begin:.0f} s")
    if lines:
        s.sections.append(("Sanitizer", lines))
        s.say("; ".join(lines))


# ---- speed -----------------------------------------------------------------------------------------------------


def steps(s, mode, precision, lanes=1):
    sizes = ["--batch", "8", "--rows", "520", "--steps", "2"] if s.o.dry else []
    code, out = s.run([s.bin / "gpu_step", "--module", s.module, "--precision", precision, "--lanes", lanes, *sizes, mode, *KINDS], 40)
    if code is None:
        s.notes.append(f"step {mode} {precision}: no time left")
    elif code != 0:
        s.fail(f"step {mode} {precision}: exit status {code}\n{last_lines(out)}")
    return {r["kind"]: r for r in json_lines(out)}


def stage_step(s):
    s.device = {p: steps(s, "device", p) for p in PRECISIONS}
    s.products = {p: steps(s, "products", p) for p in PRECISIONS}
    s.whole = {lanes: steps(s, "whole", "tf32", lanes) for lanes in (1, 4)}
    s.say("steps measured")


def stage_torch(s):
    if s.o.dry:
        return
    code, _ = s.run([sys.executable, "-c", "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"], 30)
    if code != 0:
        s.notes.append("PyTorch is not installed here, or finds no device: nothing to stand beside")
        return
    seconds = max(20, s.left() - 50)  # what is left is the sanitizer's
    _, out = s.run([sys.executable, HERE / "torch_step.py", "--seconds", max(5, seconds - 25)], seconds)
    s.torch = {(r["kind"], r["variant"], r["precision"]): r for r in json_lines(out)}
    s.notes.append("PyTorch " + next(iter(s.torch.values()))["torch"] if s.torch else "PyTorch gave no figure: " + last_lines(out, 3))
    s.say(f"PyTorch: {len(s.torch)} figures")


def step_section(s):
    lines = ["One step at the batch size given, all in the device's memory: rows gathered, forward, backward, gradients merged by row; no optimizer "
             "(the servers have it). Milliseconds a step, mean of 50 queued one behind the other. Outside products: 1 - (matrix products alone) / step. "
             "PyTorch: the same work (torch_step.py) in the same run.", "",
             "| model | batch | precision | Shoal ms | outside products | PyTorch eager ms | compiled ms | eager / Shoal | compiled / Shoal |",
             "|---|---|---|---|---|---|---|---|---|"]
    for kind in KINDS:
        for precision in PRECISIONS:
            d, p = s.device[precision].get(kind), s.products[precision].get(kind)
            if not d:
                continue
            peers = [s.torch.get((kind, v, precision)) for v in ("eager", "compiled")]
            words = [f"{t['ms']:.3f}" if t else "-" for t in peers] + [f"{t['ms'] / d['ms']:.2f}" if t else "-" for t in peers]
            outside = f"{100 * (1 - p['ms'] / d['ms']):.0f} %" if p else "-"
            lines.append(f"| {kind} | {d['batch']} | {precision} | {d['ms']:.3f} | {outside} | {' | '.join(words)} |")
    lines += ["", "The step as the worker calls it (tf32): rows, values and parameters copied from pinned memory, gradients back. Lanes: threads with a "
              "stream each; examples a second of all together.", "", "| model | 1 lane | 4 lanes |", "|---|---|---|"]
    for kind in KINDS:
        if kind in s.whole[1] and kind in s.whole[4]:
            lines.append(f"| {kind} | {s.whole[1][kind]['examples_per_second']:,.0f} | {s.whole[4][kind]['examples_per_second']:,.0f} |")
    return "Step", lines


def stage_whole(s):
    """Servers, workers and the device on this host, from the log to the tables."""
    if s.left() < 25:
        s.notes.append("whole-way training: no time left")
        return
    rows, batch, lanes, servers, workers = (3000, 256, 2, 1, 1) if s.o.dry else (6000000, 16384, 6, 4, 2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-gpu-"))
    env = dict(s.env)
    if s.o.dry:
        env["SHOAL_CUDA_MODULE"] = "libshoal_cudahost.so"
    try:
        code, out = s.run([s.bin / "shoal", "synth", "--rows", rows, "--seed", 1, "--out", folder / "train.tsv"], 60)
        if code != 0:
            return s.fail("shoal synth: " + last_lines(out))
        small = ["--set", "model.hidden=[16, 8]", "--set", "tables[0].tablets=64"] if s.o.dry else []
        code, out = s.run([s.bin / "shoal", "local", ROOT / "deploy/jobs/criteo-deepfm.yaml", "--servers", servers, "--workers", workers,
                           "--run-dir", folder / "run", "--set", f"data.train={folder / 'train.tsv'}", "--set", f"train.batch={batch}", "--set",
                           f"train.lanes={lanes}", "--set", "train.backend=cuda", "--set", "train.precision=tf32", "--set", "durability=memory",
                           *small], 100, env)
        if code is None:
            s.notes.append("whole-way training: no time left")
        elif code != 0:
            s.fail(f"whole-way training: exit status {code}\n{last_lines(out, 20)}")
        else:
            r = json.loads((folder / "run/report.json").read_text(encoding="utf-8"))
            if r.get("backend") != "cuda":
                s.fail(f"whole-way training ran on {r.get('backend')}")
            s.sections.append(("Whole way", [
                f"- DeepFM, synthetic Criteo log of {rows:,} lines, batch {batch}, {servers} servers, {workers} workers, {lanes} lanes, tf32, "
                f"durability memory, {os.cpu_count()} cores: {r['examples_per_second']:,.0f} examples/s"]))
            s.say(f"whole way: {r['examples_per_second']:,.0f} examples/s")
    finally:
        if not s.o.keep:
            shutil.rmtree(folder, ignore_errors=True)


# ---- results ---------------------------------------------------------------------------------------------------


def results_write(s):
    query = "" if s.o.dry else command_output(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    device = (query.splitlines() or ["the host's stand-in for a device"])[int(os.environ.get("SHOAL_DEVICE", "0") or 0) % max(1, len(query.splitlines()))]
    commit = command_output(["git", "rev-parse", "--short=12", "HEAD"]) or "unknown"
    if command_output(["git", "status", "--porcelain", "--untracked-files=no"]):
        commit += " with changes"
    text = ["# Measured on a GPU", "", "Written by tests/gpu/run; figures of one run on one machine, nothing else.", "",
            f"- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC", f"- device: {device}",
            f"- host: {os.cpu_count()} cores", f"- commit: {commit}", f"- took: {s.o.seconds - s.left():.0f} s"]
    text += [f"- {note}" for note in s.notes]
    for title, lines in s.sections:
        text += ["", f"## {title}", "", *lines]
    if s.failures:
        text += ["", "## Failed", ""] + [f"- {failure.splitlines()[0]}" for failure in s.failures]
    s.o.results.write_text("\n".join(text) + "\n", encoding="utf-8")
    s.say(f"results: {s.o.results}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--build", default=os.environ.get("SHOAL_BUILD", ROOT / "build/release"))
    a.add_argument("--results", type=pathlib.Path)
    a.add_argument("--seconds", type=float, default=290)
    a.add_argument("--keep", action="store_true", help="keep the run's folder")
    a.add_argument("--ctest", action="store_true", help="for tests/gpu/run: skipped is status 77")
    a.add_argument("--dry", action="store_true")
    o = a.parse_args()
    scratch = tempfile.TemporaryDirectory() if o.dry and not o.results else None
    o.results = o.results or (pathlib.Path(scratch.name) / "RESULTS.md" if scratch else HERE / "RESULTS.md")
    s = Session(o)
    for stage in (stage_build, stage_tests, stage_step, stage_whole, stage_torch, stage_sanitizer):
        stage(s)
    s.sections.append(step_section(s))
    results_write(s)
    if o.dry:
        print(o.results.read_text(encoding="utf-8"))
        missing = [t for t in ("Correctness", "Step", "Whole way") if t not in [title for title, _ in s.sections]]
        missing += [k for k in KINDS if f"| {k} |" not in o.results.read_text(encoding="utf-8")]
        if missing:
            s.fail("a dry run must give every section and model; missing: " + ", ".join(missing))
    return 1 if s.failures else 0


if __name__ == "__main__":
    sys.exit(main())
