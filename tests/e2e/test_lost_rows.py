#!/usr/bin/env python3
"""test_lost_rows: rows of several spaces that are gone with a server's memory or disk: what is said, and that following it brings each space back."""
from fleet import *
from test_spaces import digest, job, look, run

MEMORY = ["--set", "durability=memory"]


def kept(fleet, space, name, columns):
    """Trains a model and makes a checkpoint of it; its job file, the checkpoint and the digest."""
    folder = space / f"{name}-kept"
    folder.mkdir()
    path = job(space, name, columns, **{"checkpoint.dir": str(folder), "durability": None})
    run(fleet, path)
    look(fleet, "checkpoint", "create", "kept", "--space", name)
    return path, folder / "kept", digest(fleet, name)


def refused(fleet, path, *words):
    got = shoal("submit", path, "--coordinator", fleet.endpoint, "--no-wait", *words)
    assert got.returncode not in (0, 69), got
    return got.stderr


def brought_back(fleet, name, what, *words):
    path, checkpoint, was = what
    run(fleet, path, "--start-from", checkpoint, "--set", "train.skip=true", *words)
    assert digest(fleet, name) == was, name


def up_in_memory(fleet):
    fleet.coordinator()
    for who in ("s0", "s1"):
        fleet.server(who, *MEMORY)


def again(fleet, *who):
    for one in who:
        fleet.kill(one)
    for one in who:
        fleet.server(one, *MEMORY)
    fleet.fits()


def a_servers_memory_is_lost(space):
    """One server of two starts again: the job of one space is told the way, and the other space is marked; then both servers start again."""
    with Fleet(space, "f") as fleet:
        up_in_memory(fleet)
        first, second = kept(fleet, space, "first", "abc"), kept(fleet, space, "second", ["d", "e"])
        again(fleet, "s1")
        for name in ("first", "second"):
            assert "they are lost: begin the space anew" in look(fleet, "digest", "--space", name, status=66)
        said = refused(fleet, first[0], "--start-from", "fleet")
        assert "a job would go on with a part of them" in said and "--set fresh=all" in said, said
        brought_back(fleet, "first", first, "--set", "fresh=all")
        said = refused(fleet, second[0], "--start-from", "fleet")
        assert "they are lost: shoal drop second" in said, said
        assert "they are lost: shoal drop second" in look(fleet, "digest", "--space", "second", status=66)
        assert "second" in look(fleet, "tables") and "lost" in look(fleet, "tables"), look(fleet, "tables")
        look(fleet, "drop", "second")
        brought_back(fleet, "second", second)
        assert digest(fleet, "first") == first[2]
        again(fleet, "s0", "s1")
        said = refused(fleet, first[0], "--start-from", "fleet")
        assert "none are left" in said and "--set fresh=all" in said, said
        brought_back(fleet, "first", first, "--set", "fresh=all")
        brought_back(fleet, "second", second, "--set", "fresh=all")
        assert digest(fleet, "first") == first[2]


def a_durability_does_not_hide_rows(space):
    """A server with rows on its disk is not taken with durability: memory; back as it was, it has them."""
    with Fleet(space, "f").up() as fleet:
        path = job(space, "first", "abc", durability=None)
        run(fleet, path)
        was = digest(fleet, "first")
        fleet.kill("s1")
        fleet.server("s1", *MEMORY, folder=space / "other")
        fleet.refused("comes with durability: memory")
        fleet.kill("s1")
        fleet.server("s1")
        fleet.fits()
        assert digest(fleet, "first") == was
        look(fleet, "drop", "first")  # now it has none
        fleet.kill("s1")
        fleet.server("s1", *MEMORY, folder=space / "other")
        run(fleet, path)
        assert digest(fleet, "first") == was


def a_disk_is_lost_beside_other_spaces(space):
    """No job runs: the order marks both spaces, and each comes back from its own checkpoint."""
    with Fleet(space, "f").up() as fleet:
        first, second = kept(fleet, space, "first", "abc"), kept(fleet, space, "second", ["d", "e"])
        fleet.kill("s1")
        shutil.rmtree(fleet.folder("s1"))
        got = within(15, "s1 to count as silent", lambda: (g := shoal("replace", "s1", "--from", first[1], "--coordinator", fleet.endpoint)).returncode == 0 and g)
        assert "lost rows with it: first, second" in got.stdout + got.stderr, got
        fleet.server("s1")
        within(15, "s1 to be taken", lambda: "is number" in fleet.said("s1"))
        for name, what in (("first", first), ("second", second)):
            said = refused(fleet, what[0], "--start-from", "fleet")
            assert f"they are lost: shoal drop {name}" in said, said
            look(fleet, "drop", name)
            brought_back(fleet, name, what)
        assert digest(fleet, "first") == first[2]


if __name__ == "__main__":
    main([a_servers_memory_is_lost, a_durability_does_not_hide_rows, a_disk_is_lost_beside_other_spaces])
