#!/usr/bin/env python3
"""test_newcomer: the steps of a user with only the manual: every printed command can be typed, every error is named."""
import io
import re
import tarfile
import zipfile

from lib import *


def plain_run(job, run_dir, *words, stdin=None):
    run = Run(job, run_dir, extra=words, stdin=stdin)
    assert run.wait() == 0, run.output()[-2000:]
    return run


def standard_input_may_be_set(space):
    train = synth(space / "train.tsv", 3000, 1)
    with open(train) as rows:
        run = plain_run(job_file(space / "job.yaml", "nowhere.tsv"), space / "run", "--set", "data.train=-", stdin=rows)
    assert run.report()["examples"] == 3000


def commands_to_try_next_run_as_they_stand(space):
    """From the folder where the run was started, with blanks in every path, and with what the run was given."""
    home = space / "a folder"
    home.mkdir()
    synth(home / "train it's.tsv", 3000, 1)
    job_file(home / "my job.yaml", "nowhere.tsv")
    words = [str(SHOAL), "local", "my job.yaml", "--run-dir", "first run", "--set", "data.train=train it's.tsv", "--set", "data.valid=[train it's.tsv]",
             "--set", "model.hidden=[8]", "--server-set", "disk_free=1M"]
    first = subprocess.run(words, cwd=home, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr
    lines = first.stdout[first.stdout.index("try next"):].removeprefix("try next").splitlines()
    commands = [line.strip().split("     ")[0] for line in lines if line.strip()]
    assert len(commands) == 3, lines
    for command in commands:
        got = subprocess.run(command, shell=True, cwd=home, capture_output=True, text=True)
        assert got.returncode == 0, (command, got.stdout[-1000:], got.stderr[-1000:])
    runs = [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/report.json"))]
    assert sorted((r["consistency"], r["servers"], r["workers"]) for r in runs) == [("bsp", 1, 1), ("ssp", 2, 2)], runs
    assert all(r["examples"] == 3000 and r["valid"] for r in runs)


def inputs_are_looked_at_before_anything_starts(space):
    """No daemon, no run folder: the sentence alone, as soon as it is known."""
    train = synth(space / "train.tsv", 100, 1)
    (space / "day.csv").write_text("click,site\n1,a\n0,b\n")
    (space / "folder").mkdir()
    job = job_file(space / "job.yaml", train)
    csv = ["data.format=csv", f"data.train={space / 'day.csv'}", "data.label=click"]
    for status, says, sets in ((66, "data.train: nowhere.tsv: No such file", ["data.train=nowhere.tsv"]),
                               (66, "data.valid: nowhere.tsv: No such file", ["data.valid=nowhere.tsv"]),
                               (66, "data.test: no file matches nothere*.tsv", [f"data.test=[{train}, nothere*.tsv]"]),
                               (66, "folder is a folder; name its files", [f"data.train={space / 'folder'}"]),
                               (66, "folder is a folder; name its files", [f"data.valid={space / 'folder'}"]),
                               (78, 'features.fields names column "sit"', [*csv, "features.fields=[sit]"])):
        run = Run(job, space / "run", extra=[word for key in sets for word in ("--set", key)])
        begin = time.monotonic()
        assert run.wait() == status, (sets, run.output())
        said = run.output().strip()
        assert says in said and "\n" not in said, said
        assert not run.dir.exists() and time.monotonic() - begin < PATIENCE * 5


def a_disk_that_is_too_full_is_said_and_ends_the_run(space):
    train = synth(space / "train.tsv", 3000, 1)
    job = job_file(space / "job.yaml", train, **{"coordinator.lease": "500ms"})
    run = Run(job, space / "run", extra=["--server-set", "disk_free=1000T"])
    begin = time.monotonic()
    assert run.wait(240) == 69, run.output()
    text = run.output()
    assert text.count("waits for disk: server-0 takes no pushes") >= 2, text  # while it lasts
    assert "server-0 has taken no pushes for 30 s" in text and "disk_free=1G" in text, text
    assert 25 < time.monotonic() - begin < 120, time.monotonic() - begin
    report = run_job(job, space / "run", extra=["--server-set", "disk_free=1M"])
    assert report["examples"] == 3000


def a_disk_that_gets_room_again_is_told_in_the_report(space):
    train = synth(space / "train.tsv", 3000, 1)
    with small_disk(space, "600m") as disk:
        with open(disk / "filler", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 350 << 20)
        run = Run(job_file(space / "job.yaml", train), disk / "run", extra=["--server-set", "disk_free=400M"])
        begin = time.monotonic()
        until(run, "the server to take no pushes", lambda: "waits for disk: server-0 takes no pushes" in run.output(), 15, 0.1)
        (disk / "filler").unlink()
        assert run.wait(120) == 0, run.output()
        report, page = run.report(), drawn(disk / "run/report.html")
        assert report["examples"] == 3000 and 2.5 < report["disk_short_seconds"] < time.monotonic() - begin + 1, report
        assert "too little was free" in run.output().split("note", 1)[1] and (page is None or "too little was free" in page), run.output()
    calm = run_job(job_file(space / "job.yaml", train), space / "calm", extra=["--server-set", "disk_free=1M"])
    assert calm["disk_short_seconds"] == 0 and "too little was free" not in str(calm["notes"])


def a_server_that_does_not_answer_is_told_by_name(space):
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 6000, 1), **{"train.epochs": longer(20000), "coordinator.lease": "1s"})
    run = Run(job, space / "run")

    def look(verb):
        return subprocess.run([SHOAL, verb, "--run-dir", str(run.dir)], capture_output=True, text=True)
    until(run, "the job to train", lambda: "  ready" in look("status").stdout and ", 0 a second" not in look("status").stdout, 30, 0.5)
    shown = look("status").stdout
    assert float(shown.split("memory of the process ")[1].split(" MB")[0]) < 1000, shown
    strike(run, "server-0", signal.SIGSTOP)

    def stands():
        shown = look("status").stdout
        return "not heard for" in shown and "  ready" not in shown and ", 0 a second" in shown
    until(run, "the server to be missed", stands, 20, 0.5)
    begin = time.monotonic()
    got = look("digest")
    assert got.returncode == 69 and "shard 0 at ipc://" in got.stderr and time.monotonic() - begin < PATIENCE * 20, (got, time.monotonic() - begin)
    strike(run, "server-0", signal.SIGCONT)
    run.process.send_signal(signal.SIGINT)
    run.wait(60)


def a_run_folder_is_of_one_job(space):
    """One that was broken off goes on with the same line; with another nothing of it is touched."""
    job = job_file(space / "job.yaml", synth(space / "train.tsv", 30000 * longer(1), 1), **{"train.epochs": 4})
    whole = run_job(job_file(space / "whole.yaml", space / "train.tsv", **{"train.epochs": 4, "train.consistency": "bsp"}), space / "whole")
    extra = ["--set", "train.consistency=bsp"]
    run = Run(job, space / "run", 1, 1, extra)
    started(run)
    break_off(run, signal.SIGTERM)
    kept = (space / "run/job.yaml").read_bytes()
    other = Run(job, space / "run", 1, 1, ["--set", "train.lanes=3"])
    assert other.wait(60) == 73 and "another job file or other --set" in other.output(), other.output()
    assert (space / "run/job.yaml").read_bytes() == kept
    assert digests(run_job(job, space / "run", 1, 1, extra)) == digests(whole)


def csv_job(space, **over):
    return job_file(space / "csv.yaml", "nowhere.csv", **{"data.format": "csv", "data.label": "click", "train.batch": 64, **over})


def csv_text(rows=300):
    return "click,user,price\n" + "".join(f"{i % 3 == 0:d},u{i % 20},{i}.5\n" for i in range(rows))


def refusal(job, space, file, *words):
    run = Run(job, space / "refused", extra=("--set", f"data.train={file}", *words))
    assert run.wait() in (65, 78), run.output()[-2000:]
    shutil.rmtree(space / "refused", ignore_errors=True)
    return run.output().strip().splitlines()[-1]


def trained(job, space, file, *words):
    run = Run(job, space / "trained", extra=("--set", f"data.train={file}", *words))
    assert run.wait() == 0, run.output()[-2000:]
    report = run.report()
    shutil.rmtree(space / "trained")
    return report["examples"]


def files_of_a_wrong_kind_are_named_and_the_command_that_is_told_reads_them(space):
    text, job, packed = csv_text(), csv_job(space), {}
    data = text.encode()
    with zipfile.ZipFile(space / "a.zip", "w", zipfile.ZIP_DEFLATED) as f:
        f.writestr("a.csv", text)
    with tarfile.open(space / "a.tar.gz", "w:gz") as f:
        member = tarfile.TarInfo("a.csv")
        member.size = len(data)
        f.addfile(member, io.BytesIO(data))
    (space / "wide.csv").write_bytes(text.encode("utf-32"))
    for name, says in (("a.zip", "is a zip archive"), ("a.tar.gz", "is a tar archive"), ("wide.csv", "is text in UTF-32")):
        said = refusal(job, space, space / name)
        assert f"{name} {says}" in said, said
        [command] = re.findall(r'\{cmd: ".*"\}', said)
        packed[name] = trained(job, space, command.replace("FILE", str(space / name)))
    assert set(packed.values()) == {300}, packed
    (space / "a.parquet").write_bytes(b"PAR1" + bytes(100))
    assert "a.parquet is parquet" in refusal(job, space, space / "a.parquet")


def a_file_of_another_format_names_the_key_to_set(space):
    job = csv_job(space)
    (space / "a.csv").write_text(csv_text())
    for name, delimiter, key in (("semi.csv", ";", "data.delimiter: \";\""), ("tab.csv", "\t", "data.delimiter: tab"), ("pipe.csv", "|", "data.delimiter: \"|\"")):
        (space / name).write_text(csv_text().replace(",", delimiter))
        said = refusal(job, space, space / name)
        assert said.endswith(key), said
        assert trained(job, space, space / name, "--set", key.replace(": ", "=")) == 300
    svm = space / "a.svm"
    svm.write_text("".join(f"{i % 2} {i % 7 + 1}:1 {i % 11 + 10}:1\n" for i in range(300)))
    criteo = synth(space / "a.tsv", 300)
    for file, form in ((svm, "libsvm"), (criteo, "criteo")):
        said = refusal(job, space, file)
        assert said.endswith(f"data.format: {form}"), said
        assert trained(job_file(space / "fixed.yaml", file, **{"data.format": form, "train.batch": 64}), space, file) == 300
    for form in ("criteo", "libsvm"):
        said = refusal(job_file(space / "other.yaml", "x", **{"data.format": form}), space, space / "a.csv")
        assert "it is csv with data.delimiter: \",\"" in said, said


def lines_of_other_tools_are_refused_with_a_command_that_mends_them(space):
    """The printed advice is followed literally, and the job then reads the file."""
    csv, svm = csv_job(space), job_file(space / "svm.yaml", "x", **{"data.format": "libsvm", "train.batch": 64})
    rows = range(300)
    (space / "quote.csv").write_text("click,user\n" + "".join(f'{i % 2},"say \\"u{i % 9}\\", ok"\n' for i in rows))
    said = refusal(csv, space, space / "quote.csv")
    assert "within a cell a quote is" in said and "quote.csv:2: " in said, said
    [command] = re.findall(r"sed .*?'(?= makes|$)", said)
    mended = subprocess.run(f"{command} {space / 'quote.csv'}", shell=True, check=True, capture_output=True, text=True).stdout
    (space / "quote.csv").write_text(mended)
    assert trained(csv, space, space / "quote.csv") == 300
    (space / "ffm.svm").write_text("".join(f"{i % 2} 0:{i % 7}:1 1:{i % 5}:1\n" for i in rows))
    said = refusal(svm, space, space / "ffm.svm")
    assert said.endswith("ffm.svm:1: entry 1 is field:index:value, which is data.format: libffm"), said
    assert trained(svm, space, space / "ffm.svm", "--set", "data.format=libffm") == 300
    price = csv_job(space, **{"data.columns": [{"name": "price", "type": "number"}], "data.delimiter": ";"})
    (space / "comma.csv").write_text(csv_text().replace(",", ";").replace(".", ","))
    said = refusal(price, space, space / "comma.csv")
    assert 'comma.csv:2: no number: column "price" has "0,5"; data.decimal: comma reads it' in said, said
    assert trained(price, space, space / "comma.csv", "--set", "data.decimal=comma") == 300
    (space / "na.csv").write_text(csv_text().replace(",7.5\n", ",NA\n"))
    price = csv_job(space, **{"data.columns": [{"name": "price", "type": "number"}]})
    said = refusal(price, space, space / "na.csv")
    assert 'has "NA"; name the word in data.missing' in said, said
    assert trained(price, space, space / "na.csv", "--set", "data.missing=[NA]") == 300


def the_bad_line_that_is_told_is_the_lowest_seen(space):
    """Also where an epoch is shuffled: with every line bad the first batches hold a low one, and every batch of a bad log is looked at."""
    (space / "bad.csv").write_text(csv_text(64).replace(".5", "x"))
    job = csv_job(space, **{"data.columns": [{"name": "price", "type": "number"}], "train.lanes": 1})
    said = refusal(job, space, space / "bad.csv")
    assert "64 of 64 lines (100 %) are malformed, data.max_bad allows 0.1 %; the first seen: " in said and "bad.csv:2: no number" in said, said


def the_examples_of_what_you_have_train(space):
    """Each example of the manual's page: its lines, many times over, by its job."""
    page = (pathlib.Path(__file__).parents[2] / "deploy/manual/job.md").read_text(encoding="utf-8")
    section = page.split("## What you have, what you write\n")[1].split("\n### ")[0]
    examples = re.findall(r"```(csv|libsvm|libffm)\n(.*?)```\n```yaml\n(.*?)```", section, re.S)
    assert len(examples) == section.count("```yaml") == section.count("```") // 4 >= 10
    for kind, lines, job in examples:
        rows = lines.splitlines()
        headers = 1 if kind == "csv" and "header: false" not in job else 0
        [name] = re.findall(r"train: (\w+\.\w+)", job)
        (space / name).write_text("\n".join(rows[:headers] + rows[headers:] * 40) + "\n")
        (space / "job.yaml").write_text(job)
        got = subprocess.run([SHOAL, "local", "job.yaml", "--run-dir", f"run-{name}"], cwd=str(space), capture_output=True, text=True)
        assert got.returncode == 0, (name, got.stdout[-2000:], got.stderr)
        assert json.loads((space / f"run-{name}/report.json").read_text())["examples"] == 120, name


if __name__ == "__main__":
    main([the_examples_of_what_you_have_train, files_of_a_wrong_kind_are_named_and_the_command_that_is_told_reads_them, a_file_of_another_format_names_the_key_to_set,
          lines_of_other_tools_are_refused_with_a_command_that_mends_them, the_bad_line_that_is_told_is_the_lowest_seen, standard_input_may_be_set, commands_to_try_next_run_as_they_stand, inputs_are_looked_at_before_anything_starts,
          a_disk_that_is_too_full_is_said_and_ends_the_run, a_disk_that_gets_room_again_is_told_in_the_report,
          a_server_that_does_not_answer_is_told_by_name, a_run_folder_is_of_one_job])
