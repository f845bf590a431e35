#!/usr/bin/env python3
"""test_two_spaces: what an operator types with two models on one fleet: each command is about one of them, beside the other's job."""
from fleet import *
from test_spaces import digest, job, look, run


def kept(space, name, columns, **over):
    (space / f"{name}-kept").mkdir()
    return job(space, name, columns, **{"checkpoint.dir": str(space / f"{name}-kept"), **over})


def both(fleet, space, **over):
    """Trains the two models; their job files."""
    paths = kept(space, "first", "abc"), kept(space, "second", ["d", "e"], **over)
    for path in paths:
        run(fleet, path)
    return paths


def a_space_that_rests_is_kept(space):
    """Its checkpoint is made beside no job and beside one of the other model, whose digest is that of a fleet without it."""
    with Fleet(space, "calm").up() as fleet:
        alone = kept(space, "second", ["d", "e"], **{"train.epochs": longer(150)})
        calm = run(fleet, alone)[1]
    shutil.rmtree(space / "second-kept")
    with Fleet(space, "f").up() as fleet:
        first, second = kept(space, "first", "abc"), kept(space, "second", ["d", "e"], **{"train.epochs": longer(150)})
        run(fleet, first)
        one = look(fleet, "digest")
        submission = submit(fleet, second, workers=1)
        try:
            # the job before is done, and may still be the newest
            within(30, "the second to be taken", lambda: fleet.state().get("job") == "second")
            training(fleet)
            look(fleet, "checkpoint", "create", "busy", "--space", "first")
            under_way(submission)
            look(fleet, "checkpoint", "create", "own")
        except TooShort:
            submission.kill()  # it would submit to the next fleet of this name
            raise
        ended(fleet, submission)
        assert shoal("digest", "--from", space / "first-kept/busy").stdout == one
        assert (space / "second-kept/own/manifest.json").exists()
        two = digest(fleet, "second")
        assert digests(json.loads((space / "report.json").read_text())) == calm
        said = look(fleet, "checkpoint", "create", "calm", status=64)
        assert "2 spaces (first, second): say of which one" in said, said
        assert "no space third" in look(fleet, "checkpoint", "create", "calm", "--space", "third", status=66)
        look(fleet, "checkpoint", "create", "calm", "--space", "first")
        look(fleet, "checkpoint", "create", "calm", "--space", "second")
        assert shoal("digest", "--from", space / "first-kept/calm").stdout == one
        assert shoal("digest", "--from", space / "second-kept/calm").stdout == two
        listed = shoal("checkpoint", "list", space / "first-kept").stdout
        assert listed.count("job first, epoch 1") == 2, listed  # the slot of its last job has it
        assert "is removed" in look(fleet, "checkpoint", "remove", "busy", "--space", "first")
        assert not (space / "first-kept/busy").exists()
        got = shoal("digest", "--from", space / "first-kept/calm", "--space", "second")
        assert got.returncode == 66 and "is of space first" in got.stderr, got
        # back from it, beside the other
        look(fleet, "drop", "first")
        worker = fleet.worker("w", first)
        got = shoal("submit", first, "--start-from", space / "first-kept/calm", "--set", "train.skip=true", "--coordinator", fleet.endpoint)
        assert got.returncode == 0 and worker.wait(30) == 0, got
        assert digest(fleet, "first") == one and digest(fleet, "second") == two


def rows_of_a_table_are_dropped(space):
    """The space stays, and its next job is told; the other one is as it was, also after servers have died."""
    with Fleet(space, "f").up() as fleet:
        first, _ = both(fleet, space)
        two, fields = digest(fleet, "second"), look(fleet, "tables", "emb", "--space", "first", "--json")
        assert "there is no table none in space first, but emb" in look(fleet, "drop", "first/none", status=66)
        assert "--set fresh=[dense]" in look(fleet, "drop", "first/dense", status=64)
        assert "say of which one" in look(fleet, "drop", "emb/a", status=64)
        said = look(fleet, "drop", "first/emb")
        rows = int(said.split()[1])
        assert rows > 50 and "rows dropped" in said, (said, fields)
        assert "first/emb: 0 rows dropped" in look(fleet, "drop", "first/emb")
        for who in ("s0", "coordinator", "s1"):
            fleet.kill(who)
            fleet.coordinator() if who == "coordinator" else fleet.server(who)
        fleet.fits()
        assert digest(fleet, "second") == two
        assert any(line.split()[:2] == ["emb", "0"] for line in digest(fleet, "first").splitlines()), digest(fleet, "first")
        said = run(fleet, first, "--start-from", "fleet")[0]
        assert "shoal drop has taken the rows that its last job left in emb" in said, said
        assert digest(fleet, "second") == two


def each_command_is_about_one_space(space):
    """Typed without --space it says which there are; with it, it reads and changes that one alone."""
    with Fleet(space, "f").up() as fleet:
        first, second = both(fleet, space)
        two = digest(fleet, "second")
        for words in (["digest"], ["inspect", "emb", "a:x3"], ["blame", "emb", "a:x3"], ["tables", "emb"], ["keys", "list", "emb"],
                      ["erase", "emb", "--field", "a", "--value", "x3"], ["keys", "block", "emb", "--field", "a", "--value", "x4"]):
            assert "--space is missing" in look(fleet, *words, status=64), words
            look(fleet, *words, "--space", "first")
            if any(word in ("a", "a:x3") for word in words):
                got = shoal(*words, "--space", "second", "--coordinator", fleet.endpoint)
                assert got.returncode == 66 and "have no field a" in got.stderr, (words, got)
        assert digest(fleet, "second") == two
        names = look(fleet, "keys", "list", "emb", "--space", "first")
        assert len(names.splitlines()) == 2 and look(fleet, "keys", "list", "emb", "--space", "second") == "", names
        scores = {}
        for name, path in (("first", first), ("second", second)):
            out = space / f"{name}.scores"
            got = shoal("predict", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / f"{name}.csv", "--out", out)
            assert got.returncode == 0, got
            scores[name] = out.read_text()
            got = shoal("eval", path, "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / f"{name}.csv")
            assert got.returncode == 0 and json.loads(got.stdout)["examples"] == 1500, got
        again = space / "again.scores"
        # its fields are not those of the other's tables
        got = shoal("predict", first, "--space", "second", "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / "first.csv", "--out", again)
        assert got.returncode != 0, got
        got = shoal("predict", first, "--set", "space=none", "--space", "first", "--from", "fleet", "--coordinator", fleet.endpoint, "--in", space / "first.csv",
                    "--out", again)
        assert got.returncode == 0 and again.read_text() == scores["first"], got
        for words in (["status"], ["jobs"], ["doctor", "--cluster"], ["rebalance", "--dry-run"], ["drain", "s1", "--dry-run"], ["top", "--batch"], ["trace"]):
            got = shoal(*words, "--coordinator", fleet.endpoint)
            assert got.returncode in (0, 66), (words, got)


def folders_of_servers_are_read_by_space(space):
    """The servers' folders of a fleet that has ended lie side by side: each space is read by its name."""
    with Fleet(space, "f").up() as fleet:
        both(fleet, space)
        live = {name: digest(fleet, name) for name in ("first", "second")}
        look(fleet, "checkpoint", "create", "noon", "--space", "first")
        fleet.stop()
        folder = space / "servers"
        folder.mkdir()
        for i in range(2):
            shutil.copytree(fleet.folder(f"s{i}"), folder / f"server-{i}")
        got = shoal("digest", "--from", folder)
        assert got.returncode == 64 and "tables of 2 spaces (first, second): say of which one" in got.stderr, got
        got = shoal("digest", "--from", folder, "--space", "third")
        assert got.returncode == 66 and "no space third, but first, second" in got.stderr, got
        for name, told in live.items():
            got = shoal("digest", "--from", folder, "--space", name)
            assert got.returncode == 0 and got.stdout == told, (got, told)
        got = shoal("checkpoint", "diff", folder, space / "first-kept/noon", "--space", "first")
        assert got.returncode == 0, got
        got = shoal("checkpoint", "diff", folder, space / "first-kept/noon")
        assert got.returncode == 64 and "--space is missing" in got.stderr, got
        got = shoal("export", folder, "emb", "--space", "second", "--format", "tsv", "--out", space / "out")
        assert got.returncode == 0, got
        rows = len((space / "out/emb.tsv").read_text().splitlines()) - 1
        assert any(line.split()[:2] == ["emb", str(rows)] for line in live["second"].splitlines()), (rows, live)


def disk(fleet):
    """Bytes on the disk of all servers' folders; a file with several names counts once."""
    files = {}
    for i in range(2):
        for path in fleet.folder(f"s{i}").rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                got = path.lstat()
                files[got.st_ino] = got.st_blocks * 512
    return sum(files.values())


def a_dropped_space_gives_its_disk_back(space):
    """What is left on the disk is the other model's, whose rows are as they were."""
    large = space / "large.csv"
    large.write_text("label,a,b\n" + "".join(f"{i % 2},x{i},y{i}\n" for i in range(40000)), encoding="utf-8")
    first = kept(space, "first", "ab", **{"data.train": [str(large)], "tables[0].dim": 64})
    with Fleet(space, "f") as fleet:
        fleet.coordinator()
        for i in range(2):
            fleet.server(f"s{i}", "--set", "journal.segment=1MiB", "--set", "journal.max=8MiB")
        run(fleet, kept(space, "second", ["d", "e"]))
        small, two = disk(fleet), look(fleet, "digest")
        run(fleet, first)
        big = disk(fleet)
        assert big > small + 30e6, (small, big)
        look(fleet, "drop", "first")
        left = within(60, "the disk to be given back", lambda: (d := disk(fleet)) < small + 0.1 * (big - small) and d)
        print(f"disk: {small / 1e6:.1f} MB with the small model, {big / 1e6:.1f} with both, {left / 1e6:.1f} after the drop")
        assert look(fleet, "digest") == two


if __name__ == "__main__":
    main([a_space_that_rests_is_kept, rows_of_a_table_are_dropped, each_command_is_about_one_space, folders_of_servers_are_read_by_space, a_dropped_space_gives_its_disk_back])
