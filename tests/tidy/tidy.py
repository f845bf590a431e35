#!/usr/bin/env python3
"""tidy: holds the tree against the house's rules (CONTRIBUTING.md). A rule is in the module of its kind, beside this file.

    tidy.py ROOT [--build DIR]             exit 0 when ROOT keeps every rule, 1 with a line for each breach
    tidy.py ROOT [--build DIR] --list RULE its breaches, those that are still allowed too ("all": of every rule)
    tidy.py --control DIR                  exit 0 only when DIR breaks every rule as often as DIR/expected says (the negative control)
    tidy.py ROOT --build DIR --circles     circles of calls inside the rooms, and arrows inside the houses

With --build, DIR's objects are read too: who calls whom, and what every external name is called.
"""
import argparse
import collections
import pathlib
import sys

sys.dont_write_bytecode = True

import broken
import docs
import files
import form
import invariants
import objects
import planted
import plants
import rooms
import spine
import voice
from tree import Tree

# What the code still breaks, and how often: exactly so. A count only goes down; at 0 its row goes.
ALLOWED = {}
OF_SOURCES = (files, rooms, form, voice, invariants, broken, docs, plants)
OF_OBJECTS = ("link",) + objects.RULES + spine.RULES
RULES = tuple(rule for module in OF_SOURCES for rule in module.RULES) + objects.RULES + spine.RULES


def breaches(root, build):
    """Rule -> its breaches, in words."""
    found = collections.defaultdict(list)

    def breach(rule, path, line, text):
        found[rule].append(f"{path}:{line}: {rule}: {text}")

    tree = Tree(root)
    for module in OF_SOURCES:
        module.check(tree, breach)
    if build:
        made = objects.Objects(root, build)
        if made.missing or not made.all:
            sys.exit(f"tidy: {build} is not built: {len(made.missing)} objects are missing: {' '.join(made.missing[:3])}")
        rooms.check_objects(tree, made, breach)
        objects.check(tree, made, breach)
        spine.check(made, breach)
    return tree, found


def without(build):
    """Rules that cannot be looked at here."""
    return (() if build else OF_OBJECTS) + (("format",) if form.missing() else ())


def judge(root, build, listed):
    tree, found = breaches(root, build)
    skipped = without(build)
    if not tree.sources:
        print(f"tidy: no sources under {root}")
        return 1
    bad = 0
    for rule in RULES:
        count, allowed = len(found[rule]), ALLOWED.get(rule, 0)
        if listed in (rule, "all") or not listed and count > allowed:
            print("\n".join(found[rule]))
        if rule not in skipped and count != allowed:
            print(f"tidy: {rule}: {count} breaches, {allowed} allowed" + ("" if count > allowed else ": take the number in tidy.py down"))
            bad += 1
    if form.missing():
        print(f"tidy: format is not looked at: {form.missing()}")
    told = sum(len(f) for f in found.values())
    print(f"tidy: {len(tree.sources)} files, {len(RULES) - len(skipped)} rules, {told} breaches, {sum(ALLOWED.get(r, 0) for r in RULES if r not in skipped)} allowed")
    return 1 if bad else 0


def control(folder):
    with planted.build(folder) as build:
        _, found = breaches(folder, pathlib.Path(build))
    expected = {rule: int(count) for rule, count in map(str.split, (folder / "expected").read_text().splitlines())}
    bad = [rule for rule in RULES if rule not in without(build) and (not found[rule] or len(found[rule]) != expected.get(rule))]
    for rule in bad:
        print("\n".join(found[rule] + [f"tidy control: {rule}: {len(found[rule])} breaches, {expected.get(rule, 'some')} expected"]))
    print(f"tidy control: {sum(len(f) for f in found.values())} breaches found" + ("" if form.missing() == "" else f"; no format: {form.missing()}"))
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--build")
    parser.add_argument("--list")
    parser.add_argument("--control")
    parser.add_argument("--circles", action="store_true")
    given = parser.parse_args()
    if not given.control and (not given.root or given.circles and not given.build):
        parser.error("which tree, which build?")
    if given.control:
        return control(pathlib.Path(given.control).resolve())
    root = pathlib.Path(given.root).resolve()
    build = pathlib.Path(given.build).resolve() if given.build else None
    if given.circles:
        made = objects.Objects(root, build)
        for circle in objects.circles(made):
            print(f"{rooms.room_of(circle[0])}: {len(circle)}: {' '.join(path.rpartition('/')[2] for path in circle)}")
        for house in ("server/coord", "embedding", "dense", "worker"):
            count, calls, share = objects.arrows(made, house)
            print(f"{house}: {count} objects, {calls} arrows, {share:.1%} of all possible")
        return 0
    return judge(root, build, given.list)


sys.exit(main())
