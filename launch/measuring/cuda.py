"""The CUDA installation of this machine."""
import os
import pathlib
import shutil
import subprocess


def find_nvcc():
    homes = [os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda']
    return shutil.which('nvcc') or next((str(p) for home in homes if home and (p := pathlib.Path(home, 'bin/nvcc')).exists()), None)


def missing():
    """What is missing on this machine for computing on a GPU, one line each."""
    lines = []
    if not find_nvcc():
        lines.append('no nvcc: install CUDA (a Jetson: sudo apt install nvidia-jetpack), or set CUDA_HOME')
    if not any(pathlib.Path(p).exists() for p in ('/dev/nvidia0', '/dev/nvhost-gpu', '/etc/nv_tegra_release')):
        lines.append('no NVIDIA card: neither /dev/nvidia0 nor a Jetson; in a container, pass the card through (docker run --gpus all)')
    return lines


def card():
    """The GPU's name and compute capability, if nvidia-smi prints them."""
    try:
        said = subprocess.run(['nvidia-smi', '--query-gpu=name,compute_cap', '--format=csv,noheader'], capture_output=True, text=True, check=True)
        name, capability = said.stdout.splitlines()[0].split(', ')
        return name, capability.replace('.', '')
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 'unknown', ''
