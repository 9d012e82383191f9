#!/bin/sh
# Builds the kernels and their tests for aarch64 and runs them under emulation: with all instructions, and without dot products. Arguments:
# source directory, build directory, GoogleTest's sources, cross compiler, qemu-aarch64.
set -eu
source=$1 build=$2 gtest=$3 cxx=$4 qemu=$5
mkdir -p "$build"
flags="-std=c++20 -O2 -ffp-contract=off -fno-math-errno -I$source"
objects=
compile() {  # object name, source file, further flags
  output=$build/$1.o input=$2
  shift 2
  if [ ! -e "$output" ] || [ -n "$(find "$source/node" "$source/tests/node/cpu" "$input" -name '*.[chs]*' -newer "$output")" ]; then
    "$cxx" $flags "$@" -c "$input" -o "$output"
  fi
  objects="$objects $output"
}
for name in tensor_type dequantize repack isa kernels_scalar kernels_neon probe_scalar probe_neon; do
  compile "$name" "$(find "$source/node" -name "$name.cpp")"
done
for name in kernels_neon_dotprod probe_neon_dotprod; do
  compile "$name" "$(find "$source/node" -name "$name.cpp")" -march=armv8.2-a+dotprod
done
for name in kernels_neon_i8mm probe_neon_i8mm; do
  compile "$name" "$(find "$source/node" -name "$name.cpp")" -march=armv8.2-a+dotprod+i8mm
done
for name in support kernels_test ops_test dequantize_test probe_test; do
  compile "$name" "$(find "$source/tests/node/cpu" -name "$name.cpp")" -I"$gtest/include"
done
compile gtest "$gtest/src/gtest-all.cc" -I"$gtest" -I"$gtest/include"
compile gtest_main "$gtest/src/gtest_main.cc" -I"$gtest/include"
"$cxx" -static $objects -o "$build/cpu_test" -pthread
"$qemu" -cpu max "$build/cpu_test"
"$qemu" -cpu cortex-a72 "$build/cpu_test"
