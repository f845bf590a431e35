"""exports: readers of what `shoal export` writes, by the documents of the formats and deploy/manual/export.md alone: numpy's npy (NEP 1), safetensors
(github.com/huggingface/safetensors, "Format"), tsv and csv. Values are bits: an array is its dtype, its shape and its bytes."""
import array
import ast
import csv
import json
import pathlib
import struct
import urllib.parse

BYTES = {"U64": 8, "U32": 4, "F32": 4, "F16": 2, "BF16": 2}
NPY = {"<u8": "U64", "<u4": "U32", "<f4": "F32", "<f2": "F16"}
CODE = {"U64": "Q", "U32": "I", "F32": "f", "F16": "H", "BF16": "H"}  # 16 bits as they are


class Array:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), data
        count = 1
        for n in self.shape:
            count *= n
        assert len(data) == count * BYTES[dtype], (dtype, shape, len(data))

    def __eq__(self, other):
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    def rows(self):
        """The bytes of each row."""
        size = len(self.data) // self.shape[0] if self.shape[0] else 0
        return [self.data[i * size:(i + 1) * size] for i in range(self.shape[0])]

    def values(self):
        """As Python's numbers."""
        found = array.array(CODE[self.dtype], self.data)
        assert found.itemsize == BYTES[self.dtype]
        if self.dtype == "F16":
            return [x[0] for x in struct.iter_unpack("<e", self.data)]
        if self.dtype == "BF16":
            return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in found]
        return list(found)


def npy(path):
    data = pathlib.Path(path).read_bytes()
    magic, major, minor, length = struct.unpack("<6sBBH", data[:10])
    assert magic == b"\x93NUMPY" and (major, minor) == (1, 0) and (10 + length) % 64 == 0, data[:10]
    head = data[10:10 + length].decode("latin1")
    assert head.endswith("\n"), head
    told = ast.literal_eval(head)
    assert sorted(told) == ["descr", "fortran_order", "shape"] and told["fortran_order"] is False, told
    return Array(NPY[told["descr"]], told["shape"], data[10 + length:])


def each_once(pairs):
    """An object of JSON, in which the format forbids a name twice."""
    assert len(dict(pairs)) == len(pairs), [name for name, _ in pairs]
    return dict(pairs)


def safetensors_file(path):
    """One file's arrays and metadata; every rule of the format is checked."""
    data = pathlib.Path(path).read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    assert length <= 100_000_000 and length % 8 == 0 and data[8:9] == b"{", length
    header = json.loads(data[8:8 + length], object_pairs_hook=each_once)
    about, end, found = header.pop("__metadata__", {}), 0, {}
    assert all(isinstance(v, str) for v in about.values()), about
    for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = told["data_offsets"]
        assert begin == end and begin % BYTES[told["dtype"]] == 0, (name, told, end)  # no hole, aligned
        found[name] = Array(told["dtype"], told["shape"], data[8 + length + begin:8 + length + stop])
        end = stop
    assert 8 + length + end == len(data), (length, end, len(data))
    return found, about


def safetensors(folder):
    """All arrays of a folder, those of several files by its index; pieces of a table are joined."""
    folder, found = pathlib.Path(folder), {}
    index = folder / "model.safetensors.index.json"
    files = [folder / "model.safetensors"]
    if index.exists():
        told = json.loads(index.read_text())
        files = sorted({folder / name for name in told["weight_map"].values()})
        assert not (folder / "model.safetensors").exists() and len(files) > 1, files
    for file in files:
        arrays, about = safetensors_file(file)
        assert about["shoal_export"] == "1", about
        if index.exists():
            assert sorted(arrays) == sorted(k for k, v in told["weight_map"].items() if v == file.name), file
        found.update(arrays)
    if index.exists():
        assert told["metadata"]["total_size"] == sum(len(a.data) for a in found.values()) and len(found) == len(told["weight_map"])
    whole = {}
    for name in sorted(found):
        base, _, piece = name.rpartition(".")
        if not (piece.isdigit() and len(piece) == 5):
            whole[name] = found[name]
        elif base in whole:
            whole[base] = Array(found[name].dtype, [whole[base].shape[0] + found[name].shape[0], *whole[base].shape[1:]], whole[base].data + found[name].data)
        else:
            whole[base] = found[name]
    return whole


def told_of(folder):
    return json.loads((pathlib.Path(folder) / "export.json").read_text())


def lines(path):
    """The names and the cells of a tsv or csv."""
    with open(path, newline="", encoding="utf-8") as f:
        names, *cells = csv.reader(f, delimiter="," if str(path).endswith(".csv") else "\t")
    return names, cells


def single(text):
    return struct.pack("<f", float(text))


def text_arrays(folder):
    """The arrays of a tsv or csv: a table's weights are TABLE.weights, first-order ones first; of tensors only the elements, {name: (values, states)}."""
    folder, found, tensors = pathlib.Path(folder), {}, {}
    told = told_of(folder)
    for path in sorted(folder.glob(f"*.{told['format']}")):
        table, (names, cells) = urllib.parse.unquote(path.stem), lines(path)
        if names[0] == "tensor":
            for name, index, *numbers in cells:
                values = tensors.setdefault(f"{table}.{urllib.parse.unquote(name)}", [])
                assert int(index) == len(values), (name, index)
                values.append([single(x) for x in numbers])
            continue
        found[f"{table}.keys"] = Array("U64", [len(cells)], b"".join(struct.pack("<Q", int(c[0], 16)) for c in cells))
        assert all(int(c[1]) == int(c[0], 16) >> 48 for c in cells)
        for kind, column in (("w", "weights"), ("s", "state")):
            at = [i for i, n in enumerate(names) if n[0] == kind and n[1:].isdigit()]
            assert [names[i] for i in at] == [f"{kind}{k}" for k in range(len(at))], names
            if at:
                found[f"{table}.{column}"] = Array("F32", [len(cells), len(at)], b"".join(single(c[i]) for c in cells for i in at))
        for column in ("show", "click", "time", "flags", "delta_score"):
            if column in names:
                i, whole = names.index(column), column in ("time", "flags")
                found[f"{table}.{column}"] = Array("U32" if whole else "F32", [len(cells)], b"".join(struct.pack("<I", int(c[i])) if whole else single(c[i]) for c in cells))
    return found, tensors


def arrays_of(folder):
    """Every array of an export of npy or safetensors, by name. All that export.json names is there, as it says, and nothing else."""
    folder, told = pathlib.Path(folder), told_of(folder)
    named = [a for t in (*told["tables"], *told["tensors"]) for a in t["arrays"]]
    if told["format"] == "npy":
        found = {a["name"]: npy(folder / a["file"]) for a in named}
        others = ["export.json", *([told["onnx"]] if "onnx" in told else [])]
        assert sorted(p.name for p in folder.iterdir()) == sorted([*(a["file"] for a in named), *others])
    else:
        found = safetensors(folder)
    whole = {}
    for a in named:  # a piece is part of its array
        base, _, piece = a["name"].rpartition(".")
        name = base if piece.isdigit() and len(piece) == 5 else a["name"]
        rows = whole[name][0] if name in whole else 0
        whole[name] = (rows + a["shape"][0], a["dtype"], a["shape"][1:])
    assert {n: (a.shape[0], a.dtype, a.shape[1:]) for n, a in found.items()} == whole, (whole, sorted(found))
    return found


def rows_of(folder):
    """{table: {key: the bytes of all its columns but the key}} of any format."""
    folder, told, found = pathlib.Path(folder), told_of(folder), {}
    if told["format"] in ("tsv", "csv"):
        for table in told["tables"]:
            names, cells = lines(folder / table["arrays"][0]["file"])
            found[table["name"]] = {int(c[0], 16): tuple(c[1:]) for c in cells}
        return found
    arrays = arrays_of(folder)
    for table in told["tables"]:
        name = table["name"]
        columns = [arrays[f"{name}.{c}"].rows() for c in ("first", "vectors", "state", "show", "click", "time", "flags", "delta_score") if f"{name}.{c}" in arrays]
        found[name] = dict(zip(arrays[f"{name}.keys"].values(), zip(*columns, strict=True), strict=True))
    return found


def erased_of(folder):
    """{table: its keys that are erased}."""
    folder, told, found = pathlib.Path(folder), told_of(folder), {}
    arrays = arrays_of(folder) if told["format"] in ("npy", "safetensors") else None
    for table in told["tables"]:
        name = table["name"]
        if arrays is not None:
            found[name] = arrays[f"{name}.erased"].values()
        else:
            found[name] = [int(c[0], 16) for c in lines(folder / table["arrays"][1]["file"])[1]]
        assert len(found[name]) == table["erased"]
    return found


def mixed(key, all_bits=(1 << 64) - 1):
    """key_mix of proto/base/key.h, whose order the rows have."""
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        key ^= key >> 33
        key = key * factor & all_bits
    return key ^ key >> 33
