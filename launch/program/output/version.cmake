# Writes version.cpp, at build time: cmake -DVERSION=... -DSOURCE=FOLDER -DOUT=FILE -P version.cmake
# The file is only rewritten if it changes, so that a commit costs the compilation of this unit. Where the sources were copied without
# their repository, the environment variable YAMATA_COMMIT names the commit.
cmake_minimum_required(VERSION 3.22)
set(commit unknown)
if(DEFINED ENV{YAMATA_COMMIT})
  set(commit $ENV{YAMATA_COMMIT})
endif()
find_package(Git QUIET)
if(GIT_FOUND)
  # Sources that were unpacked within another repository have no commit.
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed OUTPUT_VARIABLE below
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND below STREQUAL "")
    execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --exclude=* --abbrev=10 WORKING_DIRECTORY ${SOURCE}
      RESULT_VARIABLE failed OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
      set(commit ${described})
    endif()
  endif()
endif()
set(text "// Written by launch/program/output/version.cmake.
#include \"launch/program/output/version.hpp\"

namespace yamata {

const char* version() { return \"${VERSION}\"; }
const char* commit() { return \"${commit}\"; }

}  // namespace yamata
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
