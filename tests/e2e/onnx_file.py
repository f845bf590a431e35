"""onnx_file: a reader and an evaluator of ONNX files, by ONNX's documents alone (onnx.proto3, docs/Operators.md, operator set 13), in Python and double
precision. It knows the operators that `shoal export --onnx` may write, and refuses others."""
import array
import itertools
import math
import pathlib
import struct

# ---- protobuf -------------------------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """(number, value) of each field of a message: an int, the bytes of a 32-bit number, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield number, signed(value)
            continue
        assert kind in (2, 5), (number, kind)
        size, at = varint(data, at) if kind == 2 else (4, at)
        assert at + size <= len(data), (number, size)
        yield number, data[at:at + size]
        at += size


def message(data, **known):
    """The fields of a message by name, as lists. known: name=number; a field of another number is one that no writer of ours sets."""
    found, names = {name: [] for name in known}, {number: name for name, number in known.items()}
    for number, value in fields(data):
        found[names[number]].append(value)
    return found


def text(values):
    [one] = values or [b""]
    return one.decode()


# ---- the file -------------------------------------------------------------------------------------------------------


class Tensor:
    """Numbers in C order."""

    def __init__(self, shape, data):
        self.shape, self.data = tuple(shape), list(data)
        assert len(self.data) == math.prod(self.shape), (self.shape, len(self.data))

    def __eq__(self, other):
        return (self.shape, self.data) == (other.shape, other.data)


def tensor_of(data):
    m = message(data, dims=1, type=2, name=8, raw=9)
    [raw], [kind] = m["raw"], m["type"]
    return text(m["name"]), Tensor(m["dims"], array.array({1: "f", 7: "q"}[kind], raw))


def attribute_of(data):
    m = message(data, name=1, f=2, i=3, ints=8, type=20)
    kind = m["type"][0]
    if kind == 1:
        return text(m["name"]), struct.unpack("<f", m["f"][0])[0]
    return text(m["name"]), {2: lambda: m["i"][0], 7: lambda: tuple(m["ints"])}[kind]()


def info_of(data):
    """Name, dimensions (numbers or names) and words of an input or output; all are of floats."""
    m = message(data, name=1, type=2, doc=3)
    [kind] = message(m["type"][0], tensor=1)["tensor"]
    kind = message(kind, elem=1, shape=2)
    assert kind["elem"] == [1], kind
    dims = [message(d, value=1, name=2) for d in message(kind["shape"][0], dim=1)["dim"]]
    return text(m["name"]), tuple(d["value"][0] if d["value"] else text(d["name"]) for d in dims), text(m["doc"])


class Node:
    def __init__(self, data):
        m = message(data, input=1, output=2, name=3, op=4, attribute=5)
        self.ins, self.outs = ([name.decode() for name in m[part]] for part in ("input", "output"))
        self.op, self.attributes = text(m["op"]), dict(map(attribute_of, m["attribute"]))


class Model:
    def __init__(self, path):
        m = message(pathlib.Path(path).read_bytes(), ir=1, producer=2, version=3, doc=6, graph=7, opset=8, notes=14)
        assert m["ir"] == [7] and text(m["producer"]) == "shoal", m["ir"]
        [opset] = [message(o, domain=1, version=2) for o in m["opset"]]
        assert text(opset["domain"]) == "" and opset["version"] == [13], opset
        self.doc, self.version = text(m["doc"]), text(m["version"])
        pairs = [message(n, key=1, value=2) for n in m["notes"]]
        self.notes = {text(p["key"]): text(p["value"]) for p in pairs}
        g = message(m["graph"][0], node=1, name=2, weight=5, doc=10, input=11, output=12)
        self.name = text(g["name"])
        self.nodes, self.weights = [Node(n) for n in g["node"]], dict(map(tensor_of, g["weight"]))
        self.inputs = {name: dims for name, dims, _ in map(info_of, g["input"])}
        self.about = {name: doc for name, _, doc in map(info_of, g["input"])}
        self.outputs = {name: dims for name, dims, _ in map(info_of, g["output"])}
        assert len(self.weights) == len(g["weight"]) and len(self.inputs) == len(g["input"])
        self.check()

    def check(self):
        """Each name is made once, before it is read; each input, weight and node is used."""
        made, read = [*self.inputs, *self.weights], set(self.outputs)
        for node in self.nodes:
            assert set(node.ins) <= set(made), (node.op, node.ins)
            made += node.outs
            read |= set(node.ins)
        assert len(made) == len(set(made)) and all(made), made
        unread = set(made) - read
        assert not unread, unread

    def run(self, fed):
        """The outputs for these inputs, {name: Tensor}."""
        assert sorted(fed) == sorted(self.inputs), (sorted(fed), sorted(self.inputs))
        bound = {}
        for name, dims in self.inputs.items():
            assert len(dims) == len(fed[name].shape), (name, dims, fed[name].shape)
            for dim, size in zip(dims, fed[name].shape, strict=True):
                assert bound.setdefault(dim, size) == size if isinstance(dim, str) else dim == size, (name, dims, fed[name].shape)
        values = {**self.weights, **fed}
        for node in self.nodes:
            made = OPERATORS[node.op](*(values[name] for name in node.ins), **node.attributes)
            made = made if isinstance(made, tuple) else (made,)
            values.update(zip(node.outs, made, strict=True))
        return {name: values[name] for name in self.outputs}


# ---- operators ------------------------------------------------------------------------------------------------------


def steps(shape):
    """How far apart neighbours of each dimension lie."""
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def places(shape):
    return itertools.product(*map(range, shape))


def broadcast(shapes):
    width = max(map(len, shapes))
    padded = [(1,) * (width - len(s)) + tuple(s) for s in shapes]
    whole = tuple(max(dims) if min(dims) > 0 else 0 for dims in zip(*padded, strict=True))
    assert all(d in (1, w) for s in padded for d, w in zip(s, whole, strict=True)), shapes
    return whole


def spread(x, shape):
    """The numbers of x over a larger shape."""
    if x.shape == tuple(shape):
        return x.data
    own = (1,) * (len(shape) - len(x.shape)) + x.shape
    step = [0 if d == 1 else s for d, s in zip(own, steps(own), strict=True)]
    return [x.data[sum(p * s for p, s in zip(place, step, strict=True))] for place in places(shape)]


def each(f):
    def op(*xs):
        shape = broadcast([x.shape for x in xs])
        return Tensor(shape, [f(*v) for v in zip(*(spread(x, shape) for x in xs), strict=True)])
    return op


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def transpose(x, perm):
    step = steps(x.shape)
    shape = [x.shape[p] for p in perm]
    return Tensor(shape, [x.data[sum(i * step[p] for i, p in zip(place, perm, strict=True))] for place in places(shape)])


def matmul(a, b):
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    assert b.shape[-2] == inner, (a.shape, b.shape)
    outer = broadcast([a.shape[:-2], b.shape[:-2]])
    at_a, at_b = (spread(Tensor(x.shape[:-2], range(math.prod(x.shape[:-2]))), outer) for x in (a, b))
    out = []
    for i, k in zip(at_a, at_b, strict=True):
        right = b.data[k * inner * columns:(k + 1) * inner * columns]
        by_column = [right[c::columns] for c in range(columns)]
        for r in range(rows):
            left = a.data[(i * rows + r) * inner:(i * rows + r + 1) * inner]
            out += [math.sumprod(left, c) if hasattr(math, "sumprod") else sum(x * y for x, y in zip(left, c, strict=True)) for c in by_column]
    return Tensor((*outer, rows, columns), out)


def gemm(a, b, c=None, transB=0):
    y = matmul(a, transpose(b, (1, 0)) if transB else b)
    return y if c is None else each(lambda x, z: x + z)(y, c)


def concat(*xs, axis):
    axis %= len(xs[0].shape)
    outer = math.prod(xs[0].shape[:axis])
    assert all(x.shape[:axis] == xs[0].shape[:axis] and x.shape[axis + 1:] == xs[0].shape[axis + 1:] for x in xs), [x.shape for x in xs]
    size = [math.prod(x.shape[axis:]) for x in xs]
    data = [v for o in range(outer) for x, n in zip(xs, size, strict=True) for v in x.data[o * n:(o + 1) * n]]
    return Tensor((*xs[0].shape[:axis], sum(x.shape[axis] for x in xs), *xs[0].shape[axis + 1:]), data)


def taken(x, axis, at):
    """The entries `at` of an axis."""
    axis %= len(x.shape)
    outer, inner, n = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1:]), x.shape[axis]
    data = [v for o in range(outer) for i in at for v in x.data[(o * n + i) * inner:(o * n + i + 1) * inner]]
    return Tensor((*x.shape[:axis], len(at), *x.shape[axis + 1:]), data)


def cut(x, starts, ends, axes):
    for start, end, axis in zip(starts.data, ends.data, axes.data, strict=True):
        x = taken(x, axis, range(x.shape[axis])[start:end])
    return x


def reshape(x, shape):
    dims = [x.shape[i] if d == 0 else d for i, d in enumerate(shape.data)]
    if -1 in dims:
        dims[dims.index(-1)] = len(x.data) // -math.prod(dims)
    return Tensor(dims, x.data)


def along(x, axis, f):
    """f of the numbers along an axis, which gives as many as it likes."""
    axis %= len(x.shape)
    inner, n = math.prod(x.shape[axis + 1:]), x.shape[axis]
    made = [[f(x.data[o * n * inner + i:(o + 1) * n * inner:inner]) for i in range(inner)] for o in range(math.prod(x.shape[:axis]))]
    length = len(f([0.0] * n))
    return Tensor((*x.shape[:axis], length, *x.shape[axis + 1:]), [column[k] for row in made for k in range(length) for column in row])


def softmax(x, axis):
    def shares(v):
        power = [math.exp(z - max(v)) for z in v]
        return [p / sum(power) for p in power]
    return along(x, axis, shares)


def reduced(x, axis, keepdims, f):
    y = along(x, axis, lambda v: [f(v)])
    axis %= len(x.shape)
    return y if keepdims else Tensor((*x.shape[:axis], *x.shape[axis + 1:]), y.data)


def reduce_sum(x, axes, keepdims=1):
    [axis] = axes.data
    return reduced(x, axis, keepdims, sum)


def reduce_mean(x, axes, keepdims=1):
    [axis] = axes
    return reduced(x, axis, keepdims, lambda v: sum(v) / len(v))


def top_k(x, k, axis):
    [count] = k.data

    def order(v):  # of equal numbers that of the lower index comes first
        return sorted(range(len(v)), key=lambda i: (-v[i], i))[:count]
    return along(x, axis, lambda v: [v[i] for i in order(v)]), along(x, axis, order)


def scatter(x, at, new, axis):
    out, step = list(x.data), steps(x.shape)
    for place, index, value in zip(places(at.shape), at.data, new.data, strict=True):
        to = [*place]
        to[axis] = index
        out[sum(i * s for i, s in zip(to, step, strict=True))] = value
    return Tensor(x.shape, out)


def batch_norm(x, scale, bias, mean, variance, epsilon):
    width = x.shape[1]
    factor = [s / math.sqrt(v + epsilon) for s, v in zip(scale.data, variance.data, strict=True)]
    assert all(v >= 0 for v in variance.data)
    return Tensor(x.shape, [(v - mean.data[i % width]) * factor[i % width] + bias.data[i % width] for i, v in enumerate(x.data)])


OPERATORS = {
    "Add": each(lambda x, y: x + y), "Sub": each(lambda x, y: x - y), "Mul": each(lambda x, y: x * y), "Div": each(lambda x, y: x / y),
    "Sum": each(lambda *x: sum(x)), "Relu": each(lambda x: max(x, 0.0)), "Tanh": each(math.tanh), "Sigmoid": each(sigmoid), "Sqrt": each(math.sqrt),
    "MatMul": matmul, "Gemm": gemm, "Concat": concat, "Slice": cut, "Reshape": reshape, "Transpose": transpose, "Softmax": softmax,
    "ReduceSum": reduce_sum, "ReduceMean": reduce_mean, "Gather": lambda x, at, axis: taken(x, axis, at.data),
    "Shape": lambda x: Tensor((len(x.shape),), x.shape), "Expand": lambda x, s: Tensor(broadcast([x.shape, s.data]), spread(x, broadcast([x.shape, s.data]))),
    "ConstantOfShape": lambda s: Tensor(s.data, [0.0] * math.prod(s.data)), "TopK": top_k, "ScatterElements": scatter, "BatchNormalization": batch_norm,
}
