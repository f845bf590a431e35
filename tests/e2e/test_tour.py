#!/usr/bin/env python3
"""test_tour: the manual's way from a csv to tomorrow, typed as it is printed; and with a real log in its place."""
import gzip
import re

from lib import *

PAGE = pathlib.Path(__file__).parents[2] / "deploy/manual/tour.md"


def page():
    """The job file and the commands, in their order."""
    text = PAGE.read_text(encoding="utf-8")
    return re.search(r"```yaml\n(.*?)```", text, re.S)[1], re.findall(r"^    (\S.*)$", text, re.M)


def typed(space, commands):
    said = {}
    for command in commands:
        got = subprocess.run(command, shell=True, cwd=space.path, capture_output=True, text=True, timeout=300,
                             env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        assert got.returncode == 0, (command, got.stdout[-2000:], got.stderr[-2000:])
        said[command] = got.stdout
    return said


def ends_well(space, rows):
    first, second = (json.loads((space / f"runs/{i}/report.json").read_text()) for i in (1, 2))
    assert second["start_from"].startswith(str((space / "runs/1/checkpoints").resolve())) and second["rows"] >= first["rows"]
    for file, report in (("scores.csv", first), ("scores2.csv", second)):
        lines = (space / file).read_text().splitlines()
        assert len(lines) == rows + 1 and report["test"]["examples"] == rows
        mean = sum(float(line.rsplit(",", 1)[-1]) for line in lines[1:]) / rows
        assert 0 < mean < 1
    return first, second


def page_works_as_printed(space):
    job, commands = page()
    (space / "clicks.yaml").write_text(job)
    said = typed(space, commands)
    first, second = ends_well(space, 2000)
    measured = json.loads(said["shoal eval --from runs/1"])
    assert measured["auc"] == first["test"]["auc"] > 0.6 and second["test"]["auc"] > first["test"]["auc"]
    assert said["head -3 scores.csv"].startswith("user,click,score\n")


def page_works_with_a_real_log(space):
    data = data_folder("obd_men")
    if data is None:
        raise Skip("SHOAL_DATA names no folder with obd_men")
    with gzip.open(data / "random.csv.gz", "rt") as f:
        head, *rows = f.read().splitlines()
    for name, part in (("today", rows[:4000]), ("check", rows[8000:9000]), ("tomorrow", rows[4000:8000])):
        (space / f"{name}.csv").write_text("\n".join([head, *part]) + "\n")
    job, commands = page()
    fields = "[item_id, position, user_feature_0, user_feature_1, user_feature_2, user_feature_3]"
    (space / "clicks.yaml").write_text(re.sub(r"fields: \[.*?\]", f"fields: {fields}", job))
    typed(space, [c.replace("--column user ", "--column item_id ") for c in commands if " synth " not in c])
    ends_well(space, 1000)


if __name__ == "__main__":
    main([page_works_as_printed, page_works_with_a_real_log])
