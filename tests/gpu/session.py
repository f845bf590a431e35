"""session: one half of tests/gpu/run as it goes: where the programs are, what is started, how long it may take, what came of it.

Our libraries are put in the library path of our programs only (Place.env): PyTorch and the toolkit's tools get the environment as it was, but
for the card: all that is started computes on one (card_env).
A stage that fails, runs past its limit, finds no time left or leaves a wanted figure out makes its half fail; the others go on."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT, NO_TIME = "ran past its own limit", "no time left"  # in place of an exit status
KILL_SECONDS = 5  # for what is killed to end: what is stuck in the driver does not, and is not waited for longer
PR_SET_CHILD_SUBREAPER = 36


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


def output_of(words, seconds=20, env=None):
    try:
        p = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             errors="replace", cwd=ROOT, env=env, start_new_session=True)
    except OSError:
        return ""
    try:
        return p.communicate(timeout=seconds)[0].strip()
    except subprocess.TimeoutExpired:
        return ""
    finally:
        end_all(p)


# ---- ending --------------------------------------------------------------------------------------------------------


def adopt():
    """From now on what outlives the program that started it is a child of this one, which so can wait for its end."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def of_session(number):
    """{process: its name} of those in the system's session of that number; the ended ones that are ours are waited for."""
    found = {}
    for pid in (int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            name, rest = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)
        except (OSError, ValueError):  # it has ended
            continue
        (state, parent, _, session), threads = rest.split()[:4], int(rest.split()[17])
        if session != str(number):
            continue
        if state not in "ZX" or threads > 1:  # a first thread that has ended waits for one that is stuck
            found[pid] = name.split("(", 1)[1]
        elif parent == str(os.getpid()) and pid != number:  # number itself is Popen's to wait for
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
    return found


def end_all(process):
    """Kills what was started with start_new_session and all that it has started, whatever their process groups: `shoal local` gives each of
    its programs one of its own. Waits for their end; gives what has not ended after KILL_SECONDS."""
    end = time.monotonic() + KILL_SECONDS
    while True:
        process.poll()
        left = of_session(process.pid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.02)


# ---- where things are ----------------------------------------------------------------------------------------------


def card():
    """The one card that all figures are of; "": cards are hidden from us."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()


def card_env(**more):
    """Only that card is seen (`shoal local` gives each worker one of its own where there are several), and numbers mean what they mean to
    nvidia-smi."""
    return dict(os.environ, CUDA_VISIBLE_DEVICES=card(), CUDA_DEVICE_ORDER="PCI_BUS_ID", **more)


class Place:
    """An unpacked archive (it has a file PACKED) or a source tree with a build folder."""

    def __init__(self, build, module, root=ROOT):
        packed = root.resolve() / "PACKED"
        self.packed = packed.exists()
        self.bin = packed.parent / "bin" if self.packed else pathlib.Path(build).resolve() / "bin"
        self.lib = packed.parent / "lib" if self.packed else None
        self.module = module
        self.facts = self.facts_packed(packed) if self.packed else self.facts_built(pathlib.Path(build))

    def facts_packed(self, packed):
        lines = packed.read_text(encoding="utf-8").splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def facts_built(self, build):
        commit = output_of(["git", "rev-parse", "--short=12", "HEAD"]) or "unknown"
        if output_of(["git", "status", "--porcelain", "--untracked-files=no"]):
            commit += " with changes"
        try:
            cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
        except OSError:
            cache = ""
        kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache, re.M)
        return {"commit": commit, "build type": kind[1] if kind else "unknown"}

    def env(self, **more):
        """For our programs: our libraries before what was there."""
        folders = [self.lib, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        path = ":".join(str(f) for f in folders if f)
        return card_env(**({"LD_LIBRARY_PATH": path} if path else {}), **more)


# ---- a half --------------------------------------------------------------------------------------------------------


class Session:
    def __init__(self, half, dry, place, scratch, seconds):
        self.half, self.dry, self.place, self.scratch = half, dry, place, scratch
        self.module = place.module
        self.begin = time.monotonic()
        self.end = self.stage_end = self.begin + seconds
        self.log = scratch / "logs" / half
        self.log.mkdir(parents=True, exist_ok=True)
        self.about, self.stages, self.figures, self.wanted = {}, [], {}, []
        self.failures, self.notes = [], []
        self.stopped = False
        self.after_stage = lambda s: None  # the results so far are written, in case the machine is taken away
        self.lock = threading.Lock()

    def left(self, most=1e9):
        return max(0.0, min(most, self.stage_end - time.monotonic(), self.end - time.monotonic()))

    def took(self):
        return time.monotonic() - self.begin

    def say(self, text):
        print(f"[{self.took():5.0f} s] {text}", flush=True)

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
        self.say("FAILED: " + text)

    def figure(self, key, value):
        self.figures[key] = value

    def want(self, keys):
        self.wanted += keys

    def missing(self):
        return [key for key in self.wanted if self.figures.get(key) is None]

    def complete(self):
        return not self.failures and not self.missing() and bool(self.wanted)

    def stage(self, name, seconds, function):
        """Runs it within its limit; what it raises costs itself alone."""
        if self.stopped:
            return self.stages.append({"name": name, "seconds": 0, "state": "left out"})
        begin, failed = time.monotonic(), len(self.failures)
        self.stage_end = begin + seconds
        try:
            if self.left() < 1:
                self.fail(f"{name}: left out, {NO_TIME}")
            else:
                function(self)
        except Exception as error:  # the results of the other parts are worth having
            self.fail(f"{name}: {type(error).__name__}: {error}")
        state = "ok" if len(self.failures) == failed else "failed"
        self.stages.append({"name": name, "seconds": round(time.monotonic() - begin, 1), "limit": seconds, "state": state})
        self.say(f"{name}: {state}, {time.monotonic() - begin:.1f} s of {seconds:.0f}")
        self.after_stage(self)

    def keep(self, name, out):
        """A program's output, into the folder of logs that goes into one archive."""
        with self.lock, open(self.log / (re.sub(r"[^\w.-]+", "-", name) + ".log"), "a", encoding="utf-8", errors="replace") as f:
            f.write(out + "\n")

    def run(self, what, words, seconds, env=None):
        """(exit status, TIMEOUT or NO_TIME; output). What it started is ended with it, however it ends. env: None for our programs."""
        most, seconds = seconds, self.left(seconds)
        if seconds < 0.5:
            return NO_TIME, NO_TIME
        p = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", cwd=ROOT, env=self.place.env() if env is None else env, start_new_session=True)
        try:
            out, _ = p.communicate(timeout=seconds)
            code = p.returncode
        except subprocess.TimeoutExpired:
            out, code = None, TIMEOUT if seconds >= most else NO_TIME
        finally:
            stuck = end_all(p)
        if out is None:
            try:
                out, _ = p.communicate(timeout=KILL_SECONDS)
            except subprocess.TimeoutExpired:  # it is stuck in the driver, where no signal reaches it
                out = "and does not end when it is killed"
        if stuck:
            self.fail(f"{what}: killed and still there, beside what is measured next: {', '.join(f'{n} {pid}' for pid, n in stuck.items())}")
        self.keep(what, f"$ {' '.join(str(w) for w in words)}\n{out}[{code}]\n")
        return code, out

    def judge(self, what, code, out, lines=8):
        """True: it ended well. Else a failure says what."""
        if code != 0:
            how = code if isinstance(code, str) else f"exit status {code}"
            self.fail(f"{what}: {how}\n{last_lines(out, lines)}")
        return code == 0

    def gpu_step(self, what, words, seconds, env=None):
        """Returns the output of gpu_step, a dictionary a line; a failure is reported."""
        code, out = self.run(what, [self.place.bin / "gpu_step", "--module", self.module, *words], seconds, env)
        self.judge(what, code, out)
        found = json_lines(out)
        for r in found:
            self.about.setdefault("device", r["kernel"])
            if r.get("cublaslt"):
                self.about.setdefault("cuBLASLt", r["cublaslt"])
        return found
