#!/usr/bin/env python3
"""reference.py: what is generated from the tables of keys and options is committed as it is: the manual's tables, the JSON
Schema and the completions of bash and zsh; the manual pages have all of them; every key stands in the manual once; --help of the daemons names theirs, and --help of
every command its options, each with its range and default. Control: a page, a schema, a completion and a help that were
changed by hand are found. With --write they are made anew instead."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ.get("SHOAL_BIN", "build/release/bin")
PAGES = {"deploy/manual/job.md": ("job",), "deploy/manual/fleet.md": ("server", "coordinator", "worker"), "deploy/manual/run.md": (), "deploy/manual/metrics.md": ()}
SCHEMA = "deploy/job.schema.json"
COMPLETION = "deploy/completion.bash"
CATALOG = "deploy/systemd/shoal.catalog"
ZSH = "deploy/completion.zsh"


def made(*words, program="reference"):
    return subprocess.run([f"{BIN}/{program}", *words], capture_output=True, text=True, check=True).stdout


def page_faults(path):
    return [] if made("page", path) == open(path).read() else [f"{path}: tests/reference.py --write makes it"]


def schema_faults(path):
    return [] if made("schema") == open(path).read() else [f"{path}: tests/reference.py --write makes it"]


def completion_faults(path):
    return [] if made("completion") == open(path).read() else [f"{path}: tests/reference.py --write makes it"]


def catalog_faults(path):
    """As generated; no id is another's; nothing is named that the event does not have."""
    text = open(path).read()
    ids = re.findall(r"^-- (\w+)$", text, re.M)
    faults = [] if made("catalog") == text else [f"{path}: tests/reference.py --write makes it"]
    return faults + [f"{path}: {one} is no id, or stands twice" for one in ids if not re.fullmatch("[0-9a-f]{32}", one) or ids.count(one) > 1]


def zsh_faults(path):
    return [] if made("completion", "zsh") == open(path).read() else [f"{path}: tests/reference.py --write makes it"]


def zsh_completed(*words):
    """The options that zsh offers for the last word, or None without zsh."""
    if shutil.which("zsh") is None:
        return None
    script = '_arguments() { print -rl -- "$@" }; words=("$@"); CURRENT=$#; f() { source ' + ZSH + ' }; f'
    told = subprocess.run(["zsh", "-fc", script, "zsh", *words], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\*?(--[a-z-]+)=?\[", told, re.M)


def completed(*words):
    """Returns bash's completions of the last word."""
    script = f'source {COMPLETION}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shoal; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True).stdout.split()


def offers_faults(options):
    """Completion offers each command its very options."""
    faults = []
    for command in {row[0] for row in options}:
        told, own = completed(*command.split(), "--"), [row[1] for row in options if row[0] == command]
        faults += [] if told == own else [f"{COMPLETION}: {command} is offered {told}, has {own}"]
        told = zsh_completed(*command.split(), "--")
        faults += [] if told in (None, own) else [f"{ZSH}: {command} is offered {told}, has {own}"]
    return faults


def plain(text):
    """A page as it is read, without its fonts and lines."""
    return " ".join(re.sub(r"\\f.|\\(?=-)|\\&", "", text).split())


def man_faults(pages, options, keys):
    """Each option of a command stands in its page, each key in its file's; mandoc, where it is, has nothing to say."""
    faults = []
    for command, _, form, values in options:
        page = pages.get(page_of(command), "")
        if f".B {form} " not in plain(page) + " ":
            faults.append(f"{page_of(command)} does not have {form} of {command}")
    for file, key in keys:
        if f".B {key} " not in plain(pages[f"shoal-{file}.yaml.5"]):
            faults.append(f"shoal-{file}.yaml.5 does not have {key}")
    for name, text in pages.items() if shutil.which("mandoc") else ():
        said = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=text, capture_output=True, text=True, check=False).stdout
        faults += [f"{name}: {line}" for line in said.splitlines()]
    return faults


def page_of(command):
    """The page of a command: "shoal checkpoint list" is told in that of "shoal checkpoint"."""
    words = command.split()
    return f"{'-'.join(words[:2])}.1" if words[0] == "shoal" else f"{words[0]}.8"


def man_pages(options):
    pages = {os.path.basename(path): made("man", path) for path in glob.glob("deploy/man/*.[0-9]")}
    return pages | {page_of(c): made("man", c.split()[1]) for c in {row[0] for row in options} if re.fullmatch(r"shoal \w+", c)}


def option_faults(options, helps):
    """The lines of a command's --help, layout aside, are its options."""
    faults = []
    for command, text in helps.items():
        lines = [" ".join(part.split()) for part in re.split(r"^  (?=--|-\w, --)", text, flags=re.M)[1:]]
        rows = [row for row in options if row[0] == command]
        for line, (_, _, form, values) in zip(lines, rows):
            if not (line + " ").startswith(form + " ") or f"({values}" * bool(values) not in line:
                faults.append(f"--help of {command}: '{line}' is not {form} {values}")
        if len(lines) != len(rows):
            faults.append(f"--help of {command} has {len(lines)} options, the table {len(rows)}")
    return faults


def help_of(command):
    program, *verbs = command.split()
    return made(*verbs, "--help", program=program)


def keys_faults(keys, pages):
    """Each key once, in a table of its file."""
    faults = []
    for path, files in pages.items():
        tables = re.findall(r"<!-- keys: (\w+).*?-->\n(.*?)<!-- /keys -->", open(path).read(), re.S)
        for file in files:
            told = [row for name, text in tables if name == file for row in re.findall(r"^`([^`]+)`\|", text, re.M)]
            faults += [f"{path}: {key} of {file} stands {told.count(key)} times" for name, key in keys
                       if name == file and told.count(key) != 1]
    return faults


def help_faults(keys, text, file):
    told = re.findall(r"^  ([a-z_.{}]+) ", text, re.M)
    return [f"--help of the {file} does not name {key}" for name, key in keys if name == file and key not in told]


def leaves(node, path=""):
    for name, one in node.get("properties", {}).items():
        inner = one.get("items", one)
        if "properties" in inner:
            yield from leaves(inner, f"{path}{name}{'[]' if inner is not one else ''}.")
        if "properties" not in inner or "object" != inner["type"]: # a value; or one or a mapping
            yield path + name + ("[]" if inner is not one else "")


def write():
    for path in PAGES:
        text = made("page", path)
        open(path, "w").write(text)
    open(SCHEMA, "w").write(made("schema"))
    open(COMPLETION, "w").write(made("completion"))
    open(CATALOG, "w").write(made("catalog"))
    open(ZSH, "w").write(made("completion", "zsh"))


def jobs_faults():
    """If Python has the modules: shipped jobs fit the schema, and a misspelt key does not."""
    try:
        import jsonschema
        import yaml
    except ImportError:
        return []
    check = jsonschema.Draft202012Validator(json.load(open(SCHEMA)))
    jobs = {path: yaml.safe_load(open(path)) for path in sorted(glob.glob("deploy/jobs/*.yaml"))}
    assert jobs and not check.is_valid({"train": {"bach": 1}}) and not check.is_valid({"train": {"batch": 0}}), "control"
    return [f"{path}: {fault.json_path} {fault.message}" for path, job in jobs.items() for fault in check.iter_errors(job)]


def main():
    if sys.argv[1:] == ["--write"]:
        return write()
    keys = [tuple(line.split()) for line in made("keys").splitlines()]
    assert len(keys) > 150, keys
    faults = [fault for path in PAGES for fault in page_faults(path)] + schema_faults(SCHEMA) + keys_faults(keys, PAGES) + jobs_faults()
    options = [line.split("\t") for line in made("options").splitlines()]
    helps = {command: help_of(command) for command in {row[0] for row in options} - {"shoal", "shoal checkpoint", "shoal keys"}}
    assert len(options) > 100, options
    pages = man_pages(options)
    faults += zsh_faults(ZSH) + man_faults(pages, options, keys)
    faults += catalog_faults(CATALOG) + completion_faults(COMPLETION) + offers_faults(options) + option_faults(options, helps)
    refused = subprocess.run([f"{BIN}/shoal", "reference", "schema"], capture_output=True, text=True, check=False)
    faults += [] if refused.returncode == 64 else ["`shoal reference` is no verb of the operator's command"]
    for file in "server", "coordinator":
        faults += help_faults(keys, made("--help", program=f"shoal-{file}"), file)
    if sorted(leaves(json.load(open(SCHEMA)))) != sorted(key for file, key in keys if file == "job"):
        faults.append(f"{SCHEMA} has other keys than job.yaml")
    with tempfile.TemporaryDirectory() as folder:
        spoilt = f"{folder}/spoilt.md"
        for path, old, new in (("deploy/manual/job.md", "|4096|", "|4095|"), ("deploy/manual/fleet.md", "|1..256|", "|1..255|"),
                               ("deploy/manual/run.md", "|1..64, default 1\n", "|1..63, default 1\n")):
            open(spoilt, "w").write(open(path).read().replace(old, new, 1))
            assert page_faults(spoilt), f"control: {old} changed in {path} is not found"
        open(spoilt, "w").write(open(SCHEMA).read().replace('"minimum": 1', '"minimum": 2', 1))
        assert schema_faults(spoilt), "control: a changed schema is not found"
        open(spoilt, "w").write(open(COMPLETION).read().replace("--servers", "--server", 1))
        assert completion_faults(spoilt), "control: a changed completion is not found"
        twice = open(CATALOG).read()
        open(spoilt, "w").write(twice + "\n" + twice.split("\n\n", 1)[1])
        assert len(catalog_faults(spoilt)) > 2, "control: ids that stand twice are not found"
        open(spoilt, "w").write(open(ZSH).read().replace("--servers", "--server", 1))
        assert zsh_faults(spoilt), "control: a changed completion of zsh is not found"
    for name, old, new in (("shoal-bench.1", "train\\-rows", "trained\\-rows"), ("shoal-job.yaml.5", ".B train.batch\n", ".B train.batches\n")):
        assert man_faults({**pages, name: pages[name].replace(old, new)}, options, keys), f"control: {old} gone from {name} is not found"
    if shutil.which("mandoc") is None:
        print("manual pages are not linted: no mandoc here")
    for old, new in (("1..16", "1..17"), ("--workers N", "--worker N"), ("default 1)", "default 2)"), ("  --no-restart", "  no-restart")):
        spoilt = {"shoal local": helps["shoal local"].replace(old, new, 1)}
        assert option_faults(options, spoilt), f"control: {old} changed in a help is not found"
    assert offers_faults(options + [["shoal stop", "--none", "--none N", ""]]), "control: an option that completion lacks"
    assert keys_faults(keys + [("job", "train.none")], PAGES) and help_faults([("server", "none")], "", "server"), "control"
    print("\n".join(faults) or f"{len(keys)} keys, {len(options)} options: pages, schema, completions and helps are as generated")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
