#!/usr/bin/env python3
"""test_own: `shoal data` on files that other programs wrote: what it finds is checked by a script, and the job that it writes trains."""
import bz2
import csv
import gzip
import io
import lzma
import random
import re
import sqlite3

import records
from lib import *

PAGE = pathlib.Path(__file__).parents[2] / "deploy/manual/own.md"


def data(*words, stdin=None, cwd=None):
    return subprocess.run([SHOAL, "data", *map(str, words)], input=stdin, capture_output=True, timeout=120, check=False, cwd=cwd)


def told(*words, **more):
    done = data("--json", *words, **more)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def log_rows(rows=3000, seed=1):
    """click, user, item, city, price, time: users and cities decide."""
    draw = random.Random(seed)
    for i in range(rows):
        user, item, city = draw.randrange(60), draw.randrange(300), draw.choice(["rome", "oslo", "lima"])
        click = int(draw.random() < (0.7 if user % 3 == 0 else 0.1) + (0.15 if city == "oslo" else 0))
        yield {"click": click, "user": f"u{user}", "item": item, "city": city, "price": round(draw.random() * 90, 2), "time": 1767225600 + i * 60}


def csv_text(rows, **more):
    out = io.StringIO()
    writer = csv.DictWriter(out, ["click", "user", "item", "city", "price", "time"], **more)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def trained(space, name, *words, cwd=None, more=()):
    """Writes the job and trains it."""
    job = space / f"{name}.yaml"
    done = data("--job", job, *words, cwd=cwd)
    assert done.returncode == 0, (name, done.stderr.decode())
    done = subprocess.run([SHOAL, "local", job, "--run-dir", space / name, "--set", "train.epochs=2", *more], capture_output=True, text=True, timeout=200, cwd=cwd,
                          check=False)
    assert done.returncode == 0, (name, job.read_text(), done.stderr)
    return json.loads((space / name / "report.json").read_text())


def page_works_as_printed(space):
    """Its commands and their output, line by line."""
    blocks = re.findall(r"^```\n(\$ .*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    typed = [(re.split(r"\n", part, maxsplit=1) + [""])[:2] for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    assert len(typed) == 5, typed
    for command, shown in typed:
        got = subprocess.run(command, shell=True, cwd=space.path, capture_output=True, text=True, timeout=200, check=False,
                             env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        assert got.returncode == 0, (command, got.stdout, got.stderr)
        wanted = "".join(".*\n?" if line == "..." else re.escape(line) + "\n" for line in shown.splitlines())
        assert re.fullmatch(wanted.replace(".*\n?", "(?:.*\n)*"), got.stdout), (command, got.stdout)
    report = json.loads((space / "first/report.json").read_text())
    assert report["valid"]["auc"] > 0.6, report["valid"]


def counts_are_those_of_a_script(space):
    rows = list(log_rows())
    path = space / "log.csv"
    path.write_text(csv_text(rows))
    found = told(path)
    assert found["train"]["rows"] == len(rows) and found["train"]["whole"] and found["train"]["malformed"] == 0
    assert found["train"]["positives"] == sum(r["click"] for r in rows)
    columns = {c["name"]: c for c in found["columns"]}
    for name, column in columns.items():
        assert column["values"] == len({str(r[name]) for r in rows}) and column["filled"] == 1, (name, column)
    assert [columns[n]["as"] for n in ("click", "user", "item", "city", "price", "time")] == ["label", "category", "category", "category", "number standard", "time"]
    assert columns["price"]["least"] == min(r["price"] for r in rows) and columns["price"]["most"] == max(r["price"] for r in rows)
    assert (found["time"]["first"], found["time"]["last"], found["time"]["in_order"]) == (rows[0]["time"], rows[-1]["time"], True)
    half = told("--rows", 1000, path)
    assert half["train"]["rows"] == 1000 and not half["train"]["whole"] and abs(half["train"]["rows_estimated"] - 3000) < 100
    assert trained(space, "log", path)["valid"]["auc"] > 0.6


def files_of_other_programs_are_found_out(space):
    rows = list(log_rows())
    plain = csv_text(rows)
    semi = csv_text([{**r, "price": str(r["price"]).replace(".", ",")} for r in rows], delimiter=";")
    db = sqlite3.connect(space / "log.db")
    db.execute("create table log (click, user, item, city, price, time)")
    db.executemany("insert into log values (?, ?, ?, ?, ?, ?)", [tuple(r.values()) for r in rows])
    made = db.execute("select * from log")
    out = io.StringIO()
    csv.writer(out, delimiter="|").writerows([[d[0] for d in made.description], *made])
    nothing = "\r\n".join(l for l in csv_text(rows, lineterminator="\n").splitlines()[1:]) + "\r\n"
    texts = {"plain.csv": plain.encode(), "tab.tsv": csv_text(rows, delimiter="\t").encode(), "semi.csv": semi.encode(), "bar.txt": out.getvalue().encode(),
             "quoted.csv": csv_text(rows, quoting=csv.QUOTE_ALL).encode(), "cr.csv": plain.replace("\r\n", "\r").encode(), "wide.csv": plain.encode("utf-16"),
             "mark.csv": plain.encode("utf-8-sig"), "a.csv.gz": gzip.compress(plain.encode()), "a.csv.bz2": bz2.compress(plain.encode()),
             "a.csv.xz": lzma.compress(plain.encode()), "nohead.csv": nothing.encode(),
             "weights.svm": "".join(f"{r['click']} {int(r['user'][1:]) + 1}:1 {r['item'] + 100}:0.5\n" for r in rows).encode(),
             "fields.ffm": "".join(f"{r['click']} 0:{r['user'][1:]}:1 1:{r['item']}:0.5\n" for r in rows).encode()}
    formats = {"weights.svm": "libsvm", "fields.ffm": "libffm"}
    for name, text in texts.items():
        (space / name).write_bytes(text)
        found = told(space / name)
        assert found["format"] == formats.get(name, "csv"), (name, found)
        assert found["train"]["rows"] == len(rows) and found["train"]["positives"] == sum(r["click"] for r in rows), (name, found)
        report = trained(space, name.replace(".", "-"), space / name)
        assert report["bad_lines"] == 0 and report["valid"]["auc"] > 0.6, (name, report["valid"])
    records.write(space / "log.tfrecord", [{**r, "tags": [f"t{r['item'] % 5}", f"t{r['item'] % 7}"]} for r in rows])
    found = told(space / "log.tfrecord")
    assert found["format"] == "tfrecord" and found["train"]["rows"] == len(rows) and found["train"]["positives"] == sum(r["click"] for r in rows), found
    assert next(c for c in found["columns"] if c["name"] == "tags")["as"] == "multi" and found["notes"], found
    trained(space, "records", space / "log.tfrecord", more=["--set", f"data.valid={space / 'log.tfrecord'}"])
    piped = told("-", stdin=gzip.compress(plain.encode()))
    assert piped["train"]["rows"] == len(rows) and piped["train"]["files"] == ["-"]


def names_of_files_tell_their_parts(space):
    home = space / "a folder"
    home.mkdir()
    rows = list(log_rows())
    for name, part in (("train it's.csv", rows[:2000]), ("valid.csv", rows[2000:2500]), ("test.csv", rows[2500:])):
        (home / name).write_text(csv_text(part))
    (home / "README.md").write_text("Rows of a shop.\n\nOne a line.\n")
    (home / "users.csv").write_text("user,age\n" + "".join(f"u{i},{20 + i % 50}\n" for i in range(60)))
    (home / "empty.csv").write_text("")
    found = told(home)
    assert [found[p]["rows"] for p in ("train", "valid", "test")] == [2000, 500, 500], found
    assert len(found["left_out"]) == 2 and "users.csv: another layout" in found["left_out"][1], found["left_out"]
    report = trained(space, "parts", home)
    assert report["valid"]["examples"] == 500 and report["test"]["examples"] == 500
    (home / "only it's.csv").write_text(csv_text(rows))
    report = trained(space, "only", home / "only it's.csv")  # a command with a quote in the name splits it
    assert report["examples"] == 2 * 2700 and report["valid"]["examples"] == 300, report["examples"]


def labels_that_are_numbers_train(space):
    """A watch time of csv, one with decimal commas, and one of libsvm: the model explains most of it."""
    draw = random.Random(5)
    rows = [(u, i, 0.5 + u % 4 + i % 3 + draw.random()) for u, i in ((draw.randrange(40), draw.randrange(30)) for _ in range(4000))]
    texts = {"point.csv": "watch_time,user,item\n" + "".join(f"{y:.2f},u{u},i{i}\n" for u, i, y in rows),
             "comma.csv": "watch_time;user;item\n" + "".join(f"{y:.2f};u{u};i{i}\n".replace(".", ",") for u, i, y in rows),
             "real.svm": "".join(f"{y:.2f} {u + 1}:1 {i + 50}:1\n" for u, i, y in rows)}
    for name, text in texts.items():
        (space / name).write_text(text)
        said = [] if name == "real.svm" else ["--label", "watch_time"]
        found = told(*said, space / name)
        assert found["label"]["number"] and "positives" not in found["train"], found["label"]
        report = trained(space, name.replace(".", "-"), *said, space / name)
        assert report["bad_lines"] == 0 and report["valid"]["rmse"] < 1, (name, report["valid"])


def commands_read_the_file_as_it_is(space):
    """A path with = in it, empty lines before the header, and rows without a label."""
    (space / "day=1").mkdir()
    rows = list(log_rows())
    (space / "day=1/part.csv").write_text("\n\n" + csv_text(rows))
    report = trained(space, "day", "day=1/part.csv", cwd=space.path)
    assert report["examples"] == 2 * 2700 and report["valid"]["examples"] == 300 and report["bad_lines"] == 0, report
    (space / "-x.csv.gz").write_bytes(gzip.compress(csv_text(rows).encode()))
    assert trained(space, "packed", "./-x.csv.gz", cwd=space.path)["valid"]["examples"] == 300
    (space / "some.csv").write_text(csv_text({**r, "click": "" if i % 3 == 0 else r["click"]} for i, r in enumerate(rows)))
    report = trained(space, "some", space / "some.csv")
    assert report["valid"]["examples"] == 200 and "max_bad: 0.377" in (space / "some.yaml").read_text(), report["valid"]


def the_page_of_what_is_wrong_says_so(space):
    (space / "empty.csv").write_text("")
    (space / "one.csv").write_text("click\n" + "1\n0\n" * 50)
    (space / "none.csv").write_text("user,site\n" + "".join(f"u{i % 30},s{i % 7}\n" for i in range(300)))
    (space / "bytes.csv").write_bytes(bytes(range(1, 256)) + b"\n\0\n")
    (space / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (space / "a.parquet").write_bytes(b"PAR1" + bytes(50))
    (space / "rows.json").write_text('{"click": 1}\n{"click": 0}\n')
    (space / "twice.csv").write_text("click,click,user\n" + "".join(f"{i % 2},{i % 2},u{i % 30}\n" for i in range(300)))
    (space / "long.csv").write_text("click,user," + "x" * 70 + "\n" + "".join(f"{i % 2},u{i % 30},{i % 7}\n" for i in range(300)))
    (space / "words.csv").write_text("event,user\n" + "".join(f"{['view', 'click', 'buy'][i % 3]},u{i % 31}\n" for i in range(300)))
    (space / "watch.csv").write_text("watch_time,user\n" + "".join(f"{i % 97 / 4},u{i % 31}\n" for i in range(300)))
    (space / "folder").mkdir()
    (space / "log.csv").write_text(csv_text(log_rows(300)))
    for words, status, says in ((["empty.csv"], 65, "empty.csv is empty"), (["one.csv"], 65, "one column only"), (["none.csv"], 66, "no column looks like a label"),
                                (["bytes.csv"], 65, "is binary"), (["picture.csv"], 65, "a picture (png)"), (["a.parquet"], 65, "parquet"),
                                (["rows.json"], 65, "JSON"), (["folder"], 66, "has no file"), (["nowhere.csv"], 66, "No such file"), ([], 64, "give the files"),
                                (["--label", "nothing", "log.csv"], 66, "there is no such column"), (["--job", "log.csv", "log.csv"], 73, "is there already"),
                                (["--json", "--job", "x.yaml", "log.csv"], 64, "give one of them"), (["twice.csv"], 78, "columns 0 and 1 are both called"),
                                (["long.csv"], 78, "its name has 70 bytes"), (["--label", "event", "words.csv"], 78, "data.label_positive"),
                                (["watch.csv"], 66, "numbers to predict: watch_time")):
        done = data(*words, cwd=space.path)
        assert done.returncode == status and says in done.stderr.decode(), (words, done.returncode, done.stderr.decode())
    assert "user" in data("none.csv", cwd=space.path).stdout.decode()  # the columns are shown even so
    found = json.loads(data("--json", "none.csv", cwd=space.path).stdout)
    assert [c["name"] for c in found["columns"]] == ["user", "site"] and "label" not in found and "job" not in found, found
    done = data("--job", "-", "log.csv", cwd=space.path)
    assert done.returncode == 0 and done.stdout.startswith(b"# Proposed by"), done
    assert max(len(line) for line in data("log.csv", cwd=space.path).stdout.decode().split("\ndata:")[0].splitlines()) < 80


main([page_works_as_printed, counts_are_those_of_a_script, files_of_other_programs_are_found_out, names_of_files_tell_their_parts, labels_that_are_numbers_train,
      commands_read_the_file_as_it_is, the_page_of_what_is_wrong_says_so])
