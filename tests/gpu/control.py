#!/usr/bin/env python3
"""control: what tests/gpu/run must not let pass: what fails, hangs, skips itself, is left out or is not there must make its half fail, and
what is told must be what happened. Programs are scripts that play a part."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import correctness
import jobs
import results
import run
import session
import smoke
import steps

SAYS = ('echo \'{"kind": "KIND", "mode": "whole", "kernel": "a card", "cublaslt": "/x/libcublasLt.so.13", "ms": 1.0, '
        '"products_ms": 0.5, "loss": 0.7, "memory_mib": 1, "batch": 8, "examples_per_second": 8000, "bytes_up": 1, "bytes_down": 1, '
        '"counters": {"recordings": 2, "plays": 9, "spoiled": 0, "choices": 4, "refusals": 0}}\'')


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
    path.chmod(0o755)


def play(folder, programs, dry=False, seconds=60):
    for name, text in programs.items():
        script(folder / "bin" / name, text)
    s = session.Session("speed", dry, session.Place(folder, "cuda"), folder, seconds)
    s.say = lambda text: None
    return s


@contextlib.contextmanager
def path_before(folder):
    was = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{was}"
    try:
        yield
    finally:
        os.environ["PATH"] = was


@contextlib.contextmanager
def killing_nothing():
    """No signal reaches what is stuck in the driver."""
    real, session.KILL_SECONDS = (os.kill, session.KILL_SECONDS), 0.4
    os.kill = lambda pid, number: None
    try:
        yield
    finally:
        os.kill, session.KILL_SECONDS = real


# ---- stages --------------------------------------------------------------------------------------------------------


def check_stages(folder):
    s = play(folder, {})
    assert not s.complete(), "a half without a figure is not complete"
    s.stage("good", 9, lambda s: (s.want(["a"]), s.figure("a", 0)))
    assert s.complete() and s.stages[-1]["state"] == "ok", s.failures
    s.want(["b"])
    assert not s.complete() and s.missing() == ["b"]
    s.figure("b", None)
    assert s.missing() == ["b"], "a figure is a number"
    s.figure("b", 1)
    assert s.complete()
    s.stage("bad", 9, lambda s: s.nothing)
    assert not s.complete() and "bad: AttributeError" in s.failures[0] and s.stages[-1]["state"] == "failed"
    s = play(folder, {}, seconds=0.5)
    s.stage("late", 9, lambda s: s.figure("a", 1))
    assert not s.figures and "late: left out" in s.failures[0], s.failures


def check_limits(folder):
    s = play(folder, {"slow": "sleep 20", "stuck": "setsid sleep 9 & sleep 20"})
    s.stage_end = s.end
    code, out = s.run("slow", [s.place.bin / "slow"], 1)
    assert code == session.TIMEOUT and not s.judge("slow", code, out) and s.failures
    begin = time.monotonic()
    code, _ = s.run("stuck", [s.place.bin / "stuck"], 1)  # the holder of its output outlives it, like a process stuck in the driver
    assert code == session.TIMEOUT and time.monotonic() - begin < 8
    s = play(folder, {"slow": "sleep 20"}, seconds=1.5)
    code, out = s.run("slow", [s.place.bin / "slow"], 100)
    assert code == session.NO_TIME and not s.judge("slow", code, out) and session.NO_TIME in s.failures[0]
    s = play(folder, {"slow": "sleep 20"})
    s.stage("a stage", 1.5, lambda s: s.judge("slow", *s.run("slow", [s.place.bin / "slow"], 100)))
    assert s.took() < 8 and s.failures, "a stage has a limit of its own"


# As `shoal local`: a program in a process group of its own, which does not hear what asks it to end.
LOCAL = """import os, subprocess, sys, time
text = 'import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)'
p = subprocess.Popen([sys.executable, '-c', text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.setpgid(0, 0))
p.stdout.readline()
open(sys.argv[1], 'w').write(str(p.pid))
time.sleep(float(sys.argv[2]))"""


def check_ends(folder):
    """Processes that a program leaves behind end with it, whether it was killed or ended by itself; it has not ended while one of its threads runs."""
    text = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=[60]).start(); ctypes.CDLL(None).syscall(60, 0)"
    p = subprocess.Popen([sys.executable, "-c", text], start_new_session=True)
    while pathlib.Path(f"/proc/{p.pid}/stat").read_text(encoding="ascii").split()[2] != "Z":
        time.sleep(0.02)
    assert p.pid in session.of_session(p.pid)
    assert not session.end_all(p) and p.returncode == -9
    s = play(folder, {})
    s.stage_end = s.end
    for name, seconds, expected in (("killed", 60, session.TIMEOUT), ("ended", 0, 0)):
        code, out = s.run(name, [sys.executable, "-c", LOCAL, folder / name, seconds], 2)
        pid = int((folder / name).read_text(encoding="ascii"))
        assert code == expected and not pathlib.Path(f"/proc/{pid}").exists() and not s.failures, (name, code, out, s.failures)


def check_stuck(folder):
    """A process that no signal reaches is waited for up to a limit, and reported."""
    script(folder / "path/nvidia-smi", "exec sleep 20")
    s = play(folder, {"slow": "sleep 20"})
    s.stage_end = s.end
    begin, started_here = time.monotonic(), []
    real, subprocess.Popen = subprocess.Popen, lambda *a, **k: started_here.append(real(*a, **k)) or started_here[-1]
    try:
        with killing_nothing(), path_before(folder / "path"):
            assert session.output_of(["sleep", "20"], 0.2) == ""
            s.run("slow", [s.place.bin / "slow"], 0.6)
            assert len(s.failures) == 1 and "killed and still there" in s.failures[0] and "sleep" in s.failures[0], s.failures
            assert jobs.Card(folder).busy() is None
            peer = object.__new__(steps.Peer)
            peer.process, peer.log = subprocess.Popen(["sleep", "20"], start_new_session=True), open(os.devnull, "w", encoding="ascii")
            peer.close()
        assert time.monotonic() - begin < 8 and len(started_here) == 4, time.monotonic() - begin
        s.run = lambda *words: 1 / 0
        with path_before(folder / "path"), contextlib.suppress(ZeroDivisionError):
            jobs.run_local(s, "a job", "cpu", 1, 1, [], 9)
        assert started_here[-1].args[:3] == ["nvidia-smi", "-i", "0"] and started_here[-1].poll() is not None, "it ends with its job"
    finally:
        subprocess.Popen = real
        for p in started_here:
            session.end_all(p)
            p.kill()


def check_smoke(folder):
    good = SAYS.replace("KIND", "fm")
    lib = {"libshoal_cuda.so": ""}
    s = play(folder / "a", {"gpu_step": good, **lib})
    s.stage("smoke", 9, smoke.smoke(["fm"]))
    assert s.complete() and not s.stopped and s.about["cuBLASLt"] == "/x/libcublasLt.so.13", (s.failures, s.about)
    for name, text in (("b", "echo step: the card is on fire >&2; exit 1"), ("c", good + '; test -z "$CUDA_LAUNCH_BLOCKING"'), ("d", "exit 0")):
        s = play(folder / name, {"gpu_step": text, **lib})
        s.stage("smoke", 9, smoke.smoke(["fm"]))
        s.stage("next", 9, lambda s: s.figure("next", 1))
        assert s.stopped and not s.complete() and "next" not in s.figures and s.stages[-1]["state"] == "left out", name
        assert name != "b" or "on fire" in s.failures[0], s.failures
    s = play(folder / "e", {"gpu_step": good})
    s.stage("smoke", 9, smoke.smoke(["fm"]))
    assert s.stopped and "libshoal_cuda.so" in s.failures[0], s.failures


# ---- correctness ---------------------------------------------------------------------------------------------------


def tests_of(folder, **programs):
    s = play(folder, {"dense_layer_test_" + name: text for name, text in programs.items()})
    s.stage("tests", 30, correctness.stage_tests)
    return s


def check_tests(folder):
    assert tests_of(folder / "a", a="exit 0", b='test "$CK_FORK" = no').complete()
    assert tests_of(folder / "b", plan='test "$CK_FORK" = yes').complete(), "what aborts on purpose is forked"
    for name, text in (("c", "exit 77"), ("d", "echo 'skipped: not here'; exit 77"), ("e", "exit 1"), ("f", "kill -SEGV $$")):
        s = tests_of(folder / name, a="exit 0", b=text)
        assert len(s.failures) == 1 and "dense_layer_test_b" in s.failures[0] and s.missing() == ["tests/dense_layer_test_b"], (name, s.failures)
    assert tests_of(folder / "g").failures


def sanitizer(folder, text):
    """text: what the tool does, after `leave` is set where the control is asked for."""
    s = play(folder, {"gpu_step": "exit 0"})
    help_or_leave = 'case "$*" in *--help*) echo "--kernel-name --filter"; exit 0;; *leave-out*) leave=yes;; esac\n'
    script(folder / "path/compute-sanitizer", help_or_leave + text)
    with path_before(folder / "path"):
        s.stage("sanitizer", 30, correctness.stage_sanitizer)
    return s


def check_sanitizer(folder):
    sees = 'if [ "$leave" ]; then echo Uninitialized pool_weights pool_fours; exit 9; fi\n'
    s = sanitizer(folder / "a", sees + 'case "$*" in *kns=*fp32* | *bf16*) case "$*" in *kns=*bf16*) exit 0;; esac; exit 3;; esac')
    assert s.complete() and s.figures["sanitizer/memcheck/bf16"]["filter"] == "--kernel-name kns=_args", s.failures
    assert s.figures["sanitizer/initcheck/fp32"]["filter"] == "" and s.figures["sanitizer/16 bytes"] is True
    s = sanitizer(folder / "b", 'case "$*" in *kns=_args*) exit 0;; esac\n' + sees)
    assert s.figures["sanitizer/memcheck/bf16"]["filter"] == "--kernel-name kns=_kernel", "a filter that fits nothing is not taken"
    s = sanitizer(folder / "c", "exit 0")
    assert s.failures and len(s.missing()) == 5, "a tool that sees nothing says nothing"
    s = sanitizer(folder / "d", sees + 'case "$*" in *memcheck*) echo "a read"; exit 9;; esac')
    assert s.missing() == ["sanitizer/memcheck/fp32", "sanitizer/memcheck/bf16"] and "a read" in s.failures[0], s.failures
    s = sanitizer(folder / "f", sees.replace("pool_fours", ""))
    assert s.complete() and s.figures["sanitizer/16 bytes"] is False, "what it does not see is told"
    s = play(folder / "e", {})
    find, correctness.sanitizer_find = correctness.sanitizer_find, lambda: None
    s.stage("sanitizer", 9, correctness.stage_sanitizer)
    correctness.sanitizer_find = find
    assert s.failures and len(s.missing()) == 5, "on a card its absence is a failure"


# ---- speed ---------------------------------------------------------------------------------------------------------

PLAYED_TORCH = """import json, sys, time
for variant in ("eager", "compiled", "graphs"):
    for precision in ("fp32", "tf32", "bf16"):
        print(json.dumps({"precision": precision, "variant": variant, "ready": True}), flush=True)
for line in sys.stdin:
    precision, variant, seconds = line.split()
    TRICK
    print(json.dumps({"precision": precision, "variant": variant, "ms": 2.0}), flush=True)
"""


def steps_with_torch(folder, trick, sees="0", seconds=60, refusals=0):
    """PyTorch is there and says to be able to compute; torch_step.py plays with `trick`."""
    says = "\n".join(SAYS.replace("KIND", kind).replace('"refusals": 0', f'"refusals": {refusals}') for kind in smoke.KINDS)
    s = play(folder, {"gpu_step": says}, seconds=seconds)
    script(folder / "python3", f'case "$1" in -c) echo 9.9; exit {sees};; esac; exec {sys.executable} {folder}/torch_step.py')
    (folder / "torch_step.py").write_text(PLAYED_TORCH.replace("TRICK", trick), encoding="utf-8")
    real, steps.sys = steps.sys, type("sys", (), {"executable": str(folder / "python3")})
    try:
        s.stage_end = s.end
        peers = steps.Peers(s)
        s.stage("ready", 30, peers.wait_ready)
        s.stage("steps", 30, steps.stage_steps(peers))
        peers.close()
    finally:
        steps.sys = real
    return s


def check_torch(folder):
    s = steps_with_torch(folder / "a", "pass")
    assert s.complete() and len(s.figures["step/dlrm/16384/bf16/graphs"]["ms"]) == 2, s.failures
    text = results.text_of({"speed": results.half_of(s)})
    assert "**yes** (eager / Shoal: deepfm 4096 2.00" in text and "recordings that were spoiled: none." in text, text
    s = steps_with_torch(folder / "b", "sys.exit(1) if (precision, variant) == ('bf16', 'graphs') else 0")
    assert not s.complete() and "step/dlrm/16384/bf16/graphs" in s.missing() and "it has ended" in s.failures[0], s.failures
    s = steps_with_torch(folder / "c", "print(json.dumps({'error': 'no compiler'}), flush=True); continue")
    assert not s.complete() and "no compiler" in s.failures[0]
    s = steps_with_torch(folder / "d", "pass", sees="3", refusals=3)
    text = results.text_of({"speed": results.half_of(s)})
    assert "deepfm 4096 bf16 6 and 0 (8 ways" in text and "deepfm 4096 bf16 not det. 6 and 0 (8 ways" in text, text
    assert not s.complete() and "sees no card" in s.failures[0]
    s = steps_with_torch(folder / "f", "pass", sees="1")
    assert not s.complete() and "import torch" in s.failures[0], "installed, and does not work"
    s = steps_with_torch(folder / "e", "pass", sees="4")
    assert s.complete() and "not installed" in s.notes[0], s.failures
    assert "in fp32: not measured" in results.text_of({"speed": results.half_of(s)})


# ---- places and results --------------------------------------------------------------------------------------------


def check_place(folder):
    """Our programs and PyTorch see one card, the first of those that we see; nvidia-smi is asked for the same."""
    before = dict(os.environ)
    place = session.Place(folder, "cuda")
    try:
        for seen, one in ((None, "0"), ("3,1", "3"), ("GPU-8932f937", "GPU-8932f937"), ("", "")):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            if seen is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = seen
            assert session.card() == one, (seen, session.card())
            for env in (place.env(A="b"), session.card_env(A="b")):
                assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"], env["A"]) == (one, "PCI_BUS_ID", "b"), env
    finally:
        os.environ.clear()
        os.environ.update(before)


def started(words, path):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, env=dict(os.environ, PATH=str(path)))


def check_run(folder):
    """Without a driver one line and 77; with one and without python3 a sentence and 69."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "grep", "sed"):
        (tools / name).symlink_to(shutil.which(name))
    for words in ([], ["--ctest"], ["speed"], ["--out", "results"], ["speed", "--build", "results"], ["--out", "--dry"]):
        ended = started([HERE / "run", *words], tools)
        assert ended.returncode == 77 and ended.stdout.count("\n") == 1 and "no GPU" in ended.stdout and not ended.stderr, ended
    script(tools / "nvidia-smi", "echo no devices")
    assert started([HERE / "run"], tools).returncode == 77
    script(tools / "nvidia-smi", "echo GPU 0: played")
    ended = started([HERE / "run", "correctness"], tools)
    assert ended.returncode == 69 and "python3" in ended.stderr, ended


def check_written(folder):
    """If the second place for results cannot exist, they are in the first, which is said once; logs are kept when nothing can be written."""
    (folder / "file").touch()
    out, halves = folder / "out", {}
    s = play(folder / "half", {})
    o = type("options", (), {"out": out, "dry": False, "seconds": 9})
    write = run.writer(o, folder / "file/results", halves)
    write(s)
    write(s, ended=True)
    assert len(s.notes) == 1 and "results are in" in (out / "RESULTS.md").read_text(encoding="utf-8"), s.notes
    real, run.RUN = run.RUN, {"speed": lambda s: s.keep("a log", "said")}
    try:
        run.half_run(o, "speed", s.place, folder, lambda s, ended=False: 1 / 0)
    except ZeroDivisionError:
        pass
    finally:
        run.RUN = real
    assert (out / "logs-speed.tar.gz").exists()


def check_results(folder):
    """Stages that raise cost themselves, not the results; halves of two calls come together; a dry one and a real one do not."""
    words = [sys.executable, "-B", HERE / "run.py", "--dry", "--build", folder / "none", "--out", folder / "out"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    text = (folder / "out/RESULTS.md").read_text(encoding="utf-8")
    assert ended.returncode == 1 and "- correctness: not complete" in text and "- speed: not complete" in text, (ended, text)
    assert "## Speed: NOT complete" in text and "Failed:" in text and "libshoal_cudahost.so" in text and "NOT measured on a GPU" in text, text
    s = play(folder / "half", {})
    s.figure("whole/best", {"setting": "a setting", "lines": 9, "first": 1, "last": 1000001, "bottleneck": None, "time": {"read": 1},
                            "busy": {}, "cpu_seconds": {}, "cpu_us_an_example": 1, "card_busy": None})
    for name in results.HALVES:
        file = folder / f"{name}.json"
        file.write_text(json.dumps({name: results.half_of(s)}), encoding="utf-8")
    words = [HERE / "run", "results", folder / "correctness.json", folder / "speed.json", "--out", folder / "both"]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended
    text = (folder / "both/RESULTS.md").read_text(encoding="utf-8")
    assert "- speed: not complete" in text and "**yes** (1,000,001 examples/s)" in text and "dry" not in text, (ended, text)
    o = type("options", (), {"out": folder / "both", "dry": True})
    assert run.earlier(o, folder / "nowhere") == {} and results.read(folder / "correctness.json").keys() == {"correctness"}
    o.dry = False
    assert run.earlier(o, folder / "nowhere").keys() == {"correctness", "speed"}
    s.want(["whole/best"])
    cut = results.half_of(s, ended=False)
    assert results.half_of(s)["complete"] and not cut["complete"] and "cut off" in results.text_of({"speed": cut})
    assert subprocess.run([HERE / "run", "results", folder / "none.json"], capture_output=True).returncode == 65


def check_readme(folder):
    """The README's figure is that of the page beside it, and one of another page is put in."""
    readme = folder / "README.md"
    readme.write_text("at <!-- rate -->9.9<!-- /rate --> million", encoding="utf-8")
    results.readme_put(readme, "- the whole way at 1,000 examples/s or more: **yes** (2,449,000 examples/s)")
    assert "-->2.4<!--" in readme.read_text(encoding="utf-8")
    page, whole = HERE / "RESULTS.md", HERE.parent.parent / "README.md"
    if page.exists() and whole.exists():  # an archive has neither
        said = results.README_RATE.search(whole.read_text(encoding="utf-8"))
        assert said and said[0] == results.rate_of(page.read_text(encoding="utf-8")), said


def main():
    session.adopt()
    with tempfile.TemporaryDirectory(prefix="shoal-gpu-control-") as name:
        for check in (check_stages, check_limits, check_ends, check_stuck, check_smoke, check_tests, check_sanitizer, check_torch, check_place,
                      check_run, check_written, check_results, check_readme):
            folder = pathlib.Path(name) / check.__name__
            folder.mkdir()
            check(folder)
    print("tests/gpu/run refuses what it must refuse")


main()
