#!/bin/sh
# Checks that the kernels of every instruction set still prefetch, in matrix products and in attention. Compilers may remove a function that
# only prefetches, and no result would show it. Arguments: objdump, the kernels' library.
set -eu
"$1" -d -C "$2" | awk '
  # "kernels_avx2.cpp.o:", or of LLVM "libyamata_kernels.a(kernels_avx2.cpp.o):"
  /file format/ { object = $1; gsub(/^.*\(|\)?:$/, "", object); if (object ~ /^kernels_/ && object !~ /scalar/) objects[object] }
  />:$/ { products = /multiply_panels/ }
  /\t(prefetch|prfm)/ { if (products) in_products[object]++; else in_attention[object]++ }
  END {
    for (object in objects) {
      printf "%s prefetches: %d in matrix products, %d in attention\n", object, in_products[object], in_attention[object]
      if (!in_products[object] || !in_attention[object]) missing = 1
      found = 1
    }
    exit missing || !found
  }'
