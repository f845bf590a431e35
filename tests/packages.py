#!/usr/bin/env python3
"""packages.py: deploy/debian is of one mind with the tree: it builds with the packages of deploy/packages, has its version and day, a package for every
unit and module, what it installs by name is there, and needrestart restarts no unit by itself. Control: each fault planted is found."""
import email.utils
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ESSENTIAL = {"gcc", "g++", "libc6-dev"}  # build-essential, which is not named
MADE = re.compile(r"usr/(bin|include|lib|share/(man|bash-completion|zsh|shoal))/.*|usr/share/man/man1")  # by cmake --install


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def files():
    named = ("deploy/packages", "CMakeLists.txt", "deploy/image", "deploy/test-package", "deploy/manual/guide.md")
    return {path: read(path) for path in (*named, *(str(p.relative_to(ROOT)) for p in (ROOT / "deploy/debian").rglob("*") if p.is_file()))}


def build_list(text):
    part = text.split("# build\n")[1].split("# run\n")[0]
    return set(re.sub("#.*", "", part).split())


def build_depends(text):
    return set(re.findall(r"[a-z0-9+.-]+(?: \([^)]*\))?", re.search(r"^Build-Depends:(.*?)^\S", text, re.S | re.M)[1]))


def build_faults(of):
    listed, depends = build_list(of["deploy/packages"]), build_depends(of["deploy/debian/control"])
    wanted = listed - ESSENTIAL | {"debhelper-compat (= 13)", "dh-sequence-installsysusers", "dh-sequence-python3"}
    return [f"Build-Depends lacks {name}, which deploy/packages has" for name in sorted(wanted - depends)] + \
        [f"Build-Depends has {name}, which deploy/packages lacks" for name in sorted(depends - wanted)]


def version_faults(of):
    version = re.search(r"project\(shoal VERSION (\S+) ", of["CMakeLists.txt"])[1]
    day = re.search(r"SHOAL_DATE (\S+)\)", of["CMakeLists.txt"])[1]
    log = re.match(r"shoal \((\S+)\) .*?\n -- .*?>  \w+, (\d+) (\w+) (\d+) ", of["deploy/debian/changelog"], re.S)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    told = f"{log[4]}-{months.index(log[3]) + 1:02}-{int(log[2]):02}"
    found = [f"debian/changelog has version {log[1]} of {told}, CMakeLists.txt {version} of {day}"] if (log[1], told) != (version, day) else []
    # Files newer than the changelog get its time, older ones keep theirs: otherwise no two builds would be the same.
    made = email.utils.parsedate_to_datetime(re.search(r"^ -- .*?>  (.*)$", of["deploy/debian/changelog"], re.M)[1])
    return found + ([f"debian/changelog is dated in the future: {made}"] if made.timestamp() > time.time() else [])


def packages(of):
    return set(re.findall(r"^Package: (\S+)", of["deploy/debian/control"], re.M))


def unit_faults(of):
    units = {p.name.split(".")[0].rstrip("@") for p in (ROOT / "deploy/systemd").glob("*.service")}
    return [f"unit {name} has no package of its name" for name in sorted(units - packages(of))]


def module_faults(of):
    """A module that only some machines need has a package, and is named where packages are chosen."""
    control, found = of["deploy/debian/control"], []
    install = of["deploy/manual/guide.md"].split("## Install")[1].split("```")[0]
    image, upgrade = (re.search(wanted, of[path])[0] for path, wanted in (("deploy/image", r"(?m)^PACKAGES = .*"), ("deploy/test-package", r"INSTALLED \+ \[.*?\]")))
    for module in re.search(r"foreach\(module (.*)\)", of["CMakeLists.txt"])[1].replace("shoal_cpu", "").split():
        name = module.replace("_", "-")
        part = re.search(rf"^Package: {name}\n(.*?)(?:\n\n|\Z)", control, re.S | re.M)
        if part is None or f"usr/lib/shoal/lib{module}.so" not in of.get(f"deploy/debian/{name}.install", ""):
            found.append(f"module {module} has no package {name}")
            continue
        of_role = re.search(r"Depends: (\S+)", part[1])[1]
        if not re.search(rf"^Package: {of_role}\n(?:.+\n)*?Suggests:.*\b{name} ", control, re.M):
            found.append(f"{of_role} does not suggest {name}")
        if f"`{name}`" not in install:
            found.append(f"the guide's Install does not name {name}")
        if "Build-Profiles" not in part[1]:  # the others are built everywhere
            found += [f"{path} lacks {name}" for path, text in (("deploy/image", image), ("deploy/test-package", upgrade)) if f'"{name}"' not in text]
    return found


def install_faults(of):
    found = []
    for name in sorted(packages(of)):
        for line in of.get(f"deploy/debian/{name}.install", "").splitlines():
            source = line.split()[0]
            if not MADE.fullmatch(source) and not list(ROOT.glob(source)):
                found.append(f"{name}.install: {source} is not there")
            if (m := re.fullmatch(r"usr/share/man/man\d/(.*)", source)) and not (ROOT / "deploy/man" / m[1]).exists():
                found.append(f"{name}.install: deploy/man/{m[1]} is not there")
    owned = "".join(of.get(f"deploy/debian/{name}.install", "") for name in packages(of))
    pages = [p.name for p in (ROOT / "deploy/man").glob("*.[3578]")]
    return found + [f"no package installs deploy/man/{page}" for page in pages if not re.search(rf"/{re.escape(page)}$", owned, re.M)]


def needrestart_faults(of):
    """As needrestart reads it: Perl that fills %nrconf; a unit whose name a pattern with 0 meets is listed and left."""
    units = [p.name.replace("@", "@1") for p in (ROOT / "deploy/systemd").glob("*.service")]
    ask = ('our %nrconf; eval join("", <STDIN>); die $@ if $@; my $r = $nrconf{override_rc}; '
           'for my $u (@ARGV) { my @met = grep { $u =~ /$_/ } keys %$r; print "$u\n" if !@met || grep { $r->{$_} } @met }')
    got = subprocess.run(["perl", "-e", ask, *units, "ssh.service"], input=of["deploy/debian/needrestart/shoal.conf"], capture_output=True, text=True, check=False)
    left = got.stdout.split()
    return [f"needrestart restarts {left}, not ssh.service alone: {got.stderr.strip()}"] if left != ["ssh.service"] else []


def library_faults(of):
    """The library's packages have its name, its number and its symbols (tests/worker/lib/abi)."""
    found = []
    for name, wanted in (("libshoal1", ("usr/lib/*/libshoal.so.1*",)), ("libshoal-dev", ("usr/include/shoal.h", "usr/lib/*/libshoal.so", "usr/lib/*/pkgconfig/shoal.pc"))):
        lines = of[f"deploy/debian/{name}.install"].splitlines()
        found += [f"{name}.install lacks {line}" for line in wanted if line not in lines]
    told = set(re.findall(r"^ (\w+@\w+) ", of["deploy/debian/libshoal1.symbols"], re.M))
    kept = {f"{name}@{version}" for name, version in (line.split() for line in read("tests/worker/lib/abi/symbols").splitlines())}
    return found + [f"libshoal1.symbols and tests/worker/lib/abi/symbols differ in {name}" for name in sorted(told ^ (kept | {"SHOAL_1@SHOAL_1"}))]


def python_faults(of):
    """The Python package has what it needs, and the examples that its page shows."""
    part = re.search(r"^Package: python3-shoal\n(.*?)\n\n", of["deploy/debian/control"], re.S | re.M)[1]
    found = [f"python3-shoal lacks {line}" for line in ("Depends: libshoal1 (>= ${source:Version}), python3 (>= 3.11), python3-numpy, ", "Suggests: python3-torch\n")
             if line not in part + "\n"]
    if "usr/lib/python3/dist-packages/shoal\n" not in of["deploy/debian/python3-shoal.install"]:
        found.append("python3-shoal.install lacks the package")
    shown = {line for line in of["deploy/debian/python3-shoal.examples"].split() if (ROOT / line).exists()}
    there = {str(p.relative_to(ROOT)) for p in (ROOT / "worker/python/examples").iterdir() if p.is_file()}
    return found + [f"python3-shoal.examples and worker/python/examples differ in {name}" for name in sorted(shown ^ there)]


def faults(of):
    return python_faults(of) + library_faults(of) + needrestart_faults(of) + build_faults(of) + version_faults(of) + unit_faults(of) + module_faults(of) + install_faults(of)


def main():
    of = files()
    found = faults(of)
    planted = [("deploy/packages", "libyaml-dev\n", ""), ("deploy/debian/control", "libyaml-dev,\n", "libyaml-dev,\n               libfoo-dev,\n"),
               ("deploy/debian/changelog", "shoal (0", "shoal (9"), ("CMakeLists.txt", "SHOAL_DATE 2", "SHOAL_DATE 3"),
               ("deploy/debian/control", "Package: shoal-worker\n", "Package: shoal-workers\n"), ("deploy/debian/shoal-common.install", "deploy/takeover", "deploy/takeovers"),
               ("deploy/debian/shoal-server.install", "shoal-server.8", "shoal-servers.8"), ("deploy/debian/needrestart/shoal.conf", "= 0", "= 1"),
               ("deploy/debian/libshoal-dev.install", "libshoal.3", "libshoal.4"), ("deploy/debian/libshoal-dev.install", "shoal.pc", "shoals.pc"),
               ("deploy/debian/libshoal1.symbols", " shoal_fetch@SHOAL_1", " shoal_fetches@SHOAL_1"), ("deploy/debian/libshoal1.install", ".so.1", ".so.2"),
               ("deploy/debian/needrestart/shoal.conf", "|server", ""), ("CMakeLists.txt", " shoal_kafka)", " shoal_kafka shoal_other)"),
               ("deploy/debian/control", ", shoal-kafka (", ", shoal-kafkas ("), ("deploy/debian/shoal-kafka.install", "kafka.so", "kafkas.so"), ("deploy/image", '"shoal-zookeeper", ', ""),
               ("deploy/test-package", '"shoal-zookeeper", "shoal-kafka"]', '"shoal-zookeeper"]'), ("deploy/manual/guide.md", "`shoal-kafka`", "kafka"), ("deploy/debian/needrestart/shoal.conf", "(^shoal-(coordinator|server|worker))", "()")]
    planted += [("deploy/debian/control", "python3-numpy", "python3-num"), ("deploy/debian/python3-shoal.install", "dist-packages", "site-packages"),
                ("deploy/debian/python3-shoal.examples", "deepfm.py", "deepfm2.py")]
    for path, right, wrong in planted:
        assert right in of[path], (path, right)
        if not faults({**of, path: of[path].replace(right, wrong, 1)}):
            found.append(f"control: {wrong.strip() or 'nothing'} for {right.strip()} in {path} is not found")
    ahead = re.sub(r"(^ -- .*?>  ).*$", lambda m: m[1] + email.utils.formatdate(time.time() + 86400), of["deploy/debian/changelog"], count=1, flags=re.M)
    if not any("in the future" in fault for fault in version_faults({**of, "deploy/debian/changelog": ahead})):
        found.append("control: tomorrow's changelog is not found")
    print("\n".join(found) or "packages, tree and deploy/packages fit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
