#!/usr/bin/env python3
"""test_abi: libshoal.so.1 keeps its promise to programs that were compiled against an older shoal.h.

abi/symbols and abi/layout are the record: each name that was ever exported with its version, each member that a public struct ever had with its place, each
constant with its value. The library and the header may have more, and nothing may be gone or elsewhere. SHOAL_WRITE_ABI=1 adds to the record what is new.
abi/shoal-1.0.h is the header of the first release: a program compiled against it (abi/program.c) runs with the library."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BIN = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build/release/bin")).resolve()
HEADER, LIBRARY, ABI = ROOT / "worker/lib/shoal.h", BIN / "libshoal.so.1", HERE / "abi"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
JOB = """job: abi
data: {format: csv, train: [a.csv], label: y}
tables: [{name: emb, dim: 4}]
model: {kind: external}
train: {batch: 16}
"""


class Failed(Exception):
    pass


def check(good, text):
    if not good:
        raise Failed(text)


def output(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    check(done.returncode == 0, f"{' '.join(str(w) for w in words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# ---- what there is


def symbols(library):
    """{name: version} of the library's own symbols."""
    found = {}
    for line in output("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            name, _, version = name.partition("@@")
            found[name] = version
    return found


def declared(header):
    return set(re.findall(r"SHOAL_API[^;]*?\b(shoal_\w+)\(", header))


def members(body):
    """Names of a struct's members."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    names = []
    for line in body.split(";"):
        pointer = re.search(r"\(\*(\w+)\)\(", line)
        if pointer:
            names.append(pointer[1])
        elif line.strip():
            first, *rest = line.split(",")
            names += [re.sub(r"\[.*", "", first).split()[-1].lstrip("*")] + [re.sub(r"\[.*", "", w).strip().lstrip("*") for w in rest]
    return names


def layout(header, scratch):
    """{"struct.member": place, "enum constant": value} of a header's text."""
    lines = []
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", header, re.M | re.S):
        lines += [f'    printf("{name}.{m} %zu %zu\\n", offsetof(struct {name}, {m}), sizeof ((struct {name} *)0)->{m});' for m in members(body)]
        if members(body)[0] != "size":  # it lies in arrays, or in the caller's memory: it never grows
            lines.append(f'    printf("{name} %zu 0\\n", sizeof(struct {name}));')
    for body in re.findall(r"^enum \w+ \{(.*?)\};", header, re.M | re.S):
        lines += [f'    printf("{c} %d 0\\n", {c});' for c in re.findall(r"\b(SHOAL_\w+) =", body)]
    lines += [f'    printf("{c} %u 0\\n", (unsigned){c});' for c in re.findall(r"^#define (SHOAL_\w+) \d", header, re.M)]
    (scratch / "h.h").write_text(header, encoding="utf-8")
    (scratch / "layout.c").write_text('#include "h.h"\n#include <stdio.h>\nint main(void)\n{\n' + "\n".join(lines) + "\n}\n", encoding="utf-8")
    output("cc", "-std=c11", "-o", scratch / "layout", scratch / "layout.c")
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in output(scratch / "layout").splitlines()}


# ---- the record


def record(name):
    path = ABI / name
    return dict(line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines()) if path.exists() else {}


def lacking(was, now):
    """What differs from the record."""
    return [f"{name}: was {value}, is {now.get(name, 'gone')}" for name, value in was.items() if now.get(name) != value]


def kept(name, now):
    was = record(name)
    if os.environ.get("SHOAL_WRITE_ABI") == "1":
        text = "".join(f"{k} {v}\n" for k, v in {**now, **was}.items())
        (ABI / name).write_text(text, encoding="utf-8")
        was = record(name)
    bad = lacking(was, now)
    check(not bad, f"abi/{name}: a program of an older release would break:\n  " + "\n  ".join(bad))
    new = [k for k in now if k not in was]
    check(not new, f"abi/{name} has no record of {', '.join(new)}: run this with SHOAL_WRITE_ABI=1, and commit the record")


# ---- cases


def symbols_are_kept(scratch):
    kept("symbols", symbols(LIBRARY))


def layout_is_kept(scratch):
    kept("layout", layout(HEADER.read_text(encoding="utf-8"), scratch))


def symbols_are_the_headers(scratch):
    exported, told = set(symbols(LIBRARY)), declared(HEADER.read_text(encoding="utf-8"))
    check(exported == told, f"exported and not declared: {exported - told}; declared and not exported: {told - exported}")


def soname(scratch):
    text = output("readelf", "-d", LIBRARY)
    check("[libshoal.so.1]" in text, "the library's name is not libshoal.so.1")


def compiles(scratch, compiler, *words):
    if shutil.which(compiler) is None:
        print(f"  skipped: there is no {compiler}")
        return
    (scratch / "alone.c").write_text('#include "worker/lib/shoal.h"\nint alone(void);\nint alone(void)\n{\n    return SHOAL_OK;\n}\n', encoding="utf-8")
    output(compiler, *words, *STRICT, f"-I{ROOT}", "-c", "-o", scratch / "alone.o", scratch / "alone.c")


def alone_in_c11(scratch):
    compiles(scratch, "gcc", "-std=c11")


def alone_in_cxx17(scratch):
    compiles(scratch, "g++", "-std=c++17", "-x", "c++")


def an_old_program_runs(scratch):
    output("cc", "-std=c11", "-Wall", "-Werror", f"-I{ROOT}", "-o", scratch / "program", ABI / "program.c", f"-L{BIN}", "-lshoal")
    rows = "".join(f"{i % 2},u{i % 7},i{i % 5}\n" for i in range(100))
    (scratch / "a.csv").write_text("y,user,item\n" + rows, encoding="utf-8")
    (scratch / "job.yaml").write_text(JOB, encoding="utf-8")
    version = output(scratch / "program", "job.yaml", 100, cwd=scratch, env={**os.environ, "LD_LIBRARY_PATH": str(BIN)})
    check(re.fullmatch(r"\d+\.\d+\.\d+\n", version), version)


def a_breach_is_found(scratch):
    """Each check has a case that must fail."""
    header = HEADER.read_text(encoding="utf-8")
    was = layout(header, scratch)
    for old, new in (("    uint64_t batches, examples; /* given", "    uint64_t examples, batches; /* given"), ("SHOAL_ERROR_BUSY = 10", "SHOAL_ERROR_BUSY = 20"),
                     ("    const float *weight;", "    const float *more, *weight;"),
                     ("    uint32_t pooling; /*", "    uint32_t more, pooling; /*"), ("    uint32_t pooling;", "    uint32_t pooling, more;"), ("#define SHOAL_KEEP 1u", "#define SHOAL_KEEP 2u")):
        check(old in header, f"the header has no {old!r}")
        check(lacking(was, layout(header.replace(old, new), scratch)), f"{new!r} is not noticed")
    check(lacking({"shoal_fetch": "SHOAL_1"}, {}) and lacking({"shoal_fetch": "SHOAL_1"}, {"shoal_fetch": "SHOAL_2"}), "a symbol that is gone is not noticed")
    check(declared(header.replace("SHOAL_API int shoal_fetch(", "SHOAL_API int shoal_fetched(")) != declared(header), "a renamed function is not noticed")


CASES = (symbols_are_kept, layout_is_kept, symbols_are_the_headers, soname, alone_in_c11, alone_in_cxx17, an_old_program_runs, a_breach_is_found)


def main():
    failed = 0
    for case in CASES:
        print(case.__name__)
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(pathlib.Path(folder))
            except Failed as e:
                failed += 1
                print(f"  FAILED: {e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
