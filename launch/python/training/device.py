"""The PyTorch device of a script, and what happens if its memory is too small."""
import contextlib

import torch

from common.problem import Problem


def device_of(name):
    """Raises Problem if there is no such device."""
    try:
        one = torch.ones(1, device=name)
        one.item()  # some devices only look like one
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise Problem(f'--device {name}: {str(error).splitlines()[0]}; give cpu') from None
    if one.device.type == 'cuda':
        torch.backends.cuda.matmul.allow_tf32 = True  # float32 products with the 10 bits of TF32: many times faster
    return one.device


@contextlib.contextmanager
def enough_memory(remedy):
    """Raises Problem (2) if PyTorch finds too little memory."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if 'out of memory' not in text and 'allocate memory' not in text:
            raise
        raise Problem(f'the memory is too small; {remedy}', 2) from None
