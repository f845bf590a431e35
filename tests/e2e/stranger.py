"""stranger: a peer of the daemons that knows the wire and keeps to nothing: ZMTP 3.0 (NULL) over a stream socket, headers by
tests/wire/fields.txt. Reads only what it asked for."""
import itertools
import pathlib
import re
import socket
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {name: int(number) for name, number in re.findall(r"X\((\w+), (\d+), \d, \d\)", (ROOT / "proto/wire/wire.h").read_text())}
FIELDS = {}
for line in (ROOT / "tests/wire/fields.txt").read_text().splitlines():
    if match := re.match(r"(\w+)\.(\w+)=(\d+) (\w+)", line):
        FIELDS.setdefault(match[1], []).append((match[2], int(match[3]), match[4]))
VERSION = int(re.search(r"define WIRE_VERSION (\d+)u", (ROOT / "proto/wire/wire.h").read_text())[1])
WIRE_KIND = {"float": 5, "double": 1, "string": 2, "bytes": 2}


def varint(n):
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def packed(message, /, **values):
    """A protobuf message; fields that are not given are 0 or empty."""
    out = bytearray()
    for name, number, kind in FIELDS.get(message, []):
        value = values.pop(name, b"" if WIRE_KIND.get(kind) == 2 else 0)
        out += varint(number << 3 | WIRE_KIND.get(kind, 0))
        if WIRE_KIND.get(kind) == 2:
            text = value.encode() if isinstance(value, str) else value
            out += varint(len(text)) + text
        elif kind in ("float", "double"):
            out += struct.pack("<f" if kind == "float" else "<d", value)
        else:
            out += varint((value << 1 ^ value >> 31) & 0xffffffff if kind == "sint32" else int(value))
    assert not values, (message, values)
    return bytes(out)


def unpacked(message, data):
    names = {number: (name, kind) for name, number, kind in FIELDS.get(message, [])}
    out, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = number()
        name, kind = names[tag >> 3]
        if tag & 7 == 2:
            length = number()
            out[name] = bytes(data[at:at + length])
            at += length
        elif tag & 7:
            size = {5: 4, 1: 8}[tag & 7]
            out[name] = struct.unpack_from("<f" if size == 4 else "<d", data, at)[0]
            at += size
        else:
            value = number()
            out[name] = value >> 1 ^ -(value & 1) if kind == "sint32" else value
    return out


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


class Refused(Exception):
    """The daemon answered with a status."""


class Stranger:
    """One connection to tcp://HOST:PORT or ipc://PATH; identity: the routing id that it asks for."""

    def __init__(self, endpoint, timeout=30, identity=b""):
        scheme, rest = endpoint.split("://")
        if scheme == "ipc":
            self.s = socket.socket(socket.AF_UNIX)
            self.s.settimeout(timeout)
            self.s.connect(rest)
        else:
            host, port = rest.rsplit(":", 1)
            self.s = socket.create_connection((host, int(port)), timeout)
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ids = itertools.count(1)
        self.s.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31))
        self.exactly(64)
        ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
        if identity:
            ready += b"\x08Identity" + struct.pack(">I", len(identity)) + identity
        self.s.sendall(b"\x04" + bytes([len(ready)]) + ready)
        self.frame()

    def exactly(self, count):
        out = bytearray()
        while len(out) < count:
            part = self.s.recv(count - len(out))
            if not part:
                raise ConnectionError("closed by the daemon")
            out += part
        return bytes(out)

    def frame(self):
        """(more, bytes) of the next frame that is no command, or the first command."""
        flags = self.exactly(1)[0]
        length = struct.unpack(">Q", self.exactly(8))[0] if flags & 2 else self.exactly(1)[0]
        return bool(flags & 1), self.exactly(length)

    def send_frame(self, data, more):
        head = bytes([2 | more]) + struct.pack(">Q", len(data)) if len(data) > 255 else bytes([int(more), len(data)])
        self.s.sendall(head + data)

    def send(self, message, /, *frames, number=None, **values):
        """Sends a request; its id."""
        number = next(self.ids) if number is None else number
        header = packed("Header", version=VERSION, type=TYPES[message], id=number, body=packed(camel(message), **values))
        every = [header, *frames]
        for i, data in enumerate(every):
            self.send_frame(bytes(data), i + 1 < len(every))
        return number

    def answer(self):
        """The next message: header, reply's fields, frames."""
        frames, more = [], True
        while more:
            more, data = self.frame()
            frames.append(data)
        header = unpacked("Header", frames[0])
        name = next(n for n, t in TYPES.items() if t == header["type"])
        fields = unpacked(camel(name) + "Reply", header["body"]) if header["status"] == 0 else {}
        return header, fields, frames[1:]

    def ask(self, message, /, *frames, **values):
        """The answer to one request; Refused with what the daemon says."""
        number = self.send(message, *frames, **values)
        while True:
            header, fields, rest = self.answer()
            if header["id"] == number:
                break
        if header["status"] != 0:
            raise Refused(f"{header['status']}: {header['error'].decode()}")
        return fields, rest

    def close(self):
        self.s.close()


MASK = (1 << 64) - 1


def key_unmix(x):
    """The inverse of proto/base/key.h's key_mix (Murmur3's finalizer)."""
    x ^= x >> 33
    x = x * pow(0xc4ceb9fe1a85ec53, -1, 1 << 64) & MASK
    x ^= x >> 33
    x = x * pow(0xff51afd7ed558ccd, -1, 1 << 64) & MASK
    return x ^ x >> 33


def tablet_of(key, bits):
    """Returns the tablet of a key among 2^bits (proto/base/key.h)."""
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        key = (key ^ key >> 33) * factor & MASK
    return (key ^ key >> 33) >> 64 - bits


def key_of_tablet(tablet, bits):
    """Returns a key of the first field that lies in a tablet."""
    return next(key for key in itertools.count(1) if tablet_of(key, bits) == tablet)
