#!/usr/bin/env python3
"""run: what tests/gpu/run does on a machine with a GPU, within five minutes.

    run.py [--build DIR] [--no-build] [--results FILE] [--seconds 290] [--build-seconds 1200] [--keep] [--dry]

1. builds what it needs in the build folder (made when it is not there), the daemons last; that is not of the five minutes. --no-build
   takes bin/ of it as it is: without daemons whole-way training is left out;
2. correctness: every test program of tests/dense with module cuda;
3. speed: the step on the device of DeepFM, DCNv2 and DLRM; the share outside matrix products; whole-way training, servers and workers on
   this host; the same steps in PyTorch, when it is installed;
4. compute-sanitizer (memcheck, initcheck, racecheck) on a few steps, when the tool is there.

Writes RESULTS.md beside this file (under --ctest in the build folder), whatever happens: what was measured, nothing else. A stage that
finds no time left is left out and named; one that is stuck, that is skipped or that raises has failed. Exit status 0 when everything that
ran was right, 1 when not. --dry: the same stages on the host's stand-in for a device, tiny: it tests this script."""
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
TIMEOUT, NO_TIME = "ran past its own limit", "no time left"  # in place of an exit status


class Session:
    def __init__(self, o):
        self.o = o
        self.module = "cudahost" if o.dry else "cuda"
        self.begin = time.monotonic()
        self.end = self.begin + o.seconds
        self.build = pathlib.Path(o.build).resolve()
        self.bin = self.build / "bin"
        self.failures = []
        self.notes = []
        self.sections = []
        self.device = {p: {} for p in PRECISIONS}  # by model: what step.c says
        self.whole = {1: {}, 4: {}}
        self.torch = {}
        self.env = dict(os.environ, CK_DEFAULT_TIMEOUT="100")

    def left(self, most=1e9):
        return max(0.0, min(most, self.end - time.monotonic()))

    def took(self):
        return time.monotonic() - self.begin

    def say(self, text):
        print(f"[{self.took():5.0f} s] {text}", flush=True)

    def fail(self, text):
        self.failures.append(text)
        self.say("FAILED: " + text)

    def run(self, words, seconds, env=None):
        """(exit status, TIMEOUT or NO_TIME; output). What it started is ended with it."""
        most, seconds = seconds, self.left(seconds)
        if seconds < 1:
            return NO_TIME, NO_TIME
        p = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             cwd=ROOT, env=env or self.env, start_new_session=True)
        try:
            out, _ = p.communicate(timeout=seconds)
            return p.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            try:
                out, _ = p.communicate(timeout=5)
            except subprocess.TimeoutExpired:  # it is stuck in the driver, where no signal reaches it
                out = "and does not end when it is killed"
            return TIMEOUT if seconds >= most else NO_TIME, out

    def judge(self, what, code, out, lines=8):
        """True: it ended well. Else a note or a failure says what."""
        if code == NO_TIME:
            self.notes.append(f"{what}: {NO_TIME}")
        elif code == TIMEOUT:
            self.fail(f"{what}: {TIMEOUT}\n{last_lines(out, lines)}")
        elif code != 0:
            self.fail(f"{what}: exit status {code}\n{last_lines(out, lines)}")
        return code == 0


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


def build(s, what, targets=()):
    words = ["cmake", "--build", s.build, "--parallel", str(os.cpu_count() or 4)]
    code, out = s.run(words + (["--target", *targets] if targets else []), s.left())
    if code != 0:
        s.fail(f"{what} do not build: {code}\n{last_lines(out, 20)}")
    return code == 0


def stage_build(s):
    """Has its own limit. First what the stages on the device need, so that a fault elsewhere costs the whole way alone."""
    if s.o.dry or s.o.no_build:
        return
    s.end = time.monotonic() + s.o.build_seconds
    if not (s.build / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        code, out = s.run(["cmake", "-S", ROOT, "-B", s.build, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DSHOAL_CUDA=ON"], 120)
        if code != 0:
            return s.fail("cmake fails:\n" + last_lines(out, 20))
    tests = ["dense_" + p.stem for p in sorted((ROOT / "tests/dense").glob("test_*.c"))]
    if build(s, "module, step and tests of dense", ["shoal_cuda", "shoal_cpu", "gpu_step", *tests]):
        build(s, "the daemons")
    s.say("built")


def stage_look(s):
    """What is there to measure. The time of the other stages begins here."""
    s.end = time.monotonic() + s.o.seconds
    if not (s.bin / f"libshoal_{s.module}.so").exists():
        s.fail(f"{s.bin} has no libshoal_{s.module}.so; configure with -DSHOAL_CUDA=ON")
    kind = cache_value(s, "CMAKE_BUILD_TYPE") or "unknown"
    s.notes.append(f"build type: {kind}" + ("" if kind == "Release" else ", which is not what users run"))
    nvcc = cache_value(s, "SHOAL_NVCC")
    if nvcc and not s.o.dry:
        s.notes.append("nvcc: " + next((line for line in command_output([nvcc, "--version"]).splitlines() if "release" in line), "unknown"))


def cache_value(s, name):
    try:
        lines = (s.build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split("=", 1)[1] for line in lines if line.startswith(name + ":")), "")


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
            reason = next((line for line in out.splitlines() if line.startswith("skipped: ")), None)
            if code == 77 and reason:  # a reason of its own, such as "not on this module"; a device that is not there is none
                skipped.append(f"{name} ({reason[9:]})")
            elif s.judge(name, code, out):
                passed += 1
    if passed == 0:
        s.fail(f"no test program of {s.bin} passed with module {s.module}")
    s.say(f"tests of dense with module {s.module}: {passed} of {len(programs)} programs passed, {len(skipped)} skipped")
    line = f"- {passed} of {len(programs)} test programs of tests/dense passed with module {s.module}, in {time.monotonic() - begin:.0f} s"
    if programs and passed == len(programs):
        line += ": gradients against finite differences, kernels and 20-step loss curves against the CPU, the same bits at each run"
    s.sections.append(("Correctness", [line + (f"; skipped: {', '.join(skipped)}" if skipped else "")]))


def stage_sanitizer(s):
    tool = shutil.which("compute-sanitizer") or next(iter(sorted(map(str, pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")))), None)
    if s.o.dry or not tool:
        s.notes.append("compute-sanitizer is not on this machine")
        return
    lines, padding = [], ["--padding", "64"] if "--padding" in command_output([tool, "--help"]) else []
    for check in ("memcheck", "initcheck", "racecheck"):
        kinds = [*KINDS, "xdeepfm", "mmoe"] if check == "memcheck" else KINDS
        begin = time.monotonic()
        env = dict(s.env, SHOAL_CUDA_EXACT="1") if check != "racecheck" else s.env
        code, out = s.run([tool, "--tool", check, *(padding if check == "memcheck" else []), "--error-exitcode", "9", s.bin / "gpu_step",
                           "--module", s.module, "--batch", "300", "--rows", "2000", "--steps", "2", "whole", *kinds], 60, env)
        if s.judge(f"compute-sanitizer {check}", code, out, 20):
            lines.append(f"- compute-sanitizer {check}: clean, on 6 steps each of {', '.join(kinds)}, in {time.monotonic() - begin:.0f} s")
    if lines:
        lines += ["", "memcheck and initcheck: with every tensor and piece of scratch an allocation of its own (SHOAL_CUDA_EXACT). racecheck looks "
                  "at shared memory only, of which our kernels have none: it speaks for the libraries' kernels."]
        s.sections.append(("Sanitizer", lines))
        s.say("; ".join(line for line in lines if line.startswith("-")))


# ---- speed -----------------------------------------------------------------------------------------------------


def steps(s, mode, precision, lanes=1):
    sizes = ["--batch", "8", "--rows", "520", "--seconds", "0.01"] if s.o.dry else []
    code, out = s.run([s.bin / "gpu_step", "--module", s.module, "--precision", precision, "--lanes", lanes, *sizes, mode, *KINDS], 60)
    s.judge(f"step {mode} {precision}", code, out)
    return {r["kind"]: r for r in json_lines(out)}


def stage_step(s):
    s.device = {p: steps(s, "device", p) for p in PRECISIONS}
    s.whole = {lanes: steps(s, "whole", "tf32", lanes) for lanes in (1, 4)}
    s.say("steps measured")


def stage_torch(s):
    if s.o.dry:
        return
    code, _ = s.run([sys.executable, "-c", "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"], 60)
    if code != 0:
        s.notes.append("PyTorch is not installed here, or finds no device: nothing to stand beside")
        return
    seconds = max(20, s.left() - 80)  # what is left is the sanitizer's
    code, out = s.run([sys.executable, HERE / "torch_step.py", "--seconds", max(5, seconds - 25)], seconds)
    found = json_lines(out)
    s.torch = {(r["kind"], r["variant"], r["precision"]): r for r in found if "ms" in r}
    s.notes.append("PyTorch " + next(iter(s.torch.values()))["torch"] if s.torch else "PyTorch gave no figure: " + last_lines(out, 3))
    s.notes += [f"PyTorch {r['kind']} {r['variant']} {r['precision']}: {r['error']}" for r in found if "error" in r]
    if code != 0:
        s.notes.append(f"torch_step.py: {code if isinstance(code, str) else f'exit status {code}'}; figures that are not there are shown as -")
    s.say(f"PyTorch: {len(s.torch)} figures")


def step_section(s):
    lines = ["One step at the batch size given, all in the device's memory: rows gathered, forward, backward, gradients merged by row; no optimizer "
             "(the servers have it). Milliseconds a step, queued one behind the other: a second to warm up, then the median of 11 windows of a second "
             "together. Outside products: 1 - (matrix products alone, on the same numbers) / step. PyTorch: the same work (torch_step.py), measured "
             "the same way in the same run.", "",
             "| model | batch | precision | Shoal ms | outside products | PyTorch eager ms | compiled ms | eager / Shoal | compiled / Shoal |",
             "|---|---|---|---|---|---|---|---|---|"]
    for kind in KINDS:
        for precision in PRECISIONS:
            d = s.device[precision].get(kind)
            if not d:
                continue
            peers = [s.torch.get((kind, v, precision)) for v in ("eager", "compiled")]
            words = [f"{t['ms']:.3f}" if t else "-" for t in peers] + [f"{t['ms'] / d['ms']:.2f}" if t else "-" for t in peers]
            outside = f"{100 * (1 - d['products_ms'] / d['ms']):.0f} %"
            lines.append(f"| {kind} | {d['batch']} | {precision} | {d['ms']:.3f} | {outside} | {' | '.join(words)} |")
    lines += ["", "The step as the worker calls it (tf32): rows, values and parameters copied from pinned memory, gradients back. Lanes: threads with a "
              "stream each; examples a second of all together.", "", "| model | 1 lane | 4 lanes |", "|---|---|---|"]
    for kind in KINDS:
        if kind in s.whole[1] and kind in s.whole[4]:
            lines.append(f"| {kind} | {s.whole[1][kind]['examples_per_second']:,.0f} | {s.whole[4][kind]['examples_per_second']:,.0f} |")
    return "Step", lines


def stage_whole(s):
    """Servers, workers and the device on this host, from the log to the tables."""
    if not (s.bin / "shoal").exists():
        s.notes.append(f"whole-way training is left out: {s.bin} has no daemons")
        return
    if s.left() < 25:
        s.notes.append(f"whole-way training: {NO_TIME}")
        return
    rows, batch, lanes, servers, workers = (3000, 256, 2, 1, 1) if s.o.dry else (6000000, 16384, 6, 4, 2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-gpu-"))
    env = dict(s.env)
    if s.o.dry:
        env["SHOAL_CUDA_MODULE"] = "libshoal_cudahost.so"
    try:
        code, out = s.run([s.bin / "shoal", "synth", "--rows", rows, "--seed", 1, "--out", folder / "train.tsv"], 60)
        if not s.judge("shoal synth", code, out):
            return
        small = ["--set", "model.hidden=[16, 8]", "--set", "tables[0].tablets=64"] if s.o.dry else []
        code, out = s.run([s.bin / "shoal", "local", ROOT / "deploy/jobs/criteo-deepfm.yaml", "--servers", servers, "--workers", workers,
                           "--run-dir", folder / "run", "--set", f"data.train={folder / 'train.tsv'}", "--set", f"train.batch={batch}", "--set",
                           f"train.lanes={lanes}", "--set", "train.backend=cuda", "--set", "train.precision=tf32", "--set", "durability=memory",
                           *small], 100, env)
        if s.judge("whole-way training", code, out, 20):
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
    # The device's name is that of the program: nvidia-smi counts devices in another order.
    device = next((r["kernel"] for by_kind in [*s.device.values(), *s.whole.values()] for r in by_kind.values()), "unknown")
    driver = "" if s.o.dry else command_output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    device += f", driver {driver.splitlines()[0]}" if driver else ""
    commit = command_output(["git", "rev-parse", "--short=12", "HEAD"]) or "unknown"
    if command_output(["git", "status", "--porcelain", "--untracked-files=no"]):
        commit += " with changes"
    text = ["# Measured on a GPU", "", "Written by tests/gpu/run; figures of one run on one machine, nothing else.", "",
            f"- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC", f"- device: {device}",
            f"- host: {os.cpu_count()} cores", f"- commit: {commit}", f"- took: {s.took():.0f} s"]
    text += [f"- {note}" for note in s.notes]
    for title, lines in s.sections:
        text += ["", f"## {title}", "", *lines]
    if s.failures:
        text += ["", "## Failed", ""] + [f"- {failure.splitlines()[0]}" for failure in s.failures]
    s.o.results.write_text("\n".join(text) + "\n", encoding="utf-8")
    s.say(f"results: {s.o.results}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--no-build", action="store_true", help="take the build folder's bin/ as it is")
    a.add_argument("--build-seconds", type=float, default=1200)
    a.add_argument("--build", default=os.environ.get("SHOAL_BUILD", ROOT / "build/release"))
    a.add_argument("--results", type=pathlib.Path)
    a.add_argument("--seconds", type=float, default=290)
    a.add_argument("--keep", action="store_true", help="keep the run's folder")
    a.add_argument("--ctest", action="store_true", help="for tests/gpu/run: skipped is status 77")
    a.add_argument("--dry", action="store_true")
    o = a.parse_args()
    scratch = tempfile.TemporaryDirectory() if o.dry and not o.results else None
    folder = pathlib.Path(scratch.name) if scratch else pathlib.Path(o.build) if o.ctest else HERE
    o.results = o.results or folder / "RESULTS.md"
    s = Session(o)
    try:
        stages = [("build", stage_build), ("build folder", stage_look), ("tests of dense", stage_tests), ("steps", stage_step),
                  ("whole-way training", stage_whole), ("PyTorch", stage_torch), ("compute-sanitizer", stage_sanitizer),
                  ("table of steps", lambda s: s.sections.append(step_section(s)))]
        for title, stage in stages:
            try:
                stage(s)
            except Exception as error:  # what the others find is worth having
                s.fail(f"{title}: {type(error).__name__}: {error}")
    finally:
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
