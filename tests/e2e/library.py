"""library: programs in C over libshoal: compiled as a user does it, against what `cmake --install` puts down."""
from fleet import *

HERE = pathlib.Path(__file__).resolve().parent


def installed(space):
    """The library and its header, installed below a folder of its own."""
    root = space / "root"
    if not root.exists():
        got = subprocess.run(["cmake", "--install", BIN.parent], env={**os.environ, "DESTDIR": str(root)}, capture_output=True, text=True,
                             check=False)
        assert got.returncode == 0, got.stderr
    return root


def compiled(space, name, compiler=("cc", "-std=c11"), flags=("-Wall", "-Wextra", "-Wpedantic", "-Werror")):
    """The program of tests/e2e/NAME.c."""
    root = installed(space)
    pkg = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(root), "PKG_CONFIG_PATH": str(next(root.rglob("shoal.pc")).parent)}
    got = subprocess.run(["pkg-config", "--cflags", "--libs", "shoal"], env=pkg, capture_output=True, text=True, check=False)
    assert got.returncode == 0, got.stderr
    library = next(root.rglob("libshoal.so.1")).parent
    made = subprocess.run([*compiler, *flags, "-o", space / name, HERE / f"{name}.c", *got.stdout.split(), f"-Wl,-rpath,{library}"], capture_output=True,
                          text=True, check=False)
    assert made.returncode == 0, made.stderr
    return space / name
