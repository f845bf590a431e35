"""debs: the Debian packages of this tree, built in a bare Debian or here; for package, test-package and test-systemd."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from bare import HERE, debian, inside, layer, run, say, tree_put

TOOLS = {"debootstrap": "debootstrap", "unshare": "util-linux"}
SUITES = {"bookworm": "12", "trixie": "13"}
TREE = "root/shoal"  # in a bare Debian
LATER = "+later"  # behind the version of packages that are upgraded to
VERSION = re.search(r"project\(shoal VERSION (\S+) ", (HERE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
CUDA = "command -v nvcc >/dev/null || ls /usr/local/cuda*/bin/nvcc >/dev/null 2>&1"


def debian_put(tree, suite):
    """deploy/debian becomes debian/, its version that of a suite: one version is one build."""
    shutil.copytree(tree / "deploy/debian", tree / "debian", symlinks=True)
    for log in (tree / "debian/changelog", tree / "debian/shoal-common.NEWS"):
        log.write_text(re.sub(r"^shoal \((\S+)\) \S+;", rf"shoal (\1+deb{SUITES[suite]}) {suite};", log.read_text(encoding="utf-8"), count=1),
                       encoding="utf-8")


def build_lines(jobs):
    """What builds, in the tree; the results lie beside it. The environment is dpkg's alone."""
    return (f'profile=$({{ {CUDA}; }} && echo -Ppkg.shoal.cuda || true); export DEB_BUILD_OPTIONS="parallel={jobs} nocheck"; '
            "dpkg-buildpackage -b -us -uc $profile")


def take(folder, out):
    """The results, and no others, in `out`."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for path in sorted(folder.glob("*.*deb")) + sorted(folder.glob("*.changes")) + sorted(folder.glob("*.buildinfo")):
        shutil.copy(path, out)
    print(out, flush=True)


def packages_later(folder):
    """The packages in a folder become those of a later version, with the same contents."""
    for deb in sorted(set(folder.glob("*.deb")) - set(folder.glob("*-dbgsym_*"))):
        with tempfile.TemporaryDirectory(dir=folder) as space:
            run("dpkg-deb", "-R", deb, space)
            control = pathlib.Path(space) / "DEBIAN/control"
            text = control.read_text(encoding="utf-8")
            version = re.search(r"^Version: (\S+)$", text, re.M)[1]
            control.write_text(text.replace(version, version + LATER), encoding="utf-8")
            run("dpkg-deb", "--root-owner-group", "-z1", "-b", space, folder / deb.name.replace(version, version + LATER), stdout=subprocess.DEVNULL)
        deb.unlink()


def build_suite(roots, suite, out, tree=TREE, jobs=os.cpu_count()):
    """In a layer over a bare Debian; tree: where in it this tree lies."""
    debian(roots / suite, suite)
    with layer(roots / suite) as root:
        tree_put(root, tree)
        debian_put(root / tree, suite)
        log = roots / f"{suite}-package.log"
        with open(log, "w", encoding="utf-8") as said:
            for what, line in (("build dependencies", "apt-get update -q && apt-get install -q -y --no-install-recommends build-essential fakeroot && "
                                f"cd /{tree} && apt-get build-dep -q -y --no-install-recommends ."),
                               ("dpkg-buildpackage", f"cd /{tree} && {build_lines(jobs)}")):
                say(suite, what)
                status = inside(root, line, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, check=False).returncode
                if status:
                    print(*log.read_text(errors="replace").splitlines()[-40:], sep="\n  ", file=sys.stderr)
                    sys.exit(f"package: {suite}: {what}: exit status {status}; {log}")
        take((root / tree).parent, out)


def suite_here():
    words = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if "=" in line)
    return words.get("VERSION_CODENAME", "").strip('"')


def build_here(out, jobs=os.cpu_count()):
    suite = suite_here()
    if suite not in SUITES or shutil.which("dpkg-buildpackage") is None:
        print(f"package: skipped: this is no Debian of {', '.join(SUITES)} with dpkg-dev: '{suite}'", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="shoal-package-") as space:
        tree = pathlib.Path(space) / "shoal"
        tree_put(pathlib.Path(space), "shoal")
        debian_put(tree, suite)
        lack = subprocess.run(["dpkg-checkbuilddeps"], cwd=tree, capture_output=True, text=True, check=False)
        if lack.returncode:
            print("package: skipped:", lack.stderr.strip(), file=sys.stderr)
            return 77
        run("sh", "-ec", build_lines(jobs), cwd=tree, stdout=sys.stderr)
        take(tree.parent, out / suite)
    return 0
