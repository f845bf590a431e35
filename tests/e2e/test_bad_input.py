#!/usr/bin/env python3
"""test_bad_input: wrong data, files, configuration and bytes end in the right exit status and a sentence that says what to do."""
import bz2
import gzip
import re

from fleet import Fleet
from lib import *


def refused(space, job, status, *words, extra=()):
    run = Run(job, space / f"run-{random.randrange(10**9)}", 1, 1, extra)
    got = run.wait(120)
    text = run.output()
    assert got == status, f"exit status {got}, expected {status}:\n{text[-2000:]}"
    for word in words:
        assert word in text, f"{word!r} is not in:\n{text[-2000:]}"
    return text


def malformed_lines_are_counted(space):
    train = synth(space / "train.tsv", 5000, 1)
    lines = train.read_text().split("\n")
    lines[100] = "x" + lines[100]
    lines[200] = "only\tthree\tcolumns"
    train.write_text("\n".join(lines))
    run = Run(job_file(space / "job.yaml", train, **{"data.max_bad": 0.01, "data.valid": str(train), "data.shuffle": False, "train.batch": 64, "train.task_batches": 1}), space / "run")
    assert run.wait() == 0, run.output()[-2000:]
    report = run.report()
    assert report["bad_lines"] == 4, report["bad_lines"]  # two in each split
    label = lines[100].split("\t")[0]
    assert sorted(text.rsplit("/", 1)[1] for text in report["bad_where"]) == [
        f'train.tsv:101: no number as label: column "label" has "{label}"; write it as 0 or 1, or name the words that are 1 in data.label_positive', "train.tsv:201: 3 columns between tabs, not 40 (label, 13 integers, 26 categories)"], report["bad_where"]
    for text in report["bad_where"]:
        assert text in run.output() and text in run.logs("coordinator") and text in run.logs("worker-0"), text
    assert report["examples"] == 4998, report["examples"]


def too_many_malformed_lines_end_with_65(space):
    train = synth(space / "train.tsv", 3000, 1)
    lines = train.read_text().split("\n")
    for i in range(0, 3000, 10):
        lines[i] = "broken"
    train.write_text("\n".join(lines))
    refused(space, job_file(space / "job.yaml", train, **{"data.max_bad": 0.01}), 65, "train.tsv:", "max_bad")


def each_file_of_another_format_is_named(space):
    """Only the first training file was looked at; the lines of the others were malformed, at an evaluation hours later."""
    train = synth(space / "train.tsv", 2000, 1)
    text = train.read_text()
    (space / "b.csv").write_text(text.replace("\t", ","))
    (space / "b.csv.gz").write_bytes(gzip.compress((space / "b.csv").read_bytes()))
    (space / "b.json").write_text('{"label": 1}\n')
    (space / "b.bz2.gz").write_bytes(gzip.compress(bz2.compress(text.encode())))
    said = {"b.csv": '40 columns are parted by "," here', "b.csv.gz": '40 columns are parted by "," here', "b.json": "it is JSON", "b.bz2.gz": "packed twice, by bzip2"}
    for name, words in said.items():
        for keys in ({"data.valid": str(space / name)}, {"data.test": str(space / name)}, {"data.train": [str(train), str(space / name)]}):
            got = refused(space, job_file(space / "job.yaml", train, **keys), 65, words, f"/{name}")
            assert "ended" not in got and "malformed" not in got and "fields and numbers" not in got, got
    with Fleet(space, "a", 1).up() as fleet:
        job = job_file(space / "job.yaml", train, **{"data.test": str(space / "b.csv"), "train.epochs": longer(20)})
        fleet.start("worker", "train", "--config", job, "--coordinator", fleet.endpoint, program="shoal-worker")
        got = subprocess.run([SHOAL, "submit", job, "--coordinator", fleet.endpoint], capture_output=True, text=True, timeout=120, check=False)
        assert got.returncode == 65 and f"{space}/b.csv:1: 40 columns are parted by" in got.stderr, got
        assert "1,000 examples" not in got.stdout and "malformed" not in got.stderr, got


def missing_file_ends_with_66(space):
    refused(space, job_file(space / "job.yaml", space / "nowhere.tsv"), 66, "nowhere.tsv")


def missing_job_file_ends_with_66(space):
    refused(space, space / "nojob.yaml", 66, "nojob.yaml")


def bad_configuration_ends_with_78_and_names_the_line(space):
    train = synth(space / "train.tsv", 100, 1)
    job = job_file(space / "job.yaml", train)
    job.write_text(job.read_text() + "trian.batch: 3\n")
    lines = len(job.read_text().split("\n")) - 1
    refused(space, job, 78, f"job.yaml:{lines}:", "trian.batch", "train.batch")
    refused(space, job_file(space / "b.yaml", train, **{"train.batch": 0}), 78, "train.batch")


def wrong_usage_ends_with_64(space):
    for words in (["frobnicate"], ["local"], ["local", "a", "b"], ["local", "--nope"], ["local", "x.yaml", "--servers", "0"],
                  ["bench", "--only", "pull"], ["submit", "a.yaml"], ["stop"], ["status"], ["status", "--coordinator", "127.0.0.1:7000"], ["keygen"]):
        got = subprocess.run([SHOAL, *words], capture_output=True, text=True, check=False)
        assert got.returncode == 64, (words, got.returncode, got.stderr)
        assert got.stderr.strip(), words


def help_and_version_of_every_program(space):
    for words in ([SHOAL], [SHOAL, "local"], [SHOAL, "submit"], [SHOAL, "stop"], [SHOAL, "status"], [SHOAL, "digest"], [SHOAL, "inspect"], [SHOAL, "tables"], [SHOAL, "blame"], [SHOAL, "erase"], [SHOAL, "synth"], [SHOAL, "bench"],
                  [BIN / "shoal-server"], [BIN / "shoal-coordinator"], [BIN / "shoal-worker"]):
        got = subprocess.run([*words, "--help"], capture_output=True, text=True, check=False)
        assert got.returncode == 0 and "usage" in got.stdout.lower(), (words, got)
    for program in (SHOAL, BIN / "shoal-server", BIN / "shoal-coordinator", BIN / "shoal-worker"):
        got = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        name, lines = pathlib.Path(program).name, got.stdout.splitlines()
        assert got.returncode == 0 and re.fullmatch(rf"{name} \d+\.\d+\.\d+", lines[0]), (program, got)
        told = dict(line.split(": ", 1) for line in lines[1:])
        assert re.fullmatch(r"\d+", told["protocol"]) and all(re.fullmatch(r"\S+ \d+(\.\d+)+", one) for one in told["libraries"].split(", ")), told
        assert ("RocksDB" in told["libraries"]) == ("store checksums" in told) == (name in ("shoal", "shoal-server")), told
        assert (name == "shoal-worker") == told.get("dense kernels", "").startswith("cpu, OpenBLAS "), told


def port_in_use_is_said(space):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        got = subprocess.run([BIN / "shoal-server", "--set", f"listen=tcp://127.0.0.1:{port}", "--set", f"data_dir={space / 'data'}",
                              "--set", "insecure_plaintext=true"],
                             capture_output=True, text=True, timeout=60, check=False)
        assert got.returncode == 69, got
        assert str(port) in got.stderr and "in use" in got.stderr, got.stderr


def open_address_needs_a_word(space):
    for address in ("0.0.0.0", "127.0.0.1", "localhost"):
        for program in ("shoal-server", "shoal-coordinator"):
            got = subprocess.run([BIN / program, "--set", f"listen=tcp://{address}:7070", "--set", f"data_dir={space / 'data'}"],
                                 capture_output=True, text=True, timeout=60, check=False)
            assert got.returncode == 78, got
            assert all(word in got.stderr for word in ("insecure_plaintext", "shoal keygen", "ipc://PATH")), got.stderr


def unreachable_coordinator_is_said(space):
    train = synth(space / "train.tsv", 100, 1)
    job = job_file(space / "job.yaml", train)
    port = free_port()
    got = subprocess.run([BIN / "shoal-worker", "train", "--config", str(job), "--coordinator", f"tcp://127.0.0.1:{port}", "--wait", "2", "--insecure-plaintext"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == 69, got
    assert str(port) in got.stderr, got.stderr


def full_disk_is_refused_by_name(space):
    """A small file system is full: the server says NO_SPACE or ends with a sentence; nothing hangs."""
    with small_disk(space, "48m") as mount:
        train = synth(space / "train.tsv", 20000, 1)
        run = Run(job_file(space / "job.yaml", train, **{"train.epochs": 100}), mount / "run", 1, 1)
        run_log = None
        end = time.monotonic() + PATIENCE * 60
        said = False
        while time.monotonic() < end and run.running() and not said:
            time.sleep(0.5)
            run_log = run.output() + run.logs()
            said = "space" in run_log.lower()
        run.process.terminate()
        run.wait(120)
        assert said, f"nobody said that space is short:\n{run_log[-3000:]}"


def garbage_to_every_socket_harms_nobody(space):
    train = synth(space / "train.tsv", 6000, 1)
    over = {"train.consistency": "bsp", "train.epochs": longer(30)}
    expected = digests(run_job(job_file(space / "calm.yaml", train, **over), space / "calm", 2, 2))
    run = Run(job_file(space / "job.yaml", train, **over), space / "run", 2, 2)
    doors, rng, sent = [], random.Random(4), 0
    while run.running() and sent < 400:
        if len(doors) < 3:
            doors = run.sockets()
            time.sleep(0.02)
            continue
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(1)
                s.connect(rng.choice(doors))
                kind = rng.randrange(4)
                if kind == 0:
                    s.sendall(rng.randbytes(rng.randrange(1, 5000)))
                elif kind == 1:
                    s.sendall(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00NULL" + bytes(48) + rng.randbytes(500))
                elif kind == 2:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                sent += 1
        except OSError:
            time.sleep(0.05)
    assert run.wait(300) == 0, run.output()[-3000:]
    if sent < 100:
        raise TooShort(f"only {sent} pieces of garbage could be sent")
    report = run.report()
    assert digests(report) == expected
    assert report["restarts"] == 0, "somebody died of garbage"


def bad_gradients_are_kept_and_the_job_goes_on(space):
    """1e20 is a number, but the gradient that it gives is none that a table takes."""
    def log(name, every):
        lines = ["label,x,user"] + [f"{i % 2},{'1e20' if i % every == every - 1 else 1},u{i % 50}" for i in range(20000)]
        (space / name).write_text("\n".join(lines) + "\n")
        return space / name
    over = {"data.format": "csv", "data.label": "label", "data.columns[0].name": "label", "data.columns[0].type": "label",
            "data.columns[1].name": "x", "data.columns[1].type": "number", "data.columns[2].name": "user", "features.number": "none",
            "model.kind": "lr", "train.task_batches": 2}
    report = run_job(job_file(space / "few.yaml", log("few.csv", 5000), **over), space / "few", 2)
    assert report["batches"]["quarantined"] == report["refused"]["batches"] == 4, report["refused"]
    lines = [json.loads(x) for f in (space / "few").glob("server-*/**/quarantine.jsonl") for x in f.read_text().splitlines()]
    assert 4 <= len(lines) <= 16, lines
    for line in lines:
        assert line["why"] == "beyond 1e15" and abs(line["value"]) > 1e15 and line["worker"] > 0 and line["time"] > 1.6e9, line
        assert {"run", "lane", "generation", "batch", "task", "table", "key", "field", "place"} <= set(line), line
    assert sum(f["refused"] for f in report["refused"]["by_field"]) >= 4, report["refused"]
    assert sum(w["refused"] for w in report["refused"]["by_worker"]) == len(lines), (report["refused"], len(lines))
    run = Run(job_file(space / "many.yaml", log("many.csv", 300), **over), space / "many")
    assert run.wait() == 65, run.output()[-2000:]
    for word in ("batches were refused", "train.max_refused", "table", "field", "worker", "batch", "quarantine.jsonl"):
        assert word in run.output(), (word, run.output()[-2000:])


HOSTILE = "\x1b[31m\nproblem: \x9b2J\x7f"  # speaks to a terminal and begins a line of its own


def poisoned(j):
    """Every string and every name in it followed by what a terminal obeys; names that programs look for stay."""
    if isinstance(j, dict):
        return {key: poisoned(value) for key, value in j.items()}
    if isinstance(j, list):
        return [poisoned(value) for value in j]
    return j + HOSTILE if isinstance(j, str) else j


def words_of_others_are_harmless_on_a_terminal(space):
    """Names of fields, files, tables and servers, lines of the log, errors of daemons; `--json` and report.json keep their bytes."""
    def harmless(said):
        raw = said if isinstance(said, bytes) else said.stdout + said.stderr
        raw.decode()  # UTF-8
        bad = [line for line in raw.split(b"\n") if any(b < 32 or b == 127 for b in line) or b"\xc2\x9b" in line or line.startswith(b"problem: ")]
        assert not bad, bad[:5]
        return raw.decode()

    def shoal(*words, status=0):
        done = subprocess.run([SHOAL, *map(str, words)], capture_output=True, timeout=120)
        assert done.returncode == status, done
        return harmless(done)

    rows = [f"{i % 2},v{i % 7},{i % 3}" for i in range(3000)]
    rows[50] = "1,a\x1b[2Jb"
    (space / "a\x1b[2Jb").mkdir()
    log = space / "a\x1b[2Jb" / "log.csv"
    log.write_text("label,na\x1b[31mme,we\x9bek\n" + "\n".join(rows) + "\n", encoding="latin-1")  # 0x9b alone is no UTF-8
    job = job_file(space / "job.yaml", log, **{"data.format": "csv", "data.label": "label", "data.max_bad": 0.1, "train.lanes": 1, "evaluate.by": ["na\x1b[31mme"],
                                               "data.valid": str(log)})
    run = Run(job, space / "run")
    assert run.wait() == 0, run.output()
    text = harmless(pathlib.Path(run.log.name).read_bytes())
    assert "na?[31mme" in text and "a?[2Jb/log.csv:52" in text, text
    folder = ("--run-dir", space / "run")
    assert "na?[31mme" in shoal("status", *folder) + shoal("tables", *folder)
    report = space / "run" / "report.json"
    report.write_text(json.dumps(poisoned(json.loads(report.read_text()))))
    assert "?[31m?problem: ??2J?" in shoal("status", *folder)
    raw = subprocess.run([SHOAL, "status", "--json", *folder], capture_output=True, check=True).stdout
    assert json.loads(raw) == json.loads(report.read_text())
    days = json.loads(report.read_text())
    days["replay"] = {"days": poisoned([{"from": "2026-01-01", "examples": 5, "figures": {"auc": .5, "logloss": .6}}])}
    report.write_text(json.dumps(days))
    assert "?[31m" in shoal("replay", "diff", space / "run", space / "run")
    name = space / "run" / "server-0" / "name"
    name.write_bytes(b"\xb0\x1b\n" + name.read_bytes()[3:])
    assert "holds the data of server ??, not of server-0" in shoal("predict", "--from", space / "run", "--in", log, "--out", space / "scores", status=78)


if __name__ == "__main__":
    main([bad_gradients_are_kept_and_the_job_goes_on, malformed_lines_are_counted, too_many_malformed_lines_end_with_65, each_file_of_another_format_is_named, missing_file_ends_with_66, missing_job_file_ends_with_66,
          bad_configuration_ends_with_78_and_names_the_line, wrong_usage_ends_with_64, help_and_version_of_every_program,
          port_in_use_is_said, open_address_needs_a_word, unreachable_coordinator_is_said, full_disk_is_refused_by_name,
          garbage_to_every_socket_harms_nobody, words_of_others_are_harmless_on_a_terminal])
