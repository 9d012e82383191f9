"""The CUDA installation of this machine, and its GPUs."""
import os
import pathlib
import re
import shutil
import subprocess

# Jetsons whose nvidia-smi does not say what they are, or that have none: the chip in the device tree, and its compute capability.
JETSONS = {'tegra194': ('Jetson Xavier', '72'), 'tegra234': ('Jetson Orin', '87'), 'tegra264': ('Jetson Thor', '110')}
# What a build with tests needs; launch/install-packages installs it.
PROGRAMS = ('cmake', 'ninja', 'g++', 'mpirun', 'pkg-config')


def folders():
    homes = [os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda']
    return [pathlib.Path(home) for home in homes if home]


def find_program(name):
    """A program of CUDA's; None if it is not installed."""
    beside = pathlib.Path(shutil.which('nvcc') or '/').resolve().parent
    places = [beside, *(home / part for home in folders() for part in ('bin', 'compute-sanitizer', 'extras/compute-sanitizer'))]
    return shutil.which(name) or next((str(place / name) for place in places if os.access(place / name, os.X_OK)), None)


def find_nvcc():
    return find_program('nvcc')


def has_gpu():
    return any(pathlib.Path(p).exists() for p in ('/dev/nvidia0', '/dev/nvhost-gpu', '/etc/nv_tegra_release'))


def missing():
    """What is missing on this machine for building and computing on a GPU, one line each."""
    lines = []
    if lacks := [name for name in PROGRAMS if not shutil.which(name)]:
        lines.append(f'no {", ".join(lacks)}: run launch/install-packages --tests')
    if not find_nvcc():
        lines.append('no nvcc: install CUDA (a Jetson: sudo apt install nvidia-jetpack), or set CUDA_HOME')
    if not has_gpu():
        lines.append('no NVIDIA GPU: neither /dev/nvidia0 nor a Jetson; in a container, pass the GPU through (docker run --gpus all)')
    return lines


def output(*command):
    """What a program prints; empty if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ''


def jetson(compatible='/proc/device-tree/compatible'):
    """Name and compute capability of this Jetson; None on another machine."""
    try:
        words = pathlib.Path(compatible).read_bytes().decode(errors='replace')
    except OSError:
        return None
    return next((its for chip, its in JETSONS.items() if chip in words), None)


def card(device='cuda:0'):
    """The GPU's name and compute capability, without a point; 'unknown' and nothing if neither nvidia-smi nor the device tree says."""
    number = int(device.partition(':')[2] or 0)
    lines = output('nvidia-smi', '--query-gpu=name,compute_cap', '--format=csv,noheader').splitlines()
    if number < len(lines) and (found := re.fullmatch(r'(.*), *(\d+)\.(\d+)', lines[number].strip())):
        return found.group(1), found.group(2) + found.group(3)
    return jetson() or ('unknown', '')


def compiles_for(capability):
    """Whether nvcc knows such GPUs. Newer ones run what it has compiled for all others."""
    return bool(capability) and f'compute_{capability}' in output(find_nvcc(), '--list-gpu-arch').split()


def versions():
    """Of nvcc and of the driver."""
    release = re.search(r'release ([\d.]+)', output(find_nvcc(), '--version')) if find_nvcc() else None
    driver = output('nvidia-smi', '--query-gpu=driver_version', '--format=csv,noheader').splitlines()
    return {'cuda': release.group(1) if release else '', 'driver': driver[0].strip() if driver else ''}
