# Finds nvcc, and compiles the kernels with it: YAMATA_HAS_CUDA, yamata_cuda. nvcc is called as any program is, since CMake's own support of
# CUDA looks for a compiler whether one is asked for or not.
set(YAMATA_HAS_CUDA OFF)
find_program(YAMATA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
set(card_here OFF)
if(EXISTS /dev/nvidia0 OR EXISTS /dev/nvhost-gpu OR EXISTS /etc/nv_tegra_release)
  set(card_here ON)
endif()
if(YAMATA_CUDA STREQUAL "OFF" OR (YAMATA_CUDA STREQUAL "AUTO" AND NOT (YAMATA_NVCC AND card_here)))
  return()
endif()
if(NOT YAMATA_NVCC)
  message(FATAL_ERROR "YAMATA_CUDA=ON, but there is no nvcc: install CUDA, or set CUDA_HOME to where it is")
endif()

get_filename_component(cuda_home "${YAMATA_NVCC}" REALPATH)
get_filename_component(cuda_home "${cuda_home}/../.." ABSOLUTE)
execute_process(COMMAND ${YAMATA_NVCC} --list-gpu-arch OUTPUT_VARIABLE known_architectures)
set(architectures ${YAMATA_CUDA_ARCHITECTURES})
if(NOT architectures)
  foreach(architecture 70 72 75 80 86 87 89 90 100 110 120)
    if(known_architectures MATCHES "compute_${architecture}")
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
endif()
set(code)
foreach(architecture ${architectures})
  list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET architectures -1 newest)
list(APPEND code -gencode arch=compute_${newest},code=compute_${newest})  # for cards that come after
message(STATUS "CUDA: ${YAMATA_NVCC}, for ${architectures}")

# -fmad=false: fused multiply-adds stand in the source.
set(nvcc_flags -std=c++17 -O3 -fmad=false --expt-relaxed-constexpr -Wno-deprecated-gpu-targets -Werror all-warnings -Xcompiler -Wall,-fPIC
  -I${CMAKE_SOURCE_DIR})
set(objects)
foreach(source ${kernel_sources})
  string(REPLACE "/" "_" name ${source})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${YAMATA_NVCC} ${nvcc_flags} ${code} -MD -MF ${object}.d -MT ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d COMMENT "nvcc ${source}" VERBATIM)
  list(APPEND objects ${object})
endforeach()
add_library(yamata_cuda STATIC EXCLUDE_FROM_ALL copy_stream.cpp cuda_device.cpp ${objects})
set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_include_directories(yamata_cuda SYSTEM PRIVATE ${cuda_home}/include)
find_library(YAMATA_CUDART cudart_static HINTS ${cuda_home}/lib64 ${cuda_home}/targets/x86_64-linux/lib
  ${cuda_home}/targets/aarch64-linux/lib REQUIRED)
target_link_libraries(yamata_cuda PUBLIC yamata_device_unit ${YAMATA_CUDART} fmt::fmt Threads::Threads ${CMAKE_DL_LIBS} rt)
set(YAMATA_HAS_CUDA ON)
