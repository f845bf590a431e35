#!/usr/bin/env python3
"""control: what tests/gpu/run must not let pass: programs that skip themselves, hang, fail or are not there."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import run


def session(folder, programs, seconds=60):
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    for name, text in programs.items():
        (binaries / name).write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
        os.chmod(binaries / name, 0o755)
    s = run.Session(argparse.Namespace(dry=False, no_build=True, seconds=seconds, build=folder))
    s.say = lambda text: None
    return s


def tests_of(folder, **programs):
    s = session(folder, {"dense_test_" + name: text for name, text in programs.items()})
    run.stage_tests(s)
    return s, s.sections[0][1][0]


def check_skips(folder):
    s, line = tests_of(folder / "a", a="exit 0", b="exit 77")
    assert len(s.failures) == 1 and "dense_test_b" in s.failures[0], s.failures
    assert "against the CPU" not in line, line
    s, line = tests_of(folder / "b", a="exit 0", b="echo 'skipped: not here'; exit 77")
    assert not s.failures and "dense_test_b (not here)" in line and "against the CPU" not in line, line
    s, _ = tests_of(folder / "c", b="echo 'skipped: not here'; exit 77")
    assert len(s.failures) == 1, s.failures
    s, _ = tests_of(folder / "d")
    assert len(s.failures) == 1, s.failures
    s, line = tests_of(folder / "e", a="exit 0", b="exit 0")
    assert not s.failures and "against the CPU" in line, line
    s, _ = tests_of(folder / "f", a="exit 0", b="exit 1")
    assert len(s.failures) == 1, s.failures


def check_limits(folder):
    s = session(folder / "g", {"slow": "sleep 20", "stuck": "setsid sleep 9 & sleep 20"})
    code, out = s.run([s.bin / "slow"], 1)
    assert code == run.TIMEOUT and not s.judge("slow", code, out) and s.failures and not s.notes
    begin = time.monotonic()
    code, _ = s.run([s.bin / "stuck"], 1)  # what holds its output outlives it, as a process stuck in the driver does
    assert code == run.TIMEOUT and time.monotonic() - begin < 8
    s = session(folder / "h", {"slow": "sleep 20"}, seconds=1.5)
    code, out = s.run([s.bin / "slow"], 100)
    assert code == run.NO_TIME and not s.judge("slow", code, out) and s.notes and not s.failures


def check_results(folder):
    """Stages that raise cost themselves, not the results."""
    results = folder / "RESULTS.md"
    words = [sys.executable, "-B", HERE / "run.py", "--dry", "--build", folder / "none", "--results", results]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    text = results.read_text(encoding="utf-8")
    assert ended.returncode == 1, ended
    assert "## Failed" in text and "- steps: FileNotFoundError" in text, text


with tempfile.TemporaryDirectory(prefix="shoal-gpu-control-") as name:
    for check in (check_skips, check_limits, check_results):
        check(pathlib.Path(name))
print("tests/gpu/run refuses what it must refuse")
