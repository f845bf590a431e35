"""records: TFRecord files of tf.Example, written and read without TensorFlow."""
import struct

TABLE = []
for i in range(256):
    value = i
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    TABLE.append(value)


def masked(data):
    """The checksum of TFRecord: CRC-32C, turned by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def part(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values):
    """A list of values of one type; a value by itself is a list of one."""
    values = values if isinstance(values, list) else [values]
    if values and isinstance(values[0], float):
        return part(2, part(1, struct.pack(f"<{len(values)}f", *values)))
    if values and isinstance(values[0], int):
        return part(3, part(1, b"".join(varint(v) for v in values)))
    return part(1, b"".join(part(1, v.encode()) for v in values))


def example(row):
    """The bytes of a tf.Example of name -> value or values; None is left out."""
    return part(1, b"".join(part(1, part(1, name.encode()) + part(2, feature(v))) for name, v in row.items() if v is not None))


def frame(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def write(path, rows):
    with open(path, "wb") as f:
        for row in rows:
            f.write(frame(example(row)))
