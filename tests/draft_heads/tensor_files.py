"""Reads and writes tensors in safetensors and GGUF files with numpy."""
import json
import struct

import numpy as np


def read_safetensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    types = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "I64": np.int64}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[8 + length + begin:8 + length + end], dtype=types[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = array.astype(np.float32) if entry["dtype"] in ("F16", "F32") else array
    return tensors


def write_safetensors(path, tensors):
    names = {np.dtype(np.float16): "F16", np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            out.write(np.ascontiguousarray(array).tobytes())


def write_gguf(path, tensors, metadata):
    """metadata: strings, integers, bools, floats and lists of integers."""

    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<IB", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, float):
            return struct.pack("<If", 6, v)
        if isinstance(v, list):
            return struct.pack("<IIQ", 9, 4, len(v)) + struct.pack(f"<{len(v)}I", *v)
        return struct.pack("<I", 8) + text(v)

    kinds = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int64): 27}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, v in metadata.items():
        head += text(key) + value(v)
    data = b""
    for name, array in tensors.items():
        head += text(name) + struct.pack("<I", array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape[::-1])
        head += struct.pack("<IQ", kinds[array.dtype], len(data))
        data += np.ascontiguousarray(array).tobytes()
        data += b"\0" * (-len(data) % 32)
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32) + data)


class Gguf:
    """The tensors and metadata of a GGUF file with F32, F16 and Q8_0 tensors."""

    def __init__(self, path):
        self.data, self.at = open(path, "rb").read(), 4
        self.take("<I")
        tensors, pairs = self.take("<Q"), self.take("<Q")
        self.metadata = {self.text(): self.value(self.take("<I")) for _ in range(pairs)}
        entries = []
        for _ in range(tensors):
            name = self.text()
            shape = [self.take("<Q") for _ in range(self.take("<I"))]
            entries.append((name, shape, self.take("<I"), self.take("<Q")))
        base = -(-self.at // 32) * 32
        self.tensors = {name: self.floats(base + offset, shape, kind) for name, shape, kind, offset in entries}

    def take(self, layout):
        value = struct.unpack_from(layout, self.data, self.at)[0]
        self.at += struct.calcsize(layout)
        return value

    def text(self):
        length = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8", "replace")

    def value(self, kind):
        plain = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("<I"), self.take("<Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(plain[kind])

    def floats(self, at, shape, kind):
        count = int(np.prod(shape))
        if kind == 0:
            array = np.frombuffer(self.data, np.float32, count, at)
        elif kind == 1:
            array = np.frombuffer(self.data, np.float16, count, at).astype(np.float32)
        else:
            assert kind == 8
            blocks = np.frombuffer(self.data, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32, at)
            array = (blocks["d"].astype(np.float32)[:, None] * blocks["q"].astype(np.float32)).reshape(-1)
        return array.reshape(shape[::-1])
