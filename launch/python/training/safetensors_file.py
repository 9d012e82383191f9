"""safetensors files with numpy only: an 8-byte length, a JSON header (name -> dtype, shape, data_offsets), the tensors' bytes."""
import json
import os
import pathlib

import numpy

from common.files import part_of
from common.problem import Problem

TYPES = {'F16': numpy.dtype('<f2'), 'F32': numpy.dtype('<f4'), 'I32': numpy.dtype('<i4'), 'I64': numpy.dtype('<i8'),
         'BOOL': numpy.dtype('?'), 'BF16': numpy.dtype('<u2')}
MOST_HEADER_BYTES = 100 << 20


def read(path):
    """(tensors by name, memory-mapped and read-only; metadata). BF16 is converted to float32 in memory. Raises Problem (2) naming file and
    cause."""
    try:
        data = numpy.memmap(path, dtype=numpy.uint8, mode='r')
    except (OSError, ValueError) as error:
        raise Problem(f'{path} cannot be read ({getattr(error, "strerror", None) or error}); give a safetensors file', 2) from None
    if bytes(data[8:9]) != b'{':
        raise Problem(f'{path} is no safetensors file; give one', 2)
    try:
        length = int(data[:8].view('<u8')[0])
        if length > min(len(data) - 8, MOST_HEADER_BYTES):
            raise ValueError('the header is longer than the file')
        header = json.loads(bytes(data[8:8 + length]))
        metadata = header.pop('__metadata__', {})
        if not all(isinstance(text, str) for text in dict(metadata).values()):
            raise ValueError('its metadata are no texts')
        return {name: tensor(data[8 + length:], entry) for name, entry in header.items()}, metadata
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        why = f' ({error})' if type(error) is ValueError else ''  # other errors are in Python's words
        raise Problem(f'{path} is not a complete safetensors file{why}; write it again', 2) from None


def tensor(data, entry):
    begin, end = entry['data_offsets']
    kind = TYPES[entry['dtype']]
    if not 0 <= begin <= end <= len(data) or (end - begin) != kind.itemsize * numpy.prod(entry['shape'], dtype=numpy.int64):
        raise ValueError('a tensor does not fit the file')
    values = numpy.frombuffer(data[begin:end], dtype=kind).reshape(entry['shape'])
    return (values.astype('<u4') << 16).view('<f4') if entry['dtype'] == 'BF16' else values


def write(path, tensors, metadata):
    """Writes numpy arrays (F16, F32, I32, I64, BOOL), completely or not at all. The data begin at a multiple of 64 bytes."""
    names = {numpy.dtype(kind): name for name, kind in TYPES.items() if name != 'BF16'}
    header, at = {'__metadata__': {key: str(value) for key, value in metadata.items()}}, 0
    for name, values in tensors.items():
        header[name] = {'dtype': names[values.dtype], 'shape': list(values.shape), 'data_offsets': [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b' ' * (-(len(text) + 8) % 64)
    new = pathlib.Path(part_of(path))
    try:
        with open(new, 'wb') as file:
            file.write(len(text).to_bytes(8, 'little') + text)
            for values in tensors.values():
                file.write(numpy.ascontiguousarray(values).tobytes())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
