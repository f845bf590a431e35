#!/usr/bin/env python3
"""test_files: files as other programs write them. Each holds the same rows; what is trained must be the same to the bit, and the counts those of a script
that reads the file without Shoal."""
import bz2
import csv
import gzip
import lzma

import records
from lib import *

CITIES = ["rome", "Zürich", "New York, NY", 'the "Hague"', "san josé"]
NAMES = ["age", "city", "click", "item", "price", "tags", "user"]  # in the order of their bytes: a record has no other


def rows(count=300):
    draw = random.Random(7)
    out = []
    for _ in range(count):
        user, item = draw.randrange(20), draw.randrange(30)
        out.append({"age": draw.randrange(18, 70), "city": draw.choice(CITIES), "click": int(draw.random() < 0.2 + 0.5 * (user + item) % 2), "item": f"i{item}",
                    "price": draw.randrange(8, 800) / 8, "tags": [f"t{draw.randrange(9)}" for _ in range(draw.randrange(4))], "user": user})
    return out


def cells(row, **over):
    made = {**row, "tags": "|".join(row["tags"]), **over}
    return [str(made[name]) for name in NAMES]


def job(space, train, **over):
    columns = [{"name": "age", "type": "number"}, {"name": "price", "type": "number"}, {"name": "tags", "type": "multi"}]
    return job_file(space / "job.yaml", train, **{
        "data.format": "csv", "data.label": "click", "data.columns": columns, "features.number": "log1p", "data.valid": str(train), "train.batch": 64,
        "train.lanes": 1, "train.consistency": "bsp", "data.max_bad": 0, **over})


def learnt(space, file, **over):
    """Digests of what is trained, then the counts of the report."""
    run = Run(job(space, file, **over), space / "run")
    assert run.wait() == 0, run.output()[-3000:]
    report = run.report()
    shutil.rmtree(space / "run")
    assert report["bad_lines"] == 0, report
    return digests(report), report["valid"]["examples"], report["valid"]["positives"]


def refused(space, file, *words, **over):
    run = Run(job(space, file, **over), space / "run")
    status, said = run.wait(), run.output()
    shutil.rmtree(space / "run", ignore_errors=True)
    assert status in (65, 78), (status, said[-2000:])
    for word in words:
        assert word in said, f"{word!r} is not in:\n{said[-2000:]}"


def write_csv(path, table, quoting=csv.QUOTE_MINIMAL, end="\n", **form):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, quoting=quoting, lineterminator=end, **form)
        writer.writerows(table)
    return path


def plain(space, table=None):
    """What is learnt of the rows by the csv module's own csv, and a reader's counts."""
    made = table or rows()
    path = write_csv(space / "plain.csv", [NAMES] + [cells(row) for row in made])
    with open(path, newline="", encoding="utf-8") as f:
        read = list(csv.DictReader(f))
    got = learnt(space, path)
    assert got[1:] == (len(read), sum(row["click"] == "1" for row in read)) and 0 < got[2] < got[1], got
    return got


def csv_of_other_programs_trains_the_same(space):
    made = rows()
    expected = plain(space, made)
    table = [NAMES] + [cells(row) for row in made]
    text = (space / "plain.csv").read_text(encoding="utf-8")
    write_csv(space / "all quoted.csv", table, csv.QUOTE_ALL)
    write_csv(space / "crlf.csv", table, end="\r\n")
    write_csv(space / "cr.csv", table, end="\r")
    (space / "mark.csv").write_text(text, encoding="utf-8-sig")
    (space / "wide.csv").write_text(text, encoding="utf-16")
    for name in ("all quoted.csv", "crlf.csv", "cr.csv", "mark.csv", "wide.csv"):
        assert learnt(space, space / name) == expected, name
    write_csv(space / "semi.csv", table, delimiter=";")
    write_csv(space / "tab.tsv", table, delimiter="\t", quoting=csv.QUOTE_ALL)
    assert learnt(space, space / "semi.csv", **{"data.delimiter": ";"}) == expected
    assert learnt(space, space / "tab.tsv", **{"data.delimiter": "tab"}) == expected
    (space / "ratings.dat").write_text("".join("::".join(cells(row)) + "\n" for row in made).replace('the "Hague"', '"the ""Hague"""'), encoding="utf-8")
    types = {"age": "number", "click": "label", "price": "number", "tags": "multi"}
    named = {"data.header": False, "data.columns": [{"name": name, "type": types.get(name, "category")} for name in NAMES]}
    assert learnt(space, space / "ratings.dat", **named, **{"data.delimiter": "::"}) == expected
    script = f".mode csv\n.import '{space / 'plain.csv'}' log\n.headers on\n.output '{space / 'sqlite.csv'}'\nselect * from log;\n"
    subprocess.run(["sqlite3"], input=script, text=True, check=True)
    assert learnt(space, space / "sqlite.csv") == expected
    subprocess.run(f"awk 'NR > 1' '{space / 'plain.csv'}' > '{space / 'bare.csv'}'", shell=True, check=True)
    assert learnt(space, space / "bare.csv", **named) == expected
    (space / "marked bare.csv").write_text((space / "bare.csv").read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert learnt(space, space / "marked bare.csv", **named) == expected


def line_ends_within_quotes_are_text(space):
    """Cells with line ends, CR LF and blank lines are values, and the same to every batch size and lane."""
    made = [{**row, "city": ["two\nlines", "three\r\n\r\nlines", 'a "quoted"\nline', "plain"][i % 4]} for i, row in enumerate(rows())]
    path = write_csv(space / "lines.csv", [NAMES] + [cells(row) for row in made])
    got = learnt(space, path)
    assert got[1:] == (len(made), sum(row["click"] for row in made)), got
    flat = write_csv(space / "flat.csv", [NAMES] + [cells(row, city=["two/lines", "three/lines", "a/line", "plain"][i % 4]) for i, row in enumerate(made)])
    other = learnt(space, flat)
    assert other[1:] == got[1:] and other[0] != got[0]
    assert learnt(space, path, **{"train.lanes": 2, "train.batch": 32, "data.cache": str(space / "cache")})[1:] == got[1:]
    with open(path, newline="", encoding="utf-8") as f:
        lines = f.read()
    at = lines.index("plain", 2000)
    at = lines.index("\n", at) + 1
    with open(space / "stray.csv", "w", newline="", encoding="utf-8") as f:
        f.write(lines[:at] + '20,"rome,1,i1,1.5,,7\n' + lines[at:])
    number = lines[:at].count("\n") + 1
    refused(space, space / "stray.csv", f"stray.csv:{number}: column 2: a quote is opened and not closed")


def cells_of_other_programs_train_the_same(space):
    """Words for missing values, whole numbers with a fraction, decimal commas and words for labels, against the cells that they stand for."""
    made = rows()
    for i, row in enumerate(made):
        row["city"] = "" if i % 7 == 0 else row["city"]
        row["age"] = "" if i % 5 == 0 else row["age"]
    expected = plain(space, made)
    words = ["NA", "\\N", "NULL", "nan"]
    table = [cells(row, city=row["city"] or words[i % 4], age=words[i % 4] if row["age"] == "" else row["age"], user=f"{row['user']}.0",
                   price=str(row["price"]).replace(".", ","), click=["no", "yes"][row["click"]]) for i, row in enumerate(made)]
    path = write_csv(space / "other.csv", [NAMES] + table, delimiter=";")
    columns = [{"name": "age", "type": "number"}, {"name": "price", "type": "number"}, {"name": "tags", "type": "multi"}, {"name": "user", "whole": True}]
    keys = {"data.delimiter": ";", "data.missing": words, "data.decimal": "comma", "data.label_positive": ["yes"], "data.columns": columns}
    assert learnt(space, path, **keys) == expected
    assert learnt(space, path, **keys, **{"data.label_negative": ["no"], "data.cache": str(space / "cache")}) == expected
    refused(space, path, "other.csv:2: no word of data.label_positive or data.label_negative: column \"click\"", **{**keys, "data.label_positive": ["ja"], "data.label_negative": ["nein"]})
    refused(space, path, 'other.csv:', 'column "age" has "NA"; name the word in data.missing', **{**keys, "data.missing": ["\\N", "NULL", "nan"]})
    refused(space, path, 'column "price" has "', "data.decimal: comma reads it", **{**keys, "data.decimal": "point"})
    bools = write_csv(space / "bools.csv", [NAMES] + [cells(row, click=str(bool(row["click"]))) for row in made])
    assert learnt(space, bools) == expected
    pandas = {**keys, "data.delimiter": ";", "data.columns": columns[:3]}
    assert learnt(space, path, **pandas)[0] != expected[0]  # 7.0 is a value of its own unless the job says that it is 7


def packed_files_train_the_same(space):
    made = rows()
    expected = plain(space, made)
    data = (space / "plain.csv").read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    files = {"two.csv.gz": gzip.compress(data[:half]) + gzip.compress(data[half:]), "tape.csv.gz": gzip.compress(data) + bytes(10240),
             "a.csv.bz2": bz2.compress(data), "two.csv.bz2": bz2.compress(data[:half]) + bz2.compress(data[half:]), "a.csv.xz": lzma.compress(data),
             "two.csv.xz": lzma.compress(data[:half]) + bytes(4) + lzma.compress(data[half:]),
             "a.csv.zst": subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout,
             "wide.csv.xz": lzma.compress(data.decode().encode("utf-16"))}
    for name, made_of in files.items():
        (space / name).write_bytes(made_of)
        assert learnt(space, space / name) == expected, name
    for name, packed in (("cut.csv.gz", files["tape.csv.gz"]), ("cut.csv.bz2", files["a.csv.bz2"]), ("cut.csv.xz", files["a.csv.xz"])):
        (space / name).write_bytes(packed[:1000])
        refused(space, space / name, f"{name}: ", "data ends too early, at byte 1000")


def as_records(made):
    return [{"age": row["age"], "city": row["city"], "click": row["click"], "item": row["item"], "price": row["price"], "tags": row["tags"] or None, "user": row["user"]}
            for row in made]


def records_train_the_same(space):
    made = rows()
    expected = plain(space, made)
    form = {"data.format": "tfrecord"}
    records.write(space / "log.tfrecord", as_records(made))
    assert learnt(space, space / "log.tfrecord", **form) == expected
    assert learnt(space, space / "log.tfrecord", **form, **{"data.cache": str(space / "cache")}) == expected
    (space / "log.tfrecord.gz").write_bytes(gzip.compress((space / "log.tfrecord").read_bytes()))
    assert learnt(space, space / "log.tfrecord.gz", **form) == expected
    shuffled = [dict(random.Random(i).sample(list(row.items()), len(row))) for i, row in enumerate(as_records(made))]
    records.write(space / "maps.tfrecord", shuffled)  # a map has no order
    assert learnt(space, space / "maps.tfrecord", **form) == expected
    run = Run(job(space, space / "log.tfrecord", **form), space / "whole")
    assert run.wait() == 0, run.output()[-2000:]
    got = subprocess.run([SHOAL, "predict", space / "job.yaml", "--from", space / "whole", "--in", space / "log.tfrecord", "--column", "user", "--out", space / "scores.csv"], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    with open(space / "scores.csv", newline="", encoding="utf-8") as f:
        scored = list(csv.reader(f))
    assert [row[0] for row in scored[1:]] == [str(row["user"]) for row in made], scored[:3]


def damaged_records_are_named(space):
    form = {"data.format": "tfrecord"}
    made = as_records(rows(50))
    path = space / "log.tfrecord"
    records.write(path, made)
    data = path.read_bytes()
    first = 16 + int.from_bytes(data[:8], "little")
    (space / "cut.tfrecord").write_bytes(data[:-5])
    refused(space, space / "cut.tfrecord", "cut.tfrecord: record 50, at byte", "the file ends within a TFRecord", **form)
    (space / "length.tfrecord").write_bytes(data[:first] + bytes([data[first] ^ 1]) + data[first + 1:])
    refused(space, space / "length.tfrecord", f"record 2, at byte {first}: no TFRecord begins here", **form)
    (space / "sum.tfrecord").write_bytes(data[:first + 20] + bytes([data[first + 20] ^ 1]) + data[first + 21:])
    refused(space, space / "sum.tfrecord", "sum.tfrecord:2: the checksum of the record is wrong", **form)
    (space / "text.tfrecord").write_text("click,user\n1,a\n")
    refused(space, space / "text.tfrecord", "text.tfrecord: no TFRecord begins at its first byte", **form)
    refused(space, path, "it is a TFRecord file, data.format: tfrecord")
    records.write(space / "more.tfrecord", made[:30] + [{**made[30], "extra": 1}])
    refused(space, space / "more.tfrecord", 'more.tfrecord:31: feature "extra" is neither in the first record nor in the job', **form)
    records.write(space / "several.tfrecord", made[:30] + [{**made[30], "item": ["i1", "i2"]}])
    refused(space, space / "several.tfrecord", 'several.tfrecord:31: feature "item" has several values', **form)


def weights_transforms_and_crosses_are_the_same_in_every_form(space):
    """Values with weights, numbers with transforms, fills and indicators, and crosses: of csv, of a sheet with words and commas, of records and of events."""
    draw = random.Random(3)
    made = [{**row, "age": None if i % 5 == 0 else row["age"], "price": None if i % 7 == 0 else row["price"],
             "tags": [f"{tag}:{draw.randrange(-8, 9) / 4}" for tag in row["tags"]]} for i, row in enumerate(rows())]
    columns = [{"name": "age", "type": "number", "transform": "bucket", "quantiles": 4, "indicator": True},
               {"name": "price", "type": "number", "transform": "standard", "fill": -1.5, "indicator": True},
               {"name": "tags", "type": "multi", "weighted": True, "pooling": "mean"}, {"name": "user", "whole": True}]
    keys = {"data.columns": columns, "features.crosses": [["age", "user"], ["city", "item", "age"]]}
    empty = [cells(row, **{name: "" for name in ("age", "price") if row[name] is None}) for row in made]
    expected = learnt(space, write_csv(space / "plain.csv", [NAMES] + empty), **keys)
    assert expected[1:] == (len(made), sum(row["click"] for row in made)), expected
    words = {"age": "NA", "price": "n/a"}
    sheet = [cells(row, **{name: word for name, word in words.items() if row[name] is None}, user=f"{row['user']}.0", click=["view", "click"][row["click"]])
             for row in made]
    for row in sheet:
        for at in (NAMES.index("price"), NAMES.index("tags")):
            row[at] = row[at].replace(".", ",")
    write_csv(space / "sheet.csv", [NAMES] + sheet, delimiter=";")
    (space / "sheet.csv.xz").write_bytes(lzma.compress((space / "sheet.csv").read_bytes().decode().encode("utf-16")))
    text = {"data.delimiter": ";", "data.missing": ["NA", "n/a"], "data.decimal": "comma", "data.label_positive": ["click"]}
    assert learnt(space, space / "sheet.csv.xz", **keys, **text) == expected
    assert learnt(space, space / "sheet.csv.xz", **keys, **text, **{"data.cache": str(space / "cache")}) == expected
    records.write(space / "log.tfrecord", as_records(made))
    assert learnt(space, space / "log.tfrecord", **keys, **{"data.format": "tfrecord"}) == expected
    job(space, space / "sheet.csv.xz", **keys, **text)
    subprocess.run([SHOAL, "convert", space / "job.yaml", "--out", space / "sheet.events"], check=True, capture_output=True, timeout=120)
    bare = [{name: value for name, value in column.items() if name != "whole"} for column in columns]
    assert learnt(space, space / "sheet.events", **{**keys, "data.columns": bare, "data.format": "events"}) == expected
    refused(space, space / "sheet.csv", "cannot be the separator", **text, **{"data.columns": [{**columns[2], "separator": ","}]})


def packed_entries_train_the_same(space):
    """libsvm and libffm of values, packed, with words as labels; what their fields cannot have is refused."""
    draw = random.Random(5)
    made = [(draw.randrange(2), [(f, draw.randrange(40), draw.randrange(1, 9) / 4) for f in range(4) if draw.random() < 0.8]) for _ in range(300)]
    for form, write in (("libsvm", "{1}:{2}"), ("libffm", "{0}:{1}:{2}")):
        over = {"data.format": form, "data.label": None, "data.columns": None, "features.number": None}
        lines = [" ".join([str(label)] + [write.format(*entry) for entry in entries]) for label, entries in made]
        (space / f"a.{form}").write_text("\n".join(lines) + "\n")
        expected = learnt(space, space / f"a.{form}", **over)
        (space / f"a.{form}.xz").write_bytes(lzma.compress("\r\n".join(lines).encode("utf-16")))
        assert learnt(space, space / f"a.{form}.xz", **over) == expected, form
        (space / f"words.{form}").write_text("\n".join(["no", "yes"][label] + line[1:] for (label, _), line in zip(made, lines)) + "\n")
        assert learnt(space, space / f"words.{form}", **over, **{"data.label_positive": ["yes"]}) == expected, form
        refused(space, space / f"words.{form}", "no number as label", **over)
        refused(space, space / f"a.{form}", "data.columns", **{**over, "data.columns": [{"name": "1", "type": "number", "transform": "log1p"}]})
        refused(space, space / f"a.{form}", 'features.crosses names column "1", which is of type multi', **over, **{"features.crosses": [["1", "2" if form == "libffm" else "qid"]]})


def said_by(command, **over):
    """Whole numbers that a program prints."""
    got = subprocess.run(command, shell=True, capture_output=True, text=True, check=True, executable="/bin/bash", **over)
    return [int(float(word)) for word in re.findall(r"[0-9.]+", got.stdout)]


def programs_count_what_they_wrote(space):
    """sqlite3, awk, the csv and json modules, gzip, xz, bzip2 and zstd write the log; each counts its rows and clicks itself."""
    made = rows()
    expected = plain(space, made)
    log, base = space / "plain.csv", space / "log.db"
    subprocess.run(["sqlite3", base], input=f".mode csv\n.import '{log}' log\n", text=True, check=True)
    counts = said_by(f"sqlite3 '{base}' 'select count(*), sum(click) from log'")
    assert counts == list(expected[1:]), (counts, expected)
    for name, options, over in (("lite.csv", "-header -csv", {}), ("tabs.tsv", "-header -csv -separator $'\\t' -newline $'\\r\\n'", {"data.delimiter": "tab"}),
                                ("half.csv", "-header -csv -separator ';'", {"data.delimiter": ";"})):
        said_by(f"sqlite3 {options} '{base}' 'select * from log' > '{space / name}'")
        assert learnt(space, space / name, **over) == expected, name
    # cells without quotes, parted by a bar, with spaces as awk's printf pads numbers
    bare = [row | {"city": row["city"].replace('"', "").replace(",", "")} for row in made]
    of_bare = learnt(space, write_csv(space / "bare.csv", [NAMES] + [cells(row, tags="") for row in bare]))
    command = "awk -F, -v OFS='^' 'NR == 1 {print $1, $2, $3, $4, $5, $6, $7; next} {n++; clicks += $3; print sprintf(\"%4d\", $1), $2, $3, $4, $5, $6, $7} END {print n, clicks > \"/dev/stderr\"}'"
    counts = said_by(f"{command} '{space / 'bare.csv'}' 2>&1 >'{space / 'awk.txt'}'")
    assert counts == list(of_bare[1:]), counts
    assert learnt(space, space / "awk.txt", **{"data.delimiter": "^"}) == of_bare
    # JSON lines, which a command turns into csv: the manual has it
    (space / "log.jsonl").write_text("".join(json.dumps({**row, "tags": "|".join(row["tags"])}) + "\n" for row in made))
    read = [json.loads(line) for line in (space / "log.jsonl").read_text().splitlines()]
    assert (len(read), sum(row["click"] for row in read)) == expected[1:]
    as_csv = {"cmd": f"python3 -c \"import csv, json, sys; rows = [json.loads(line) for line in open('{space / 'log.jsonl'}')]; " +
                     "w = csv.DictWriter(sys.stdout, rows[0], lineterminator='\\n'); w.writeheader(); w.writerows(rows)\""}
    assert learnt(space, space / "log.jsonl", **{"data.train": [as_csv], "data.valid": [as_csv]}) == expected
    for name, write, read in (("a.gz", "gzip -9c", "gzip -dc"), ("b.gz", "split -l 100 --filter='gzip -c'", "gzip -dc"), ("a.xz", "xz -c", "xz -dc"),
                              ("b.xz", "xz -c -T2 --block-size=4096", "xz -dc"), ("a.bz2", "bzip2 -c", "bzip2 -dc"), ("a.zst", "zstd -qc", "zstd -qdc")):
        subprocess.run(f"cat '{log}' | {write} > '{space / name}'", shell=True, check=True)
        counts = said_by(f"{read} '{space / name}' | python3 -c \"import csv, sys; rows = list(csv.DictReader(sys.stdin)); print(len(rows), sum(int(row['click']) for row in rows))\"")
        assert counts == list(expected[1:]), (name, counts)
        assert learnt(space, space / name) == expected, name


def what_programs_write_wrongly_is_named(space):
    """Line and column of a cell; the byte where a packed file ends."""
    made = rows(60)
    plain(space, made)
    log, base = space / "plain.csv", space / "log.db"
    subprocess.run(["sqlite3", base], input=f".mode csv\n.import '{log}' log\nupdate log set price = 'dear' where rowid = 30;\n", text=True, check=True)
    subprocess.run(f"sqlite3 -header -csv '{base}' 'select * from log' > '{space / 'dear.csv'}'", shell=True, check=True)
    refused(space, space / "dear.csv", 'dear.csv:31: no number: column "price" has "dear"')
    subprocess.run(f"sqlite3 -header -nullvalue NULL -csv '{base}' \"select age, city, nullif(click, '0') as click, item, user from log where price <> 'dear'\" > '{space / 'null.csv'}'",
                   shell=True, check=True)
    columns = {"data.columns": [{"name": "age", "type": "number"}]}
    refused(space, space / "null.csv", 'null.csv:', 'column "click" has "NULL"', **columns)
    subprocess.run(f"awk -F, 'NR == 11 {{print $0 \",x\"; next}} {{print}}' '{log}' > '{space / 'wide.csv'}'", shell=True, check=True)
    refused(space, space / "wide.csv", "wide.csv:11: 8 columns, not 7 as in the header")
    subprocess.run(f"gzip -c '{log}' | head -c 500 > '{space / 'cut.gz'}'; xz -c '{log}' | head -c 500 > '{space / 'cut.xz'}'; " +
                   f"bzip2 -c '{log}' | head -c 500 > '{space / 'cut.bz2'}'; zstd -qc '{log}' | head -c 500 > '{space / 'cut.zst'}'", shell=True, check=True)
    for name in ("cut.gz", "cut.xz", "cut.bz2", "cut.zst"):
        refused(space, space / name, f"{name}: ", "data ends too early, at byte 500")
    # two stray quotes, which Python's csv takes for one row: neither hides the other's line
    lines = ["age,city,click,item,price,tags,user"] + [f"30,{city},{n % 2},i{n},1.5,t,{n}" for n, city in enumerate(['"rome', 'paris"'] + ["oslo"] * 50)]
    (space / "stray.csv").write_text("\n".join(lines) + "\n")
    with open(space / "stray.csv", newline="", encoding="utf-8") as f:
        assert len(list(csv.DictReader(f))) == 51
    refused(space, space / "stray.csv", "stray.csv:2: column 2: a quote is opened and not closed")
    # a text whose second line has as many commas as a row, but no label
    lines[1:3] = ['30,"rome,', "one,two,three,four,five,six,seven", '",1,i0,1.5,t,0']
    (space / "text.csv").write_text("\n".join(lines) + "\n")
    with open(space / "text.csv", newline="", encoding="utf-8") as f:
        read = list(csv.DictReader(f))
    assert learnt(space, space / "text.csv")[1:] == (len(read), sum(row["click"] == "1" for row in read)) == (51, 26)
    # a column that no record has
    records.write(space / "log.tfrecord", as_records(made))
    path = job(space, space / "log.tfrecord", **{"data.format": "tfrecord", "data.columns": [{"name": "aeg", "type": "number"}, {"name": "tags", "type": "multi"}]})
    run = Run(path, space / "run")
    assert run.wait() == 0, run.output()[-2000:]
    assert 'has the feature "aeg", which the job names: it is read as empty; did you mean "age"?' in run.output(), run.output()[-3000:]


def comments_of_libsvm_are_no_rows(space):
    """scikit-learn writes some before the first row."""
    over = {"data.format": "libsvm", "data.label": None, "data.columns": None, "features.number": None}
    lines = [f"{n % 2} {n % 7 + 1}:0.5 {n % 5 + 8}:{n % 3}" for n in range(100)]
    (space / "plain.svm").write_text("\n".join(lines) + "\n")
    expected = learnt(space, space / "plain.svm", **over)
    (space / "skl.svm").write_text("# Generated by dump_svmlight_file from scikit-learn 1.2.1\n# Column indices are zero-based\n#\n" + "\n".join(lines) + "\n# end\n")
    assert learnt(space, space / "skl.svm", **over) == expected


def ragged_lines_are_named(space):
    made = rows(60)
    table = [NAMES] + [cells(row) for row in made]
    write_csv(space / "long.csv", table[:40] + [table[40] + [""]] + table[41:])
    refused(space, space / "long.csv", "long.csv:41: 8 columns, not 7 as in the header: the line ends in a delimiter")
    write_csv(space / "short.csv", table[:40] + [table[40][:5]] + table[41:])
    refused(space, space / "short.csv", "short.csv:41: 5 columns, not 7 as in the header")


if __name__ == "__main__":
    main([csv_of_other_programs_trains_the_same, line_ends_within_quotes_are_text, cells_of_other_programs_train_the_same, packed_files_train_the_same,
          records_train_the_same, damaged_records_are_named, weights_transforms_and_crosses_are_the_same_in_every_form, packed_entries_train_the_same,
          ragged_lines_are_named, programs_count_what_they_wrote, what_programs_write_wrongly_is_named, comments_of_libsvm_are_no_rows])
