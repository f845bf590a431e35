"""planted.py: the planted faults of objects: compiles bad/**/linked_*.c as a build would, bad/**/circle.c as one object for each step."""
import contextlib
import json
import pathlib
import subprocess
import tempfile

from objects import CIRCLE_MOST


@contextlib.contextmanager
def build(folder):
    """A build folder with objects and a compile_commands.json; gone afterwards."""
    with tempfile.TemporaryDirectory() as made:
        entries = []

        def compile_one(source, path, *flags):
            file = pathlib.Path(made) / (path.replace("/", "_") + ".o")
            subprocess.run(["cc", "-std=c11", "-c", "-o", file, *flags, source], check=True)
            entries.append({"directory": str(folder), "file": path, "command": f"cc -o {file} -c {path}"})

        for source in sorted(folder.rglob("linked_*.c")):
            compile_one(source, source.relative_to(folder).as_posix())
        for source in sorted(folder.rglob("circle.c")):
            steps = CIRCLE_MOST + 1
            for step in range(steps):
                path = source.with_stem(f"circle_{step}").relative_to(folder).as_posix()
                compile_one(source, path, f"-DHERE=circle_{step}", f"-DNEXT=circle_{(step + 1) % steps}")
        pathlib.Path(made, "compile_commands.json").write_text(json.dumps(entries))
        yield made
